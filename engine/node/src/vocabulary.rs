//! The events of a replica and of a signer as the log names them: `docs/LOGS.md` lists this table.

use crate::observer::NodeEvent;
use crate::signer::SignerEvent;
use quorate_network::transports::{PathChange, Remote};
use quorate_types::{Height, ReplicaId, View};
use tracing::Level;

/// An event's name, level, target and fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Named {
    /// Value of the field `event`.
    pub name: &'static str,
    pub level: Level,
    /// Part of the target after `quorate::`.
    pub target: &'static str,
    /// Fields besides `event`, `replica`, `left_out` and the message.
    pub fields: &'static [&'static str],
    pub meaning: &'static str,
}

macro_rules! vocabulary {
    ($($constant:ident = $name:literal, $level:ident, $target:literal, [$($field:literal),*], $meaning:literal;)*) => {
        $(const $constant: Named = Named {
            name: $name,
            level: Level::$level,
            target: $target,
            fields: &[$($field),*],
            meaning: $meaning,
        };)*

        /// All events, in the order of the reference.
        pub const VOCABULARY: &[Named] = &[$($constant),*];
    };
}

vocabulary! {
    LISTENING = "listening", INFO, "network", [], "The replica accepts connections.";
    CONNECTED = "connected", INFO, "network", ["peer"], "A replica has connected.";
    LOST = "lost", WARN, "network", ["peer"], "The link to a replica has closed.";
    CLIENT_CONNECTED = "client-connected", DEBUG, "network", [], "A client or an operator has connected.";
    CLIENT_LOST = "client-lost", DEBUG, "network", [], "The link to a client or an operator has closed.";
    PATH = "path", INFO, "network", ["peer"], "A link continues on another path.";
    PATH_LOST = "path-lost", WARN, "network", ["peer"], "Large packets to another end vanish.";
    UNAUTHENTICATED = "unauthenticated", WARN, "network", ["peer"], "A connection failed before it was authenticated.";
    DISAGREES = "disagrees", ERROR, "network", ["peer"], "Keys that must be equal differ: there is no link.";
    UNDECODABLE = "undecodable", WARN, "network", ["peer"], "A replica sent an invalid message.";
    FORGED = "forged", WARN, "network", ["peer"], "A replica forwarded a bundle that its client did not sign.";
    TIMED_OUT = "timed-out", WARN, "consensus", ["view"], "The replica timed out of a view.";
    EVIDENCE = "evidence", ERROR, "consensus", ["peer", "view"], "Two signed statements of a replica contradict.";
    HEARSAY = "hearsay", WARN, "consensus", ["peer", "view"], "The same with MACs, which prove nothing to others.";
    JOURNAL_LOST = "journal-lost", WARN, "consensus", [], "The journal was lost, so the replica does not vote.";
    ABSTAINS = "abstains", WARN, "consensus", ["view"], "The replica does not vote in views up to this one.";
    VOTES_AGAIN = "votes-again", INFO, "consensus", ["view"], "A replica votes again after it lost its journal.";
    VOIDED = "voided", WARN, "consensus", ["height"], "A block ran without a bundle that no replica has.";
    SIGNER_AWAY = "signer-away", WARN, "consensus", [], "The signer does not answer, so the replica does not vote.";
    SIGNER_BACK = "signer-back", INFO, "consensus", [], "The signer answers again.";
    SIGNER_REFUSES = "signer-refuses", WARN, "consensus", [], "The signer refuses a statement.";
    MISBEHAVES = "misbehaves", WARN, "consensus", [], "The replica misbehaves on purpose.";
    JOURNAL = "journal", WARN, "journal", [], "A finding about the journal or the states on the disk.";
    RESUMED = "resumed", INFO, "journal", ["view", "height"], "The replica continues from its journal.";
    STATE_NEEDED = "state-needed", INFO, "state", ["height"], "The replica fetches a state from its peers.";
    STATE_LISTED = "state-listed", INFO, "state", ["height"], "The chunks of that state are known.";
    STATE_ADOPTED = "state-adopted", INFO, "state", ["height"], "The replica has adopted a state from its peers.";
    CONFIG_WARNING = "config-warning", WARN, "replica", [], "A setting is valid, but inadvisable.";
    RELOADED = "reloaded", INFO, "replica", [], "The configuration was read again.";
    NOT_RELOADED = "not-reloaded", WARN, "replica", [], "The configuration was read again and is invalid.";
    LOG_LEVEL = "log-level", INFO, "replica", [], "The log has other levels from now on.";
    RECORDING = "recording", INFO, "replica", [], "Inputs and outputs are recorded in a file.";
    RECORDING_FULL = "recording-full", WARN, "replica", [], "The recording has reached its limit and ends.";
    STOPPED = "stopped", INFO, "replica", ["height"], "The replica has stopped as requested.";
    SIGNER_LISTENING = "signer-listening", INFO, "signer", [], "The signer accepts connections.";
    SIGNER_CONNECTED = "signer-connected", INFO, "signer", [], "A process has connected to the signer.";
    SIGNER_DISCONNECTED = "signer-disconnected", INFO, "signer", [], "A connection to the signer has ended.";
    SIGNER_STRANGER = "signer-stranger", WARN, "signer", [], "The signer turned away a process of another user.";
    SIGNER_CROWDED = "signer-crowded", WARN, "signer", [], "The signer turned away a process: too many are connected.";
    SIGNER_REFUSED = "signer-refused", WARN, "signer", [], "The signer refused a statement.";
}

/// Values of an event's fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fields {
    pub peer: Option<ReplicaId>,
    pub view: Option<View>,
    pub height: Option<Height>,
}

/// Returns how the log names an event of a replica.
pub fn named(event: &NodeEvent) -> Named {
    use NodeEvent as E;
    match event {
        E::Listening(_) => LISTENING,
        E::Connected(Remote::Replica(_)) => CONNECTED,
        E::Connected(_) => CLIENT_CONNECTED,
        E::Lost { remote: Remote::Replica(_), .. } => LOST,
        E::Lost { .. } => CLIENT_LOST,
        E::Path { change: PathChange::Vanish { .. }, .. } => PATH_LOST,
        E::Path { .. } => PATH,
        E::Unauthenticated { .. } => UNAUTHENTICATED,
        E::Disagrees { .. } => DISAGREES,
        E::Undecodable { .. } => UNDECODABLE,
        E::Forged { .. } => FORGED,
        E::TimedOut(_) => TIMED_OUT,
        E::Evidence(_) => EVIDENCE,
        E::Hearsay(_) => HEARSAY,
        E::Forgot => JOURNAL_LOST,
        E::Abstains { .. } => ABSTAINS,
        E::TakesPart(_) => VOTES_AGAIN,
        E::Voided { .. } => VOIDED,
        E::SignerAway(_) => SIGNER_AWAY,
        E::SignerBack { .. } => SIGNER_BACK,
        E::SignerRefuses(_) => SIGNER_REFUSES,
        E::Misbehaving(_) => MISBEHAVES,
        E::Journal(_) => JOURNAL,
        E::Restarted { .. } => RESUMED,
        E::FetchesState { .. } => STATE_NEEDED,
        E::ReceivesState { .. } => STATE_LISTED,
        E::AdoptedState { .. } => STATE_ADOPTED,
        E::ConfigWarning(_) => CONFIG_WARNING,
        E::Reloaded(_) => RELOADED,
        E::NotReloaded(_) => NOT_RELOADED,
        E::LogLevel(_) => LOG_LEVEL,
        E::Recording(_) => RECORDING,
        E::RecordingFull => RECORDING_FULL,
        E::Stopped { .. } => STOPPED,
    }
}

/// Returns how the log names an event of a signer.
pub fn named_of_signer(event: &SignerEvent) -> Named {
    match event {
        SignerEvent::Listening(_) => SIGNER_LISTENING,
        SignerEvent::Connected { .. } => SIGNER_CONNECTED,
        SignerEvent::Disconnected { .. } => SIGNER_DISCONNECTED,
        SignerEvent::Stranger { .. } => SIGNER_STRANGER,
        SignerEvent::TooMany => SIGNER_CROWDED,
        SignerEvent::Refused { .. } => SIGNER_REFUSED,
    }
}

/// Returns the fields of an event of a replica.
pub fn fields(event: &NodeEvent) -> Fields {
    use NodeEvent as E;
    let of_peer = |peer: ReplicaId| Fields { peer: Some(peer), ..Fields::default() };
    match event {
        E::Connected(Remote::Replica(peer))
        | E::Lost { remote: Remote::Replica(peer), .. }
        | E::Path { remote: Remote::Replica(peer), .. }
        | E::Unauthenticated { dialled: Some(peer), .. }
        | E::Disagrees { peer, .. }
        | E::Undecodable { from: peer, .. }
        | E::Forged { from: peer } => of_peer(*peer),
        E::Evidence(evidence) | E::Hearsay(evidence) => {
            Fields { view: Some(evidence.second.subject.view), ..of_peer(evidence.second.voter) }
        }
        E::TimedOut(view) | E::TakesPart(view) | E::Abstains { up_to: view } => {
            Fields { view: Some(*view), ..Fields::default() }
        }
        E::Restarted { view, height } => Fields { view: Some(*view), height: Some(*height), peer: None },
        E::FetchesState { height }
        | E::ReceivesState { height, .. }
        | E::AdoptedState { height, .. }
        | E::Voided { height, .. }
        | E::Stopped { height } => Fields { height: Some(*height), ..Fields::default() },
        _ => Fields::default(),
    }
}
