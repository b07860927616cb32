//! The ways to misbehave, and their text.

use quorate_types::limits::MAX_REPLICAS;
use quorate_types::{ReplicaId, Signers};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use thiserror::Error;

/// A way to misbehave. As text it is its name, and for some `=` and a parameter: `slow`, `slow=50`, `selective=2+3`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// `silent`: sends nothing to anybody and does not answer clients, but listens and executes. The silent leader of Gogada et al.,
    /// "An extensible framework", ApPLIED 2023, section 5.2.2, who is silent as a voter too.
    Silent,
    /// `slow`, `slow=PERCENT`: holds its proposals back for that part of the base view timeout, 80 % by default, so that its views
    /// just do not time out. Amir et al., "Byzantine replication under attack", DSN 2008, section 3; Clement et al., "Making Byzantine
    /// fault tolerant systems tolerate Byzantine faults", NSDI 2009 (Aardvark).
    Slow {
        /// Per cent of the base view timeout.
        percent: u32,
    },
    /// `fork`: as a leader builds on the grandparent and skips the parent, which is left behind with its commands. The "slow" leader of
    /// Gogada et al., ApPLIED 2023, section 5.2.2; the forking attack of Niu et al., "On the performance of pipelined HotStuff", INFOCOM
    /// 2021. Where slots have no parents, the block is given to the slot before, which has one already.
    Fork,
    /// `equivocate`: as a leader proposes one block to one part of the others and another block to another part, and votes for both. Each
    /// part is a quorum less itself, as both blocks would need; those who are in both parts hear both, and safety rests on them. Bano et
    /// al., "Twins: BFT systems made robust", OPODIS 2021, section 1.
    Equivocate,
    /// `double-vote`: wherever it votes, votes for another block too: for one that it has heard of in that view (and slot), or else
    /// for an invented one. Bano et al., OPODIS 2021, section 1.
    DoubleVote,
    /// `withhold-votes`: listens and leads, but does not vote.
    WithholdVotes,
    /// `withhold-certificates`: shows no certificate that a proposal or a timeout need not show: no advance, no later phase, no NEW-VIEW,
    /// and says in a VIEW-CHANGE that nothing is prepared. Yin et al., "HotStuff", PODC 2019, section 4.4, is about one who hides the highest.
    WithholdCertificates,
    /// `stale-certificate`: builds on, shows and reports certificates that are two to eight older than the highest. What a lock and the
    /// highest certificate in a timeout are there for: Yin et al., PODC 2019, section 4.4; Gelashvili et al., "Jolteon and Ditto", FC
    /// 2022, figure 2.
    StaleCertificate,
    /// `forge-certificate`: shows certificates of blocks that nobody voted for, with signers who did not sign, and where timeouts say how
    /// old a certificate may be, an aggregate in which they say it may be old.
    ForgeCertificate,
    /// `corrupt-share`: its votes and timeouts carry a signature that is none, so that no certificate can have it in it.
    CorruptShare,
    /// `inflate-view`, `inflate-view=VIEWS`: names a view so much further on in whatever it says, 1000 by default. Winter et al.,
    /// "Randomized testing of Byzantine fault tolerant algorithms", OOPSLA 2023 (ByzzFuzz), changes numbers by little, and museum pieces
    /// are known of much.
    InflateView {
        /// By how much.
        by: u64,
    },
    /// `replay`: after whatever it says repeats something old, of its own or of others, in its own name. Castro and Liskov, "Practical
    /// Byzantine fault tolerance", OSDI 1999, section 2: the network may do that too.
    Replay,
    /// `delay`, `delay=MILLISECONDS`: whatever it sends leaves so much later, 20 ms by default.
    Delay {
        /// By how much, in milliseconds.
        ms: u64,
    },
    /// `selective`, `selective=R+R`: sends nothing to these replicas, or else to as many as may be faulty, those that follow it. Bano et
    /// al., OPODIS 2021, section 4: partitions by sender.
    Selective {
        /// Who gets nothing; empty stands for those that follow.
        deaf: Signers,
    },
    /// `forge-state`: answers who fetches a state with bytes of which one bit is another. Castro and Liskov, "Proactive recovery in a
    /// Byzantine-fault-tolerant system", OSDI 2000, fetch states from peers who may do so.
    ForgeState,
    /// `stall-state`: offers a state and does not answer who fetches it.
    StallState,
    /// `repeat-offers`: after whatever it says to a replica offers it again the state that it has once offered it.
    RepeatOffers,
    /// `assemble-certificate`, `assemble-certificate=VIEWS`: as soon as it has heard the timeouts of a quorum less one it makes their
    /// certificate with a statement of its own, and shows it before the others can have one. Its statement tells of a certificate so
    /// many views above the highest, the highest possible by default; with 0 it tells of genesis. It proposes nothing. Aptos' certificates of
    /// timeouts carry the certificate that they tell of for this reason (`TwoChainTimeoutCertificate`).
    AssembleCertificate {
        /// By how much.
        views: u64,
    },
    /// `forge-evidence`: once in each view shows a certificate of its timeouts that nobody has signed; in a VIEW-CHANGE, a proof that a
    /// block which there is not was prepared.
    ForgeEvidence,
    /// `pester`, `pester=QUESTIONS`: after whatever it says asks each of the others this many questions, 8 by default, whose
    /// answers it has: for a block and its ancestors, and under PBFT for all that was decided since genesis.
    Pester {
        /// How many.
        questions: u32,
    },
    /// `barren`: as a leader builds on the grandparent and proposes the commands of the parent, which it skips, again with the new ones.
    /// Where that may be voted for, its blocks are certified and hold what everybody waits for, and none of them is ever committed.
    Barren,
    /// `invent-answers`: answers every question with something that it made up: a state of a checkpoint that there is not, with bytes that
    /// can be fetched; other blocks and bundles; a standing far ahead; under PBFT a block that nobody decided. Castro and Liskov, "Practical
    /// Byzantine fault tolerance", OSDI 1999, section 4.4, take the word of f+1 for this reason.
    InventAnswers,
    /// `withhold-answers`: answers no question, and does everything else.
    WithholdAnswers,
    /// `pass-over`: as a leader acknowledges every bundle that it is told of, but never proposes one in eight (chosen by digest). All others
    /// are ordered as fast as ever. Castro and Liskov, "Practical Byzantine fault tolerance", OSDI 1999, section 4.4: the timer of a backup is there
    /// for that.
    PassOver,
    /// `flood-relays`, `flood-relays=BUNDLES`: relays whatever clients send it to all others at once, and after each message of
    /// its own this many bundles that clients sent before, 16 by default, executed or not.
    FloodRelays {
        /// How many old ones.
        bundles: u32,
    },
    /// `overfill`, `overfill=BUNDLES`: as a leader adds this many bundles, 16 by default, to each block that it proposes, as long as it knows
    /// so many others.
    Overfill {
        /// How many.
        bundles: u32,
    },
    /// `KIND#K`, of a kind that lies: honest up to the K-th chance to lie, so that whoever learns to distrust it at the first lie has
    /// trusted it until then.
    Later {
        /// How it lies.
        lie: Lie,
        /// At which chance it begins, from 1.
        chance: u32,
    },
}

/// A way to misbehave that has chances, each of which it may let pass.
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
    /// All of them.
    pub const ALL: [Lie; 7] = [
        Lie::Fork,
        Lie::Equivocate,
        Lie::DoubleVote,
        Lie::StaleCertificate,
        Lie::ForgeCertificate,
        Lie::CorruptShare,
        Lie::ForgeState,
    ];

    /// The same from the first chance on.
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

/// Most that a parameter may be: a day in milliseconds, and as many views or per cent.
const MOST: u64 = 24 * 60 * 60 * 1000;
/// Views above the highest certificate that an assembled certificate tells of, by default: far beyond any that there will be.
const HIGHEST: u64 = 1 << 63;

impl Fault {
    /// All of them, with their default parameters, and from the first chance on.
    pub const ALL: [Fault; 26] = [
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
        Fault::AssembleCertificate { views: HIGHEST },
        Fault::ForgeEvidence,
        Fault::Pester { questions: 8 },
        Fault::Barren,
        Fault::InventAnswers,
        Fault::WithholdAnswers,
        Fault::PassOver,
        Fault::FloodRelays { bundles: 16 },
        Fault::Overfill { bundles: 16 },
    ];

    /// Its name, without a parameter.
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
            Fault::Later { lie, .. } => lie.fault().name(),
        }
    }

    /// Why replica `me` of that many cannot misbehave so, if it cannot.
    pub fn misfit(self, me: ReplicaId, replicas: usize) -> Option<String> {
        let Fault::Selective { deaf } = self else { return None };
        let last = replicas.saturating_sub(1);
        let stranger = deaf.highest().filter(|highest| highest.index() >= replicas);
        let strange = stranger.map(|stranger| format!("names replica {stranger}, and the last one is {last}"));
        strange.or_else(|| deaf.contains(me).then(|| format!("names replica {me}, which is the one that sends")))
    }

    /// Whether others hear statements that the replica, were it honest, would not have made. Who only says less, or later, or again, does
    /// not lie: nothing can be proven against it. Nobody signs a part of a state, so that who forges one makes no statement.
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
            Fault::Selective { deaf } => {
                let deaf: Vec<String> = deaf.iter().map(|replica| replica.to_string()).collect();
                write!(f, "{name}={}", deaf.join("+"))
            }
            _ => f.write_str(name),
        }
    }
}

/// A text that names no fault: why, and what would.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("`{given}` is no fault: {why}")]
pub struct BadFault {
    /// The text.
    pub given: String,
    /// What is wrong with it.
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
            return Err(bad(format!("there are {}", names.join(", "))));
        };
        let Some(parameter) = parameter else { return Ok(fault) };
        let number = |least: u64| match parameter.parse::<u64>() {
            Ok(number) if (least..=MOST).contains(&number) => Ok(number),
            _ => Err(bad(format!("`{parameter}` is no whole number from {least} to {MOST}"))),
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
            _ => return Err(bad(format!("`{name}` takes no parameter"))),
        })
    }
}

fn later(name: &str, chance: &str) -> Result<Fault, String> {
    let Some(lie) = Lie::ALL.into_iter().find(|lie| lie.fault().name() == name) else {
        let names: Vec<&str> = Lie::ALL.iter().map(|lie| lie.fault().name()).collect();
        return Err(format!("`#` says at which chance one of these begins: {}", names.join(", ")));
    };
    match chance.parse() {
        Ok(chance) if chance > 0 => Ok(Fault::Later { lie, chance }),
        _ => Err(format!("`{chance}` is no whole number from 1")),
    }
}

fn replicas(text: &str) -> Result<Signers, String> {
    let replica = |part: &str| match part.parse::<u16>() {
        Ok(replica) if usize::from(replica) < MAX_REPLICAS => Ok(ReplicaId(replica)),
        _ => Err(format!("`{part}` is no replica; write them as in selective=2+3")),
    };
    text.split('+').map(replica).collect()
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

/// A way to misbehave, and from when on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Misbehaviour {
    /// The way.
    pub fault: Fault,
    /// From so long after the host's start on; the replica is honest before.
    pub start: Duration,
}

impl Misbehaviour {
    /// From the beginning on.
    pub fn always(fault: Fault) -> Misbehaviour {
        Misbehaviour { fault, start: Duration::ZERO }
    }
}
