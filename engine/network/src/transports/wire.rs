//! A transport together with the channel that protects it.

use crate::channels::{Carriage, ChannelConfig, ChannelKind, LocalEnd, Sessions, Versions};
use crate::transports::config::WireSettings;
use crate::transports::error::{SetupError, WireError};
use crate::transports::setting::ConfigError;
use crate::transports::{Endpoint, Endpoints, Transport, TransportKind};
use quorate_types::identity::{Signer, Verifier};
use quorate_types::{Address, ClientId, Committee, Parameters};
use std::io;
use std::sync::Arc;

/// The key to change if a transport and a channel cannot be combined.
const CHANNEL: &str = "channel";

/// A transport, the channel over it, and the settings of both.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Wire {
    pub transport: TransportKind,
    pub channel: ChannelKind,
    pub settings: WireSettings,
}

impl Wire {
    /// Rejects a channel that does not work with the transport, and any combination that leaves the sender of a frame
    /// unproved. Such a proof is necessary because votes are counted by sender and verified a quorum at a time, and
    /// some PBFT messages are not signed.
    ///
    /// # Errors
    /// [`WireError`] with the problem and its solution.
    pub fn fits(&self) -> Result<(), WireError> {
        let (transport, channel) = (self.transport.profile(), self.channel.profile());
        let names = (transport.name, channel.name);
        match transport.own_channel {
            Some(own) if own != channel.name => {
                let what = format!("is `{}`, but {} has a channel of its own, `{own}`", names.1, names.0);
                return Err(WireError::new(CHANNEL, what, format!("set `{own}`")));
            }
            None if !channel.over.contains(&transport.carriage) => {
                let what = format!("is `{}`, which does not work over {}: {}", names.1, transport.carriage, names.0);
                return Err(WireError::new(CHANNEL, what, suggestion(self.transport)));
            }
            _ => {}
        }
        if !tells_senders(self.transport, self.channel) {
            let what = format!(
                "is `{}`, which does not prove who sent each frame, and over {} anyone may send one in another's \
                 name",
                names.1, names.0
            );
            return Err(WireError::new(CHANNEL, what, suggestion(self.transport)));
        }
        Ok(())
    }

    /// Returns whether votes between replicas may overtake other frames, and stay lost until the view changes.
    pub fn loses_votes(&self) -> bool {
        let association = self.transport.carrier().association();
        let apart = association.is_some_and(|association| association.loses_votes(&self.settings));
        apart || !self.transport.profile().repairs_losses
    }

    /// Validates the settings of all transports.
    ///
    /// # Errors
    /// [`ConfigError`] for the first invalid setting.
    pub fn validate_settings(&self) -> Result<(), ConfigError> {
        self.settings.validate()
    }

    /// Binds an address for this transport.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub fn listen(&self, address: &Address) -> io::Result<Endpoint> {
        self.transport.carrier().listen(address)
    }

    /// Creates the transport of the replica that owns `signer`. It connects only to replicas with equal parameters.
    ///
    /// # Errors
    /// If the wire [does not fit](Wire::fits), a setting is invalid, or a system call fails.
    pub fn replica(
        &self,
        committee: &Committee,
        parameters: Parameters,
        endpoints: Endpoints,
        signer: Arc<dyn Signer>,
        verifier: Arc<dyn Verifier>,
    ) -> Result<Box<dyn Transport>, SetupError> {
        self.validate_settings()?;
        let end = self.end(committee, parameters, LocalEnd::Replica(signer), verifier)?;
        self.transport.carrier().replica(committee, endpoints, end, self.settings.clone())
    }

    /// Creates the transport of a client, which dials every replica.
    ///
    /// # Errors
    /// If the wire [does not fit](Wire::fits), a setting is invalid, or a system call fails.
    pub fn client(
        &self,
        committee: &Committee,
        client: ClientId,
        verifier: Arc<dyn Verifier>,
    ) -> Result<Box<dyn Transport>, SetupError> {
        self.validate_settings()?;
        let end = self.end(committee, Parameters::default(), LocalEnd::Client(client), verifier)?;
        self.transport.carrier().client(committee, end, self.settings.clone())
    }

    fn end(
        &self,
        committee: &Committee,
        parameters: Parameters,
        me: LocalEnd,
        verifier: Arc<dyn Verifier>,
    ) -> Result<ChannelConfig, WireError> {
        self.fits()?;
        let key_update_records = self.settings.links.key_update_records;
        let (kind, sessions) = (self.channel, Sessions::kept());
        let versions = Versions::up_to(self.settings.links.newest_wire_version);
        let Committee { cluster, epoch, .. } = *committee;
        Ok(ChannelConfig { kind, cluster, epoch, parameters, versions, me, verifier, key_update_records, sessions })
    }
}

/// Returns whether each frame provably comes from the authenticated remote.
fn tells_senders(transport: TransportKind, channel: ChannelKind) -> bool {
    let (transport, channel) = (transport.profile(), channel.profile());
    let guarded = transport.carriage == Carriage::Datagrams && channel.guards_packets;
    channel.authenticates_frames || transport.guards_links || guarded
}

/// Returns the listed channels that work with a transport.
fn suggestion(transport: TransportKind) -> String {
    let carriage = transport.profile().carriage;
    let fits =
        |channel: &&ChannelKind| channel.profile().over.contains(&carriage) && tells_senders(transport, **channel);
    let names: Vec<String> = ChannelKind::ALL.iter().filter(fits).map(|kind| format!("`{kind}`")).collect();
    match &names[..] {
        [] => "choose another transport: no channel of this version works with it".to_owned(),
        names => format!("set {}", names.join(" or ")),
    }
}
