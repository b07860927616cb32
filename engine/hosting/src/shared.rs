//! Settings that replicas and their clients have in common.

use quorate_types::settings::{CLUSTER, Flag, Key, With, at, keys, tree};
use quorate_types::{Dissemination, Parameters};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Key of the way in which clients disseminate commands, among the values that they compare.
pub const DISSEMINATION_KEY: &str = "dissemination";

/// Declares a configuration with the settings that replicas and clients have in common, and with fields of its own.
///
/// Each key is declared here alone. Those marked `"x-client"` are compared when a client connects
/// ([`client_terms`](crate::client_terms)). Serde's `flatten` would do it with a field of the type [`SharedSettings`],
/// but accepts unknown keys, and its errors have no position.
#[macro_export]
macro_rules! shared_settings {
    (
        @declare { $(#[$meta:meta])* pub struct $name:ident { $($own:tt)* } }
        $($(#[$of:meta])* $field:ident: $type:ty,)*
    ) => {
        $(#[$meta])*
        pub struct $name {
            $($(#[$of])* pub $field: $type,)*
            $($own)*
            /// The committee, in the order of the replica ids.
            pub members: Vec<quorate_types::Member>,
        }

        impl $name {
            /// Returns the settings that replicas and clients have in common.
            pub fn shared(&self) -> quorate_hosting::SharedSettings {
                quorate_hosting::SharedSettings {
                    $($field: Clone::clone(&self.$field),)*
                    members: self.members.clone(),
                }
            }

            /// Replaces the settings that replicas and clients have in common.
            pub fn set_shared(&mut self, shared: quorate_hosting::SharedSettings) {
                $(self.$field = shared.$field;)*
                self.members = shared.members;
            }
        }
    };
    ($(#[$meta:meta])* pub struct $name:ident { $($own:tt)* }) => {
        $crate::shared_settings! {
            @declare { $(#[$meta])* pub struct $name { $($own)* } }
            /// Name of the cluster. Replicas' signatures are invalid in every cluster that has another name, another
            /// member, key or order of members, or other `faults`, `protocol` or schemes. Clients' signatures depend on
            /// the name alone.
            #[schemars(extend("x-cluster" = "shown"))]
            cluster: String,
            /// Number of replicas that may be faulty. A client believes a reply that one more replica gave. Absent: the
            /// maximum for the number of members, floor((n-1)/3).
            #[schemars(extend("x-cluster" = true, "x-flag" = quorate_hosting::shared::flag().value("F")))]
            #[serde(default, skip_serializing_if = "Option::is_none")]
            faults: Option<usize>,
            /// Signature scheme of the replicas' votes. `rsa-1024` is weak, and `none` protects nothing: they are for
            /// measurements.
            #[schemars(extend("x-cluster" = true, "x-flag" = quorate_hosting::shared::flag().common()))]
            #[serde(default = "quorate_hosting::shared::scheme_of_votes")]
            scheme: quorate_crypto::SchemeKind,
            /// Authentication between replicas. `pk`: signatures on votes. `mac` and `domain`: MACs on votes, and
            /// signatures on messages that third parties see, with the protocol `pbft-mac`.
            #[schemars(extend("x-cluster" = true, "x-flag" = quorate_hosting::shared::flag()))]
            #[serde(default)]
            auth_profile: quorate_crypto::AuthProfile,
            /// Scheme of the MACs: `hmac-sha256` or `aes-256-cmac`.
            #[schemars(extend("x-cluster" = true, "x-client" = true))]
            #[schemars(extend("x-flag" = quorate_hosting::shared::flag().rare()))]
            #[schemars(extend("x-with" = quorate_hosting::shared::with_macs()))]
            #[serde(default = "quorate_hosting::shared::scheme_of_macs")]
            mac_scheme: quorate_crypto::SchemeKind,
            /// Authentication of clients' bundles. `ed25519`: the client signs each bundle with its key, and unsigned
            /// bundles are refused. `mac`, with the profile `mac`: each bundle has a MAC for each replica. `none`, for
            /// measurements: anyone can submit bundles in any client's name.
            #[schemars(extend("x-cluster" = true, "x-client" = true, "x-flag" = quorate_hosting::shared::flag()))]
            #[serde(default)]
            client_authentication: quorate_crypto::ClientAuthentication,
            /// Authentication of replies to clients. `channel`: by the channel alone. `signature`: the replica signs,
            /// with its key of `scheme`, the replies that leave to one client together, and the client can show them to
            /// others. `mac`: the replica adds a MAC of `mac_scheme` for the client.
            #[schemars(extend("x-cluster" = true, "x-client" = true))]
            #[schemars(extend("x-flag" = quorate_hosting::shared::flag().rare()))]
            #[serde(default)]
            reply_authentication: quorate_crypto::ReplyAuthentication,
            /// Transport of frames.
            #[schemars(extend("x-cluster" = "shown", "x-flag" = quorate_hosting::shared::flag().common()))]
            #[serde(default)]
            transport: quorate_network::transports::TransportKind,
            /// Channel that protects the frames.
            #[schemars(extend("x-cluster" = "shown", "x-flag" = quorate_hosting::shared::flag().common()))]
            #[serde(default)]
            channel: quorate_network::channels::ChannelKind,
            /// Application that executes the commands.
            #[schemars(extend("x-cluster" = true, "x-client" = true))]
            #[serde(default)]
            application: quorate_applications::ApplicationKind,
            /// Digest of the state with which the application begins, in hexadecimal. `quorate snapshot restore` writes
            /// it, and that state to the file `initial.state` in the directory of each replica. Absent: the application
            /// begins empty.
            #[schemars(with = "Option<String>", extend("x-cluster" = true, "x-added" = "0.1.0"))]
            #[serde(default, skip_serializing_if = "Option::is_none")]
            initial_state: Option<quorate_types::Digest>,
            /// Replies to clients: from `each` replica, or `none` except acknowledgements of replica 0, for
            /// measurements.
            #[schemars(extend("x-cluster" = true, "x-client" = true))]
            #[schemars(extend("x-flag" = quorate_types::settings::Flag::under(quorate_types::settings::LOAD)))]
            #[serde(default)]
            reply: quorate_types::ReplyMode,
            /// Settings of the transports over UDP; see [`PacketConfig`](quorate_network::transports::PacketConfig).
            #[serde(default)]
            packets: quorate_network::transports::PacketConfig,
            /// Settings of the transports that retransmit themselves; see
            /// [`RetransmissionConfig`](quorate_network::transports::RetransmissionConfig).
            #[serde(default)]
            retransmission: quorate_network::transports::RetransmissionConfig,
            /// Settings of the QUIC transport; see [`QuicConfig`](quorate_network::transports::QuicConfig).
            #[serde(default)]
            quic: quorate_network::transports::QuicConfig,
        }
    };
}

shared_settings! {
    /// Settings that replicas and their clients have in common.
    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    pub struct SharedSettings {}
}

/// Returns the declaration of a flag for a setting of the cluster.
pub fn flag() -> Flag<'static> {
    Flag::under(CLUSTER)
}

/// Returns the condition under which votes, bundles or replies have MACs.
pub fn with_macs() -> With {
    let of_votes = With::one("auth_profile", &["mac", "domain"]);
    of_votes.or(With::one("client_authentication", &["mac"])).or(With::one("reply_authentication", &["mac"]))
}

/// Returns the default scheme of votes.
pub fn scheme_of_votes() -> quorate_crypto::SchemeKind {
    quorate_crypto::SchemeKind::ED25519
}

/// Returns the default scheme of MACs.
pub fn scheme_of_macs() -> quorate_crypto::SchemeKind {
    quorate_crypto::SchemeKind::HMAC_SHA256
}

/// Returns the values that clients and replicas compare when a client connects, besides the genesis: all keys marked
/// `"x-client"` that have an effect, and how the client disseminates commands.
pub fn client_terms(settings: &SharedSettings, dissemination: Dissemination) -> Parameters {
    let tree = tree(settings);
    let has_effect = |key: &&Key| key.idle_because(|path| at(&tree, path).cloned()).is_none();
    let is_compared = |key: &&Key| !key.is_as_before(at(&tree, &key.path));
    let of_clients = keys::<SharedSettings>().iter().filter(|key| key.mark("x-client").is_some());
    let compared = of_clients.filter(has_effect).filter(is_compared);
    let values = compared.filter_map(|key| Some((key.name(), at(&tree, &key.path)?.as_str()?.to_owned())));
    Parameters::new(values.chain([(DISSEMINATION_KEY, dissemination.to_string())]))
}
