//! Registered transports and channels, and their valid combinations.

use quorate_network::channels::{
    Carriage, Channel, ChannelConfig, ChannelError, ChannelKind, ChannelProfile, ChannelSuite, NONCE_BYTES, Side,
};
use quorate_network::transports::{
    Carrier, Endpoint, Endpoints, LinkConfig, SetupError, Transport, TransportKind, TransportProfile, Wire,
    WireSettings,
};
use quorate_types::{Address, Committee};
use std::io;
use std::net::{TcpListener, UdpSocket};

/// A transport that consists of a profile only.
struct Paper(TransportProfile);

impl Carrier for Paper {
    fn profile(&self) -> &TransportProfile {
        &self.0
    }
    fn listen(&self, _: &Address) -> io::Result<Endpoint> {
        unreachable!("a profile cannot listen")
    }
    fn replica(
        &self,
        _: &Committee,
        _: Endpoints,
        _: ChannelConfig,
        _: WireSettings,
    ) -> Result<Box<dyn Transport>, SetupError> {
        unreachable!("a profile cannot run")
    }
    fn client(&self, _: &Committee, _: ChannelConfig, _: WireSettings) -> Result<Box<dyn Transport>, SetupError> {
        unreachable!("a profile cannot run")
    }
}

const fn paper(
    name: &'static str,
    carriage: Carriage,
    own_channel: Option<&'static str>,
    guards_links: bool,
) -> TransportProfile {
    TransportProfile {
        name,
        summary: "a toy",
        carriage,
        own_channel,
        guards_links,
        keeps_order: true,
        repairs_losses: true,
    }
}

static DATAGRAMS: Paper = Paper(paper("paper-datagrams", Carriage::Datagrams, None, false));
static OPEN_STREAM: Paper = Paper(paper("paper-stream", Carriage::Stream, None, false));
static WITH_CHANNEL: Paper = Paper(paper("paper-quic", Carriage::Datagrams, Some("paper-tls"), false));

/// A channel that consists of a profile only.
struct PaperChannel(ChannelProfile);

impl ChannelSuite for PaperChannel {
    fn profile(&self) -> &ChannelProfile {
        &self.0
    }
}

const fn profile(name: &'static str, over: &'static [Carriage], authenticates_frames: bool) -> ChannelProfile {
    ChannelProfile { name, summary: "a toy", over, encrypts: true, authenticates_frames, guards_packets: false }
}

static STREAM_CHANNEL: PaperChannel = PaperChannel(profile("paper-tls", &[Carriage::Stream], true));
static DATAGRAM_CHANNEL: PaperChannel = PaperChannel(profile("paper-dtls", &[Carriage::Datagrams], true));
static HELLO_ONLY: PaperChannel = PaperChannel(profile("paper-hello", &[Carriage::Datagrams], false));

/// Returns why the two cannot be combined, if they cannot.
fn refused(transport: &'static dyn Carrier, channel: &'static dyn ChannelSuite) -> Option<String> {
    let (transport, channel) = (TransportKind::of(transport), ChannelKind::of(channel));
    Wire { transport, channel, ..Wire::default() }.fits().err().map(|error| error.to_string())
}

#[test]
fn every_registered_name_is_parsed_and_others_are_refused_with_the_list() {
    for kind in TransportKind::ALL {
        assert_eq!(kind.name().parse(), Ok(*kind));
    }
    for kind in ChannelKind::ALL {
        assert_eq!(kind.name().parse(), Ok(*kind));
    }
    let unknown = "tpc".parse::<TransportKind>().expect_err("the transport is unknown").to_string();
    assert!(unknown.contains("`tpc`") && unknown.contains("tcp"), "{unknown}");
}

#[test]
fn the_default_wire_is_valid() {
    assert_eq!(Wire::default().fits(), Ok(()));
    assert_eq!(Wire::default().validate_settings(), Ok(()));
}

#[test]
fn a_channel_works_only_over_its_carriages() {
    let why = refused(&DATAGRAMS, &STREAM_CHANNEL).expect("a channel for streams is refused over datagrams");
    assert!(why.contains("`paper-tls`") && why.contains("datagrams") && why.contains("paper-datagrams"), "{why}");
    assert_eq!(refused(&OPEN_STREAM, &STREAM_CHANNEL), None);
    assert_eq!(refused(&DATAGRAMS, &DATAGRAM_CHANNEL), None);
    assert!(refused(TransportKind::TCP.carrier(), &DATAGRAM_CHANNEL).is_some_and(|why| why.contains("set `plain`")));
}

#[test]
fn a_kernel_without_sctp_is_one_error_with_the_alternative() {
    let wire = Wire { transport: TransportKind::SCTP_KERNEL, ..Wire::default() };
    assert_eq!(wire.fits(), Ok(()));
    assert!(
        refused(wire.transport.carrier(), &DATAGRAM_CHANNEL).is_some_and(|why| why.contains("set `plain` or `tls`"))
    );
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    match wire.listen(&address.into()) {
        Ok(endpoint) => assert_ne!(endpoint.address().expect("it is bound").port(), 0),
        Err(error) => assert_eq!(
            error.to_string(),
            "this kernel has no SCTP; help: load its module `sctp`, or set the transport `sctp`, which runs in user \
             space"
        ),
    }
}

#[test]
fn a_transport_with_its_own_channel_accepts_no_other() {
    assert_eq!(refused(&WITH_CHANNEL, &STREAM_CHANNEL), None, "its own channel was refused");
    let why = refused(&WITH_CHANNEL, &DATAGRAM_CHANNEL).expect("another channel");
    assert!(why.contains("of its own, `paper-tls`; help: set `paper-tls`"), "{why}");
}

#[test]
fn combinations_without_authenticated_senders_are_refused() {
    let hello_only: &dyn ChannelSuite = &HELLO_ONLY;
    for (transport, channel, help) in
        [(&DATAGRAMS, hello_only, "set `plain`"), (&OPEN_STREAM, ChannelKind::PLAIN.suite(), "set `tls`")]
    {
        let why = refused(transport, channel).expect("unauthenticated senders are refused");
        assert!(why.contains("who sent each frame") && why.contains(help), "{why}");
    }
}

#[test]
fn an_endpoint_is_accepted_only_by_its_transport() {
    let stream = Endpoint::from(TcpListener::bind("127.0.0.1:0").expect("a free port"));
    assert!(stream.address().expect("the endpoint is bound").port() > 0);
    let why = stream.into_datagrams().expect_err("a listener is not a socket for datagrams").to_string();
    assert!(why.contains("streams") && why.contains("datagrams"), "{why}");
    let datagrams = Endpoint::from(UdpSocket::bind("127.0.0.1:0").expect("a free port"));
    assert!(datagrams.into_listener().is_err());
}

#[test]
fn an_invalid_setting_is_named_with_its_table() {
    let settings = WireSettings::from(LinkConfig { client_window_bytes: 0, ..LinkConfig::default() });
    let why = Wire { settings, ..Wire::default() }.validate_settings().expect_err("no window").to_string();
    assert!(why.contains("`links.client_window_bytes`: is 0"), "{why}");
    let mut settings = WireSettings::default();
    settings.tcp.silent_remote_ms = 0;
    let why = Wire { settings, ..Wire::default() }.validate_settings().expect_err("no patience").to_string();
    assert!(why.contains("`tcp.silent_remote_ms`: is 0"), "{why}");
}

#[test]
fn a_channel_that_does_not_work_over_streams_is_refused() {
    let end = quorate_testkit::ends::client_end(quorate_types::ClusterId::from_name("paper"), 1);
    let kind = ChannelKind::of(&DATAGRAM_CHANNEL);
    let end = ChannelConfig { kind, ..end };
    let opened: Result<Box<dyn Channel>, ChannelError> =
        kind.suite().over_stream(&end, Side::Initiator { expects: quorate_types::ReplicaId(0) }, [1; NONCE_BYTES]);
    let why = opened.err().expect("opening the channel is refused").to_string();
    assert!(why.contains("paper-dtls") && why.contains("a stream"), "{why}");
}
