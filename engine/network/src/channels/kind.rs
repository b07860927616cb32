//! The list of channel kinds.

use crate::channels::dtls::Dtls;
use crate::channels::plain_kind::Plain;
use crate::channels::suite::{ChannelProfile, ChannelSuite};
use crate::channels::tls::Tls;

/// Copyable handle to a channel kind, listed or not, compared by name.
#[derive(Clone, Copy)]
pub struct ChannelKind(&'static dyn ChannelSuite);

impl ChannelKind {
    /// An authenticated handshake, then unprotected bytes: see [`plain`](crate::channels::plain).
    pub const PLAIN: ChannelKind = ChannelKind::of(&Plain);

    /// TLS 1.3 with an authenticated handshake inside: see [`tls`](crate::channels::tls).
    pub const TLS: ChannelKind = ChannelKind::of(&Tls);

    /// DTLS 1.3 with an authenticated handshake inside: see [`dtls`](crate::channels::dtls).
    pub const DTLS: ChannelKind = ChannelKind::of(&Dtls);

    /// Every kind, in the order in which errors list them.
    pub const ALL: &'static [ChannelKind] = &[ChannelKind::PLAIN, ChannelKind::TLS, ChannelKind::DTLS];

    /// Returns a handle to an unlisted kind. Its name must be unique.
    pub const fn of(suite: &'static dyn ChannelSuite) -> ChannelKind {
        ChannelKind(suite)
    }

    /// Returns the factory for channels of this kind.
    pub fn suite(self) -> &'static dyn ChannelSuite {
        self.0
    }

    pub fn profile(self) -> &'static ChannelProfile {
        self.0.profile()
    }

    /// Returns the name used in configurations.
    pub fn name(self) -> &'static str {
        self.profile().name
    }
}

impl Default for ChannelKind {
    fn default() -> ChannelKind {
        ChannelKind::PLAIN
    }
}

quorate_types::named_handle!(ChannelKind, "channel");
