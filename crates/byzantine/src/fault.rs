//! Byzantine faults and their text form.

use crate::times::Times;
use quorate_types::limits::MAX_REPLICAS;
use quorate_types::{ReplicaId, Signers};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// A Byzantine fault. Its text is its name, for some followed by `=` and a parameter: `slow`, `slow=50`,
/// `selective=2+3`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// `silent`: sends nothing and does not answer clients, but receives and executes. Like the silent leader of Gogada
    /// et al., "An extensible framework", ApPLIED 2023, section 5.2.2, but it does not vote either.
    Silent,
    /// `slow`, `slow=PERCENT`: delays its proposals by a percentage of the base view timeout, by default 80 %, so that
    /// its views barely avoid a timeout. Amir et al., "Byzantine replication under attack", DSN 2008, section 3;
    /// Clement et al., "Making Byzantine fault tolerant systems tolerate Byzantine faults", NSDI 2009 (Aardvark).
    Slow {
        /// Percentage of the base view timeout.
        percent: u32,
    },
    /// `fork`: as a leader, builds on the grandparent, so that the parent and its commands are abandoned. The "slow"
    /// leader of Gogada et al., ApPLIED 2023, section 5.2.2; the forking attack of Niu et al., "On the performance of
    /// pipelined HotStuff", INFOCOM 2021. Where slots have no parents, it proposes the block for the previous slot,
    /// which already has one.
    Fork,
    /// `equivocate`: as a leader, proposes different blocks to two overlapping groups of the others, and votes for
    /// both. With its own vote, each group is a quorum, as each block needs. Replicas in both groups receive both
    /// blocks, and safety depends on them. Bano et al., "Twins: BFT systems made robust", OPODIS 2021, section 1.
    Equivocate,
    /// `double-vote`: with each vote, also votes for another block: one that it received for the same view (and slot),
    /// or else an invented one. Bano et al., OPODIS 2021, section 1.
    DoubleVote,
    /// `withhold-votes`: receives and leads, but does not vote.
    WithholdVotes,
    /// `withhold-certificates`: shows a certificate only where a proposal or a timeout requires one. It announces no
    /// new view, starts no later phase, sends no NEW-VIEW, and reports nothing as prepared in its VIEW-CHANGE. Yin et
    /// al., "HotStuff", PODC 2019, section 4.4, discusses a replica that hides the highest certificate.
    WithholdCertificates,
    /// `stale-certificate`: extends, shows and reports certificates that are two to eight older than the highest. Locks
    /// and the highest certificate in a timeout protect against this: Yin et al., PODC 2019, section 4.4; Gelashvili et
    /// al., "Jolteon and Ditto", FC 2022, figure 2.
    StaleCertificate,
    /// `forge-certificate`: shows certificates of blocks that nobody voted for, in the names of replicas that did not
    /// sign. Where timeouts limit the age of a certificate, it forges an aggregate of timeouts that permits an old one.
    ForgeCertificate,
    /// `corrupt-share`: its votes and timeouts carry an invalid signature, so no certificate can include them.
    CorruptShare,
    /// `inflate-view`, `inflate-view=VIEWS`: increases the view in every message by this number, by default 1000.
    /// Winter et al., "Randomized testing of Byzantine fault tolerant algorithms", OOPSLA 2023 (ByzzFuzz), changes
    /// numbers by small amounts; bugs in the museum need large ones.
    InflateView {
        /// Added to the view.
        by: u64,
    },
    /// `replay`: after each message repeats an old one in its own name, either its own or another replica's. Castro and
    /// Liskov, "Practical Byzantine fault tolerance", OSDI 1999, section 2: the network may do that too.
    Replay,
    /// `delay`, `delay=MILLISECONDS`: delays each message, by default by 20 ms.
    Delay {
        /// Delay in milliseconds.
        ms: u64,
    },
    /// `selective`, `selective=R+R`: sends nothing to these replicas; by default, to the next f replicas in ring order.
    /// Bano et al., OPODIS 2021, section 4: partitions by sender.
    Selective {
        /// Replicas that receive nothing. Empty means the default.
        deaf: Signers,
    },
    /// `forge-state`: flips one bit in every part of a state that it sends to a replica. Castro and Liskov, "Proactive
    /// recovery in a Byzantine-fault-tolerant system", OSDI 2000, fetch states from peers that may do so.
    ForgeState,
    /// `stall-state`: offers a state, but does not answer replicas that fetch it.
    StallState,
    /// `repeat-offers`: after each message to a replica, repeats its last state offer to that replica.
    RepeatOffers,
    /// `assemble-certificate`, `assemble-certificate=VIEWS`: once it has received the timeouts of all but one of a
    /// quorum, adds its own statement, assembles their certificate and shows it before any other replica can have one.
    /// Its statement reports a certificate this many views above the highest, by default the highest possible; with 0
    /// it reports genesis. It proposes nothing. This is why Aptos' timeout certificates carry the certificate that they
    /// report (`TwoChainTimeoutCertificate`).
    AssembleCertificate {
        /// Views above the highest certificate.
        views: u64,
    },
    /// `forge-evidence`: once per view, shows a timeout certificate that nobody signed; in a VIEW-CHANGE, a proof that
    /// a nonexistent block was prepared.
    ForgeEvidence,
    /// `pester`, `pester=QUESTIONS`: after each message, sends each of the others this many requests, by default 8, for
    /// data that it already has: a block and its ancestors, and under PBFT all decisions since genesis.
    Pester {
        /// Requests to each replica.
        questions: u32,
    },
    /// `barren`: as a leader, builds on the grandparent and proposes the commands of the skipped parent again, along
    /// with new ones. Where replicas may vote for that, its blocks are certified and contain the pending commands, but
    /// none of them is ever committed.
    Barren,
    /// `invent-answers`: answers every request with invented data: the state of a nonexistent checkpoint, with bytes
    /// that can be fetched; other blocks and bundles; a view far ahead; under PBFT a block that was not decided. This
    /// is why Castro and Liskov, "Practical Byzantine fault tolerance", OSDI 1999, section 4.4, require f+1 matching
    /// answers.
    InventAnswers,
    /// `withhold-answers`: answers no requests, and is honest otherwise.
    WithholdAnswers,
    /// `pass-over`: as a leader, acknowledges every relayed bundle, but never proposes one in eight (chosen by digest).
    /// It orders all others at full speed. The timers of backups protect against this: Castro and Liskov, "Practical
    /// Byzantine fault tolerance", OSDI 1999, section 4.4.
    PassOver,
    /// `flood-relays`, `flood-relays=BUNDLES`: relays every client bundle to all others at once, and after each of its
    /// own messages this many earlier bundles, by default 16, executed or not.
    FloodRelays {
        /// Earlier bundles after each message.
        bundles: u32,
    },
    /// `overfill`, `overfill=BUNDLES`: as a leader, adds this many bundles, by default 16, to each block that it
    /// proposes, if it has enough further ones.
    Overfill {
        /// Bundles added to each block.
        bundles: u32,
    },
    /// `withhold-bundles`: if replicas spread bundles, keeps those of its clients to itself and answers them late or
    /// never. Danezis et al., "Narwhal and Tusk", EuroSys 2022, section 4.1: a client then turns to another replica.
    WithholdBundles,
    /// `spread-to-one`, `spread-to-one=R`: if replicas spread bundles, sends those of its clients to one replica only,
    /// by default to the next one in ring order. If that one leads, its blocks name bundles that all others lack.
    SpreadToOne {
        /// The only recipient; `None` means the default.
        recipient: Option<ReplicaId>,
    },
    /// `withhold-acknowledgements`: if bundles are proposed only when n-f replicas hold them, holds them and never says
    /// so. Danezis et al., EuroSys 2022, section 3.1: the other n-f suffice.
    WithholdAcknowledgements,
    /// `forge-acknowledgements`: there, signs its acknowledgements wrongly, and shows certificates of its batches that
    /// nobody signed.
    ForgeAcknowledgements,
    /// `equivocate-batches`: there, lists its bundles differently for each of the others under one number, so that no
    /// quorum acknowledges the same list. Danezis et al., EuroSys 2022, section 3.1, equivocating blocks.
    EquivocateBatches,
    /// `hoard-certificates`: there, lists each bundle in two batches for different quorums, keeps their certificates as
    /// long as possible, and when it has the bundles proposed, shows each certificate to the replicas that did not sign
    /// it. Otherwise it gives the bundles to nobody. A bug of our own: no certificate proves anything about another.
    HoardCertificates,
    /// `show-late`: keeps each certificate that it assembles, reports an older one in its timeouts and proposes nothing
    /// on it, and shows it to the first replica that times out of a later view, to that one alone. Yin et al., PODC
    /// 2019, section 4.4, discusses a certificate that only some replicas know.
    ShowLate,
    /// `busy`: refuses every bundle of its clients as if it were overloaded, and is honest otherwise. A client must
    /// turn to other replicas, or it is censored.
    Busy,
    /// `KIND#K`, for a kind that lies: honest until the K-th opportunity to lie, so that replicas which distrust it
    /// after the first lie have trusted it until then.
    Later {
        lie: Lie,
        /// First opportunity that it takes, counted from 1.
        chance: u32,
    },
}

/// Fault that lies at certain opportunities, and may skip some of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lie {
    /// [`Fault::Fork`].
    Fork,
    /// [`Fault::Equivocate`].
    Equivocate,
    /// [`Fault::DoubleVote`].
    DoubleVote,
    /// [`Fault::StaleCertificate`].
    StaleCertificate,
    /// [`Fault::ForgeCertificate`].
    ForgeCertificate,
    /// [`Fault::CorruptShare`].
    CorruptShare,
    /// [`Fault::ForgeState`].
    ForgeState,
}

impl Lie {
    pub const ALL: [Lie; 7] = [
        Lie::Fork,
        Lie::Equivocate,
        Lie::DoubleVote,
        Lie::StaleCertificate,
        Lie::ForgeCertificate,
        Lie::CorruptShare,
        Lie::ForgeState,
    ];

    /// Returns the fault that takes every opportunity to lie.
    pub fn fault(self) -> Fault {
        match self {
            Lie::Fork => Fault::Fork,
            Lie::Equivocate => Fault::Equivocate,
            Lie::DoubleVote => Fault::DoubleVote,
            Lie::StaleCertificate => Fault::StaleCertificate,
            Lie::ForgeCertificate => Fault::ForgeCertificate,
            Lie::CorruptShare => Fault::CorruptShare,
            Lie::ForgeState => Fault::ForgeState,
        }
    }
}

/// Upper bound on parameters: a day in milliseconds. The same bound applies to views and percentages.
const MAX_PARAMETER: u64 = 24 * 60 * 60 * 1000;
/// Default of `assemble-certificate`, in views above the highest certificate: far above any view that a run reaches.
const DEFAULT_VIEWS_AHEAD: u64 = 1 << 63;

impl Fault {
    /// All faults, with default parameters, taking every opportunity to lie.
    pub const ALL: [Fault; 34] = [
        Fault::Silent,
        Fault::Slow { percent: 80 },
        Fault::Fork,
        Fault::Equivocate,
        Fault::DoubleVote,
        Fault::WithholdVotes,
        Fault::WithholdCertificates,
        Fault::StaleCertificate,
        Fault::ForgeCertificate,
        Fault::CorruptShare,
        Fault::InflateView { by: 1000 },
        Fault::Replay,
        Fault::Delay { ms: 20 },
        Fault::Selective { deaf: Signers::empty() },
        Fault::ForgeState,
        Fault::StallState,
        Fault::RepeatOffers,
        Fault::AssembleCertificate { views: DEFAULT_VIEWS_AHEAD },
        Fault::ForgeEvidence,
        Fault::Pester { questions: 8 },
        Fault::Barren,
        Fault::InventAnswers,
        Fault::WithholdAnswers,
        Fault::PassOver,
        Fault::FloodRelays { bundles: 16 },
        Fault::Overfill { bundles: 16 },
        Fault::WithholdBundles,
        Fault::SpreadToOne { recipient: None },
        Fault::WithholdAcknowledgements,
        Fault::ForgeAcknowledgements,
        Fault::EquivocateBatches,
        Fault::HoardCertificates,
        Fault::ShowLate,
        Fault::Busy,
    ];

    /// Returns the name without a parameter.
    pub fn name(self) -> &'static str {
        match self {
            Fault::Silent => "silent",
            Fault::Slow { .. } => "slow",
            Fault::Fork => "fork",
            Fault::Equivocate => "equivocate",
            Fault::DoubleVote => "double-vote",
            Fault::WithholdVotes => "withhold-votes",
            Fault::WithholdCertificates => "withhold-certificates",
            Fault::StaleCertificate => "stale-certificate",
            Fault::ForgeCertificate => "forge-certificate",
            Fault::CorruptShare => "corrupt-share",
            Fault::InflateView { .. } => "inflate-view",
            Fault::Replay => "replay",
            Fault::Delay { .. } => "delay",
            Fault::Selective { .. } => "selective",
            Fault::ForgeState => "forge-state",
            Fault::StallState => "stall-state",
            Fault::RepeatOffers => "repeat-offers",
            Fault::AssembleCertificate { .. } => "assemble-certificate",
            Fault::ForgeEvidence => "forge-evidence",
            Fault::Pester { .. } => "pester",
            Fault::Barren => "barren",
            Fault::InventAnswers => "invent-answers",
            Fault::WithholdAnswers => "withhold-answers",
            Fault::PassOver => "pass-over",
            Fault::FloodRelays { .. } => "flood-relays",
            Fault::Overfill { .. } => "overfill",
            Fault::WithholdBundles => "withhold-bundles",
            Fault::WithholdAcknowledgements => "withhold-acknowledgements",
            Fault::ForgeAcknowledgements => "forge-acknowledgements",
            Fault::EquivocateBatches => "equivocate-batches",
            Fault::HoardCertificates => "hoard-certificates",
            Fault::ShowLate => "show-late",
            Fault::SpreadToOne { .. } => "spread-to-one",
            Fault::Busy => "busy",
            Fault::Later { lie, .. } => lie.fault().name(),
        }
    }

    /// Returns why replica `me` of `replicas` cannot have this fault, or `None` if it can.
    pub fn misfit(self, me: ReplicaId, replicas: usize) -> Option<String> {
        let deaf = match self {
            Fault::Selective { deaf } => deaf,
            Fault::SpreadToOne { recipient } => recipient.into_iter().collect(),
            _ => return None,
        };
        let last = replicas.saturating_sub(1);
        let stranger = deaf.highest().filter(|highest| highest.index() >= replicas);
        let strange = stranger.map(|stranger| format!("names replica {stranger}, but the last one is {last}"));
        strange.or_else(|| deaf.contains(me).then(|| format!("names replica {me}, which is the sender itself")))
    }

    /// Returns whether the replica makes statements that an honest one would not. A replica that only omits, delays or
    /// repeats statements does not lie, and nothing can be proven against it. Parts of a state are not signed, so a
    /// forged part is not a statement.
    pub fn lies(self) -> bool {
        match self {
            Fault::Silent
            | Fault::Slow { .. }
            | Fault::WithholdVotes
            | Fault::Replay
            | Fault::Delay { .. }
            | Fault::Selective { .. }
            | Fault::ForgeState
            | Fault::StallState
            | Fault::RepeatOffers
            | Fault::Pester { .. }
            | Fault::FloodRelays { .. }
            | Fault::WithholdBundles
            | Fault::SpreadToOne { .. }
            | Fault::WithholdAcknowledgements
            | Fault::ForgeAcknowledgements
            | Fault::EquivocateBatches
            | Fault::Busy
            | Fault::WithholdAnswers => false,
            Fault::Fork
            | Fault::Equivocate
            | Fault::DoubleVote
            | Fault::WithholdCertificates
            | Fault::StaleCertificate
            | Fault::ForgeCertificate
            | Fault::CorruptShare
            | Fault::AssembleCertificate { .. }
            | Fault::ForgeEvidence
            | Fault::Barren
            | Fault::PassOver
            | Fault::Overfill { .. }
            | Fault::HoardCertificates
            | Fault::ShowLate
            | Fault::InventAnswers
            | Fault::InflateView { .. } => true,
            Fault::Later { lie, .. } => lie.fault().lies(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name();
        if Fault::ALL.contains(self) {
            return f.pad(name);
        }
        match self {
            Fault::Slow { percent } => write!(f, "{name}={percent}"),
            Fault::InflateView { by } => write!(f, "{name}={by}"),
            Fault::Delay { ms } => write!(f, "{name}={ms}"),
            Fault::AssembleCertificate { views } => write!(f, "{name}={views}"),
            Fault::Pester { questions } => write!(f, "{name}={questions}"),
            Fault::FloodRelays { bundles } | Fault::Overfill { bundles } => write!(f, "{name}={bundles}"),
            Fault::Later { chance, .. } => write!(f, "{name}#{chance}"),
            Fault::SpreadToOne { recipient: Some(one) } => write!(f, "{name}={one}"),
            Fault::Selective { deaf } => {
                let deaf: Vec<String> = deaf.iter().map(|replica| replica.to_string()).collect();
                write!(f, "{name}={}", deaf.join("+"))
            }
            _ => f.write_str(name),
        }
    }
}

/// Error for a text that is not a fault.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("`{given}` is not a fault: {why}")]
pub struct BadFault {
    pub given: String,
    /// The problem, and the valid forms.
    pub why: String,
}

impl FromStr for Fault {
    type Err = BadFault;

    fn from_str(text: &str) -> Result<Fault, BadFault> {
        let bad = |why: String| BadFault { given: text.to_owned(), why };
        if let Some((name, chance)) = text.split_once('#') {
            return later(name, chance).map_err(bad);
        }
        let (name, parameter) = match text.split_once('=') {
            Some((name, parameter)) => (name, Some(parameter)),
            None => (text, None),
        };
        let Some(fault) = Fault::ALL.into_iter().find(|fault| fault.name() == name) else {
            let names: Vec<&str> = Fault::ALL.iter().map(|fault| fault.name()).collect();
            return Err(bad(format!("use one of {}", names.join(", "))));
        };
        let Some(parameter) = parameter else { return Ok(fault) };
        let number = |least: u64| match parameter.parse::<u64>() {
            Ok(number) if (least..=MAX_PARAMETER).contains(&number) => Ok(number),
            _ => Err(bad(format!("`{parameter}` is not a whole number from {least} to {MAX_PARAMETER}"))),
        };
        Ok(match fault {
            Fault::Slow { .. } => Fault::Slow { percent: number(0)? as u32 },
            Fault::InflateView { .. } => Fault::InflateView { by: number(1)? },
            Fault::Delay { .. } => Fault::Delay { ms: number(0)? },
            Fault::AssembleCertificate { .. } => Fault::AssembleCertificate { views: number(0)? },
            Fault::Pester { .. } => Fault::Pester { questions: number(1)? as u32 },
            Fault::FloodRelays { .. } => Fault::FloodRelays { bundles: number(0)? as u32 },
            Fault::Overfill { .. } => Fault::Overfill { bundles: number(1)? as u32 },
            Fault::Selective { .. } => Fault::Selective { deaf: replicas(parameter).map_err(bad)? },
            Fault::SpreadToOne { .. } => Fault::SpreadToOne { recipient: Some(replica(parameter).map_err(bad)?) },
            _ => return Err(bad(format!("`{name}` takes no parameter"))),
        })
    }
}

fn later(name: &str, chance: &str) -> Result<Fault, String> {
    let Some(lie) = Lie::ALL.into_iter().find(|lie| lie.fault().name() == name) else {
        let names: Vec<&str> = Lie::ALL.iter().map(|lie| lie.fault().name()).collect();
        return Err(format!("`#` gives the opportunity at which one of these begins: {}", names.join(", ")));
    };
    match chance.parse() {
        Ok(chance) if chance > 0 => Ok(Fault::Later { lie, chance }),
        _ => Err(format!("`{chance}` is not a whole number from 1")),
    }
}

fn replicas(text: &str) -> Result<Signers, String> {
    text.split('+').map(replica).collect()
}

fn replica(text: &str) -> Result<ReplicaId, String> {
    match text.parse::<u16>() {
        Ok(replica) if usize::from(replica) < MAX_REPLICAS => Ok(ReplicaId(replica)),
        _ => Err(format!("`{text}` is not a replica; write replicas as in selective=2+3 or spread-to-one=2")),
    }
}

impl Serialize for Fault {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Fault {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// Fault, and the times at which it is active.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Misbehaviour {
    pub fault: Fault,
    pub times: Times,
}

impl Misbehaviour {
    /// Returns the fault, always active.
    pub fn always(fault: Fault) -> Misbehaviour {
        Misbehaviour { fault, times: Times::default() }
    }
}
