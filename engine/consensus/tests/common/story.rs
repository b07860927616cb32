//! A run as text: the actions of each replica with their times, and with short names for blocks and bundles.
//!
//! If several replicas do the same thing at the same moment, they share a line. Votes and timeouts are mentioned when
//! they are sent and when they form a certificate, not when they arrive.

use super::network::Letter;
use super::play::Told;
use quorate_consensus::recovery::transfer::Part;
pub use quorate_consensus::seam::text::certificate_name;
use quorate_consensus::seam::{Drop, Envelope};
use quorate_consensus::{Evidence, Mark};
use quorate_types::{Block, Bundle, Certificate, Digest, Height, Quorum, ReplicaId, Signers, Subject, Time};
use std::collections::BTreeMap;
use std::fmt::Write;

struct Line {
    time: Time,
    who: Vec<String>,
    what: String,
    sent: usize,
}

/// Commit, with the number of messages sent until then.
pub struct Milestone {
    pub time: Time,
    pub replica: ReplicaId,
    pub payload: Vec<Digest>,
    pub messages: usize,
}

/// Collector of the lines of a story.
#[derive(Default)]
pub struct Story {
    lines: Vec<Line>,
    blocks: BTreeMap<Digest, String>,
    heights: BTreeMap<Height, usize>,
    bundles: BTreeMap<Digest, String>,
    messages: usize,
    /// Whether certificates are named with their blocks, because the view does not identify the block in a protocol
    /// with slots.
    pub names_blocks: bool,
    /// The cluster's quorum, if new views conclude from claims which blocks are prepared.
    pub claims_of: Option<Quorum>,
    pub milestones: Vec<Milestone>,
}

impl Story {
    /// Adds an action of one actor. Actors that do the same thing at the same moment share a line. The text begins with
    /// a verb in the third person.
    pub fn say(&mut self, time: Time, who: &str, what: String, sent: usize) {
        self.messages += sent;
        let same = |line: &&mut Line| line.what == what && !line.who.iter().any(|other| other == who);
        let now = self.lines.iter_mut().rev().take_while(|line| line.time == time);
        match now.into_iter().find(|line| same(line)) {
            Some(line) => {
                line.who.push(who.into());
                line.who.sort_unstable();
                line.sent += sent;
            }
            None => self.lines.push(Line { time, who: vec![who.into()], what, sent }),
        }
    }

    fn replica(&mut self, time: Time, who: ReplicaId, what: String, sent: usize) {
        self.say(time, &format!("{who:?}"), what, sent);
    }

    pub fn name_bundle(&mut self, digest: Digest, number: u64) {
        self.bundles.insert(digest, format!("c{number}"));
    }

    /// Returns the name of a block.
    pub fn block(&mut self, block: &Block) -> String {
        let Story { blocks, heights, .. } = self;
        let name = blocks.entry(block.digest()).or_insert_with(|| {
            let twins = heights.entry(block.height).or_default();
            *twins += 1;
            format!("b{}{}", block.height, "'".repeat(*twins - 1))
        });
        name.clone()
    }

    /// Returns the name of the block that a subject is about.
    pub fn subject(&self, subject: &Subject) -> String {
        self.blocks.get(&subject.digest).cloned().unwrap_or_else(|| "an unknown block".into())
    }

    fn payload(&self, payload: &[Digest]) -> String {
        payload.iter().map(|digest| self.bundles[digest].as_str()).collect::<Vec<_>>().join(" ")
    }

    pub fn submitted(&mut self, time: Time, bundle: &Bundle, replicas: &[u16]) {
        let name = &self.bundles[&bundle.digest()];
        let to: Vec<String> = replicas.iter().map(|replica| format!("R{replica}")).collect();
        self.say(time, "client", format!("sends command {name} to {}", to.join(" ")), 0);
    }

    pub fn received<M: Told>(&mut self, time: Time, from: ReplicaId, to: ReplicaId, letter: &Letter<M>) {
        if let Envelope::Protocol(message) = letter
            && from != to
            && let Some(what) = message.arrival(self)
        {
            self.replica(time, to, what, 0);
        }
    }

    pub fn sent<M: Told>(&mut self, time: Time, from: ReplicaId, to: &[ReplicaId], letter: &Letter<M>) {
        let others = to.iter().filter(|to| **to != from).count();
        let names: Vec<String> = to.iter().filter(|to| **to != from).map(|to| format!("{to:?}")).collect();
        let names = names.join(" ");
        let what = match letter {
            Envelope::Protocol(message) => message.departure(self, to, &names),
            Envelope::FetchBlocks { digest, above, .. } => {
                let name = self.blocks.get(digest).cloned().unwrap_or_else(|| "an unknown block".into());
                format!("asks {names} for {name} and its ancestors above {above:?}")
            }
            Envelope::Blocks(blocks) => {
                let blocks: Vec<String> = blocks.iter().map(|block| self.block(block)).collect();
                format!("sends {names} {}", blocks.join(" "))
            }
            Envelope::FetchBundles { digests, .. } => format!("asks {names} for {}", self.payload(digests)),
            Envelope::Bundles(bundles) => {
                let digests: Vec<Digest> = bundles.iter().map(Bundle::digest).collect();
                format!("sends {names} {}", self.payload(&digests))
            }
            Envelope::Relay(bundles) => {
                let digests: Vec<Digest> = bundles.iter().map(Bundle::digest).collect();
                format!("relays {} to {names}", self.payload(&digests))
            }
            Envelope::Spread(bundles) => {
                let digests: Vec<Digest> = bundles.iter().map(Bundle::digest).collect();
                format!("spreads {} to {names}", self.payload(&digests))
            }
            Envelope::Batch(batch) => {
                let digests: Vec<Digest> = batch.entries().iter().map(|entry| entry.bundle).collect();
                format!("lists {} for {names}", self.payload(&digests))
            }
            Envelope::Stored(vote) => format!("tells {names} that it holds batch {}", vote.subject.height.0),
            Envelope::Certified(certificate) => {
                format!("shows {names} that a quorum holds batch {}", certificate.subject.height.0)
            }
            Envelope::Covers(covers) => {
                let digests: Vec<Digest> =
                    covers.iter().flat_map(|cover| cover.batch.entries()).map(|entry| entry.bundle).collect();
                format!("shows {names} that a quorum holds {}", self.payload(&digests))
            }
            Envelope::Absent(vote) => {
                let Subject { view, height, .. } = vote.subject;
                format!("tells {names} that it lacks bundle {} of {height:?}", view.0)
            }
            Envelope::Void(certificate) => {
                let Subject { view, height, .. } = certificate.subject;
                format!("shows {names} that bundle {} of {height:?} is void", view.0)
            }
            Envelope::Noted { bundle } => format!("tells {names} that {} waits", self.payload(&[*bundle])),
            Envelope::Ask { .. } => format!("asks {names} how far they are"),
            Envelope::Standing { .. } => format!("tells {names} how far it is"),
            Envelope::Checkpoint(vote) => format!("says CHECKPOINT({:?})", vote.subject.height),
            Envelope::Offer { checkpoint } => format!("offers {names} the state of {}", certificate_name(checkpoint)),
            Envelope::FetchState { height, part } => format!("asks {names} for {}", part_name(*height, *part)),
            Envelope::StatePart { height, part, .. } => format!("sends {names} {}", part_name(*height, *part)),
        };
        self.replica(time, from, what, others);
    }

    /// Describes the payload of a block.
    pub fn load(&self, payload: &[Digest]) -> String {
        if payload.is_empty() { "nothing".into() } else { self.payload(payload) }
    }

    pub fn formed(&mut self, time: Time, who: ReplicaId, certificate: &Certificate) {
        let signers = signer_names(&certificate.signers);
        let block = self.blocks.get(&certificate.subject.digest).filter(|_| self.names_blocks);
        let of = block.map(|block| format!(" of {block}")).unwrap_or_default();
        self.replica(time, who, format!("forms {}{of} from {signers}", certificate_name(certificate)), 0);
    }

    pub fn locked(&mut self, time: Time, who: ReplicaId, lock: &Subject) {
        let name = self.subject(lock);
        self.replica(time, who, format!("locks {name}"), 0);
    }

    pub fn committed(&mut self, time: Time, who: ReplicaId, block: &Block) {
        let load = match block.payload.is_empty() {
            true => "nothing in it".into(),
            false => format!("executes {}", self.payload(&block.payload)),
        };
        let name = self.block(block);
        self.replica(time, who, format!("commits {name}: {load}"), 0);
        let messages = self.messages;
        self.milestones.push(Milestone { time, replica: who, payload: block.payload.clone(), messages });
    }

    pub fn accused(&mut self, time: Time, who: ReplicaId, evidence: &Evidence) {
        let Evidence { first, second } = evidence;
        let (one, other) = (self.subject(&first.subject), self.subject(&second.subject));
        let (whom, view) = (first.voter, first.subject.view);
        self.replica(time, who, format!("accuses {whom:?}: it signed both {one} and {other} in {view:?}"), 0);
    }

    pub fn marked(&mut self, time: Time, who: ReplicaId, mark: &Mark) {
        let what = match mark {
            Mark::EnteredView { view, leader: Some(leader) } => format!("enters {view:?}, leader {leader:?}"),
            Mark::EnteredView { view, leader: None } => format!("enters {view:?}, leader not known yet"),
            Mark::Refused { view, rule } => format!("refuses to vote in {view:?}: {rule}"),
            Mark::Dropped { why: Drop::Late | Drop::Stale, .. } => return,
            Mark::Dropped { from, why: Drop::Repeated } => format!("turns away {from:?}: it has proposed already"),
            Mark::Dropped { from, why } => format!("turns away {from:?}: {why:?}"),
            Mark::Decided { digest, .. } => match self.blocks.get(digest) {
                Some(block) => format!("decides {block}"),
                None => "decides a block that is not here".into(),
            },
            Mark::Stable { height } => format!("finds all up to {height:?} stable"),
            Mark::Restarted { view, height } => format!("has spoken in {view:?} and committed {height:?}"),
            Mark::Forgot => "has lost its memory".into(),
            Mark::Abstains { up_to } => format!("says nothing up to {up_to:?}"),
            Mark::TakesPart { view } => format!("takes part again from {view:?} on"),
            Mark::Fetches { height } => {
                format!("fetches the state after {height:?}: the blocks that it lacks are gone")
            }
            Mark::Voided { height, bundle } => format!("executes {height:?} without {bundle:?}, which nobody has"),
            Mark::Adopted { from, height } => format!("goes on from the state after {height:?} in place of {from:?}"),
            Mark::TimedOut(_) | Mark::Proposed { .. } => return,
        };
        self.replica(time, who, what, 0);
    }

    /// Returns the whole text, one action in a line.
    pub fn text(&self) -> String {
        let mut text = String::from("  time  sent  who           what\n");
        let mut last = None;
        for line in &self.lines {
            if last.is_some_and(|last| last != line.time) && self.begins_paragraph(line) {
                text.push('\n');
            }
            last = Some(line.time);
            let sent = if line.sent == 0 { String::new() } else { line.sent.to_string() };
            let (who, what) = (line.who.join(" "), number(&line.what, line.who.len()));
            let _ = writeln!(text, "{:>3} ms  {sent:>4}  {who:<12}  {what}", line.time.0 / 1_000_000);
        }
        text
    }

    /// Returns whether a line begins a paragraph: it is about a client or the network, or comes after a pause.
    fn begins_paragraph(&self, line: &Line) -> bool {
        let at_the_time = self.lines.iter().filter(|other| other.time == line.time);
        let before = self.lines.iter().rev().find(|other| other.time < line.time).map_or(Time(0), |line| line.time);
        let starts = ["proposes", "gives", "says PRE-PREPARE", "says VIEW-CHANGE"];
        let outside = |line: &&Line| line.who[0] == "client" || line.who[0] == "network";
        at_the_time.clone().any(|line| outside(&line))
            || at_the_time.clone().any(|line| starts.iter().any(|start| line.what.starts_with(start)))
            || line.time.since(before).as_millis() > 1
    }
}

/// Puts the verb at the beginning of an action into the singular or plural.
fn number(what: &str, actors: usize) -> String {
    if actors == 1 {
        return what.into();
    }
    let (verb, rest) = what.split_once(' ').unwrap_or((what, ""));
    format!("{} {rest}", verb.strip_suffix('s').unwrap_or(verb))
}

fn part_name(height: Height, part: Part) -> String {
    match part.checked_sub(1) {
        None => format!("the manifest of the state after {height:?}"),
        Some(chunk) => format!("chunk {chunk} of the state after {height:?}"),
    }
}

fn signer_names(signers: &Signers) -> String {
    signers.iter().map(|signer| format!("{signer:?}")).collect::<Vec<_>>().join(" ")
}
