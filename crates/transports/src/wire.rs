//! What carries frames and what protects them, together.

use crate::config::{ConfigError, WireSettings};
use crate::{Endpoint, Endpoints, SetupError, Transport, TransportKind};
use quorate_channels::{ChannelConfig, ChannelKind, LocalEnd};
use quorate_types::identity::{Signer, Verifier};
use quorate_types::{Address, ClientId, Committee};
use std::io;
use std::sync::Arc;
use thiserror::Error;

/// A transport, the channel on it, and the settings of both.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Wire {
    /// What carries frames.
    pub transport: TransportKind,
    /// What protects them.
    pub channel: ChannelKind,
    /// How links are treated.
    pub settings: WireSettings,
}

/// Why a transport and a channel cannot be used together. All of them have to do with the channel that was chosen.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{what}; {help}")]
pub struct WireError {
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub help: String,
}

impl Wire {
    /// Refuses a channel that the transport has no use for, and whatever leaves open who sent a frame: votes are
    /// counted by their senders and verified a quorum at a time, and some messages of PBFT are not signed at all.
    ///
    /// # Errors
    /// [`WireError`] with what is wrong and what to do.
    pub fn fits(&self) -> Result<(), WireError> {
        let (transport, channel) = (self.transport.profile(), self.channel.profile());
        let names = (transport.name, channel.name);
        match transport.own_channel {
            Some(own) if own != channel.name => {
                let what = format!("is `{}`, but {} has a channel of its own, `{own}`", names.1, names.0);
                return Err(WireError { what, help: format!("set `{own}`") });
            }
            None if !channel.over.contains(&transport.carriage) => {
                let what = format!("is `{}`, which does not work over {}: {}", names.1, transport.carriage, names.0);
                return Err(WireError { what, help: suggestion(self.transport) });
            }
            _ => {}
        }
        if !tells_senders(self.transport, self.channel) {
            let what = format!(
                "is `{}`, which does not say of each frame who sent it, and over {} anybody may send one in \
                 another's name",
                names.1, names.0
            );
            return Err(WireError { what, help: suggestion(self.transport) });
        }
        Ok(())
    }

    /// Names the first setting that cannot be, whichever the transport is.
    ///
    /// # Errors
    /// [`ConfigError`] with the setting.
    pub fn validate_settings(&self) -> Result<(), ConfigError> {
        self.settings.validate()
    }

    /// Binds an address for this transport.
    ///
    /// # Errors
    /// What the operating system says of the address.
    pub fn listen(&self, address: &Address) -> io::Result<Endpoint> {
        self.transport.carrier().listen(address)
    }

    /// The transport of a replica: of the one whose key `signer` has.
    ///
    /// # Errors
    /// If the wire [does not fit](Wire::fits), a setting cannot be, or the operating system refuses something.
    pub fn replica(
        &self,
        committee: &Committee,
        endpoints: Endpoints,
        signer: Arc<dyn Signer>,
        verifier: Arc<dyn Verifier>,
    ) -> Result<Box<dyn Transport>, SetupError> {
        let end = self.end(committee, LocalEnd::Replica(signer), verifier)?;
        self.transport.carrier().replica(committee, endpoints, end, self.settings.clone())
    }

    /// The transport of a client, which dials every replica.
    ///
    /// # Errors
    /// If the wire [does not fit](Wire::fits), a setting cannot be, or the operating system refuses something.
    pub fn client(
        &self,
        committee: &Committee,
        client: ClientId,
        verifier: Arc<dyn Verifier>,
    ) -> Result<Box<dyn Transport>, SetupError> {
        let end = self.end(committee, LocalEnd::Client(client), verifier)?;
        self.transport.carrier().client(committee, end, self.settings.clone())
    }

    fn end(
        &self,
        committee: &Committee,
        me: LocalEnd,
        verifier: Arc<dyn Verifier>,
    ) -> Result<ChannelConfig, WireError> {
        self.fits()?;
        Ok(ChannelConfig { kind: self.channel, cluster: committee.cluster, me, verifier })
    }
}

/// Whether each frame is known to come from whom the handshake proved.
fn tells_senders(transport: TransportKind, channel: ChannelKind) -> bool {
    channel.profile().authenticates_frames || transport.profile().guards_links
}

/// The channels of the list that a transport can be used with.
fn suggestion(transport: TransportKind) -> String {
    let carriage = transport.profile().carriage;
    let fits =
        |channel: &&ChannelKind| channel.profile().over.contains(&carriage) && tells_senders(transport, **channel);
    let names: Vec<String> = ChannelKind::ALL.iter().filter(fits).map(|kind| format!("`{kind}`")).collect();
    match &names[..] {
        [] => "choose another transport: no channel of this version fits".to_owned(),
        names => format!("set {}", names.join(" or ")),
    }
}
