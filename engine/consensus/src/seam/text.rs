//! Short descriptions of a replica's inputs and actions, for transcripts. The encodings are complete, whereas these
//! lines contain only the essentials.

use crate::recovery::journal::{Record, Standing};
use crate::seam::{Action, Drop, Envelope, Halt, Input, Mark, Message, Refusal, To};
use quorate_types::{Attachment, Block, Bundle, Certificate, Domain, ReplicaId, Subject, Vote};

/// Describes an input, in a form that can follow the verb "takes".
pub fn input<M: Message>(input: &Input<M>) -> String {
    match input {
        Input::Start => "the start".into(),
        Input::Receive { from, message } => format!("from {from:?}: {}", envelope(message)),
        Input::Submit { bundles, .. } => format!("from clients: {}", bundle_list(bundles)),
        Input::Timeout(timer) => format!("the alarm {timer:?}"),
        Input::Verdict { job, genuine: true } => format!("the answer to question {}: genuine", job.0),
        Input::Verdict { job, genuine: false } => format!("the answer to question {}: not genuine", job.0),
        Input::Assembled { job, result: Ok(certificate) } => {
            format!("the answer to question {}: {}", job.0, certificate_and_signers(certificate))
        }
        Input::Assembled { job, result: Err(voters) } => {
            format!(
                "the answer to question {}: not genuine are the votes of {}",
                job.0,
                replica_names(voters.iter().copied())
            )
        }
        Input::Executed { height, state, kept: false } => format!("the state {state:?} after {height:?}"),
        Input::Executed { height, state, kept: true } => format!("the state {state:?} after {height:?}, which is kept"),
        Input::Kept { checkpoint } => format!("that the state of {} is kept", certificate_name(checkpoint)),
        Input::StateRead { to, height, part, bytes } => {
            let found = bytes.as_ref().map_or("it is gone".into(), |bytes| format!("{} bytes", bytes.len()));
            format!("part {part} of the state after {height:?}, for {to:?}: {found}")
        }
        Input::Holds { height, chunks } => {
            format!("that {} chunks of the state after {height:?} are here", chunks.len())
        }
        Input::Adopted { checkpoint, .. } => format!("that its state is now that of {}", certificate_name(checkpoint)),
        Input::Recall { id, record: recalled } => format!("record {} of the journal: {}", id.0, record(recalled)),
        Input::Clock { origin_ms } => format!("its wall clock: {origin_ms} ms at its time 0"),
        Input::Left(source) => format!("that a link is gone: {source:?}"),
        Input::Forgot => "that the journal is not whole".into(),
        Input::Summarize => "that the journal is to be summed up".into(),
    }
}

/// Describes an action of a replica, starting with a verb in the third person.
pub fn action<M: Message>(action: &Action<M>) -> String {
    match action {
        Action::Send { to, message, after, .. } => {
            let after = after.map(|record| format!(", after record {}", record.0)).unwrap_or_default();
            format!("sends {}: {}{after}", recipients(*to), envelope(message))
        }
        Action::Persist { id, record: kept } => format!("persists record {}: {}", id.0, record(kept)),
        Action::Verify { job, certificates, votes } => {
            let certificates = certificates.iter().map(certificate_name);
            let votes = votes.iter().map(|vote| format!("{:?}'s {}", vote.voter, subject(&vote.subject)));
            format!(
                "asks question {}: is it genuine? {}",
                job.0,
                certificates.chain(votes).collect::<Vec<_>>().join(", ")
            )
        }
        Action::Assemble { job, subject: about, votes } => {
            let voters = replica_names(votes.iter().map(|vote| vote.voter));
            format!("asks question {}: a certificate of {} from {voters}", job.0, subject(about))
        }
        Action::Arm { timer, after } => format!("sets the alarm {timer:?} to ring after {after:?}"),
        Action::Commit { block: whole, bundles } => format!("commits {}: {}", block(whole), bundle_list(bundles)),
        Action::DigestState { frontier } => format!("asks for the state after {:?}", frontier.height()),
        Action::StateStable { checkpoint } => {
            format!("has the state of {} kept for others", certificate_name(checkpoint))
        }
        Action::ReadState { to, height, part } => format!("reads part {part} of the state after {height:?} for {to:?}"),
        Action::ReceiveState { height, manifest } => {
            format!("begins to receive the state after {height:?}, {} chunks", manifest.chunks())
        }
        Action::KeepChunk { height, chunk, .. } => format!("keeps chunk {chunk} of the state after {height:?}"),
        Action::AdoptState { checkpoint } => format!("takes the state of {} over", certificate_name(checkpoint)),
        Action::Accuse(evidence) => {
            let (one, other) = (subject(&evidence.first.subject), subject(&evidence.second.subject));
            format!("accuses {:?}: it signed both {one} and {other}", evidence.first.voter)
        }
        Action::Refuse { bundle, why: Refusal::PoolFull } => format!("refuses {bundle:?}: the pool is full"),
        Action::Refuse { bundle, why: Refusal::Executed } => format!("refuses {bundle:?}: it was executed before"),
        Action::Refuse { bundle, why: Refusal::Expired } => format!("refuses {bundle:?}: it has expired"),
        Action::AcceptRepair { after } => format!("takes the journal for whole, after record {}", after.0),
        Action::Halt(why) => halt(why),
        Action::Mark(told) => mark(told),
    }
}

/// Describes the reason why a replica stops.
pub fn halt(why: &Halt) -> String {
    match why {
        Halt::Unreadable { id, why } => format!("cannot go on from record {}: {why}", id.0),
        Halt::Diverged { height } => format!("has another state after {height:?} than a quorum vouches for"),
        Halt::Conflict { height } => format!("finds a conflict at {height:?}"),
    }
}

/// Truncates a line of a transcript to `characters` characters.
pub fn clip(line: &mut String, characters: usize) {
    if let Some((at, _)) = line.char_indices().nth(characters) {
        line.truncate(at);
        line.push('…');
    }
}

pub fn mark(mark: &Mark) -> String {
    match mark {
        Mark::EnteredView { view, leader: Some(leader) } => format!("enters {view:?}, leader {leader:?}"),
        Mark::EnteredView { view, leader: None } => format!("enters {view:?}, leader not known yet"),
        Mark::TimedOut(view) => format!("gives {view:?} up"),
        Mark::Proposed { view, height, commands } => format!("proposes {commands} commands at {height:?} in {view:?}"),
        Mark::Decided { view, height, digest } => format!("decides {height:?} {digest:?} in {view:?}"),
        Mark::Stable { height } => format!("finds all up to {height:?} stable"),
        Mark::Fetches { height } => format!("is too far behind for blocks and fetches the state after {height:?}"),
        Mark::Adopted { from, height } => format!("goes on from the state after {height:?} in place of {from:?}"),
        Mark::Voided { height, bundle } => format!("executes {height:?} without {bundle:?}, which nobody has"),
        Mark::Refused { view, rule } => format!("refuses to vote in {view:?}: {rule}"),
        Mark::Restarted { view, height } => format!("comes back, has spoken in {view:?} and committed {height:?}"),
        Mark::Forgot => "has lost its memory and asks the others how far they are".into(),
        Mark::Abstains { up_to } => format!("may have spoken up to {up_to:?} and says nothing there"),
        Mark::TakesPart { view } => format!("takes part again from {view:?} on"),
        Mark::Dropped { from, why: Drop::Repeated } => format!("turns away {from:?}: it has said so already"),
        Mark::Dropped { from, why } => format!("turns away {from:?}: {why:?}"),
    }
}

pub fn recipients(to: To) -> String {
    match to {
        To::One(one) => format!("{one:?}"),
        To::All => "all".into(),
        To::Others => "others".into(),
    }
}

/// Describes the content of an envelope.
pub fn envelope<M: Message>(envelope: &Envelope<M>) -> String {
    match envelope {
        Envelope::Protocol(message) => message.describe(),
        Envelope::FetchBlocks { digest, above, most } => {
            format!("asks for {digest:?} and its ancestors above {above:?}, {most} at most")
        }
        Envelope::Blocks(blocks) => {
            let blocks: Vec<String> = blocks.iter().map(|whole| block(whole)).collect();
            format!("blocks {}", blocks.join(", "))
        }
        Envelope::FetchBundles { digests, .. } => format!("asks for {} bundles", digests.len()),
        Envelope::Bundles(bundles) => bundle_list(bundles),
        Envelope::Relay(bundles) => format!("relays {}", bundle_list(bundles)),
        Envelope::Spread(bundles) => format!("spreads {}", bundle_list(bundles)),
        Envelope::Batch(batch) => format!("lists {} bundles in {}", batch.entries().len(), subject(&batch.subject())),
        Envelope::Stored(said) => vote(said),
        Envelope::Certified(certificate) => certificate_name(certificate),
        Envelope::Covers(covers) => {
            let names: Vec<String> = covers.iter().map(|cover| certificate_name(&cover.certificate)).collect();
            format!("shows {}", names.join(", "))
        }
        Envelope::Absent(said) => vote(said),
        Envelope::Void(certificate) => certificate_name(certificate),
        Envelope::Noted { bundle } => format!("has noted {bundle:?}"),
        Envelope::Ask { .. } => "asks how far it is".into(),
        Envelope::Standing { standing, .. } => stands_on(standing),
        Envelope::Checkpoint(said) => vote(said),
        Envelope::Offer { checkpoint } => format!("offers the state of {}", certificate_name(checkpoint)),
        Envelope::FetchState { height, part } => format!("asks for part {part} of the state after {height:?}"),
        Envelope::StatePart { height, part, bytes } => {
            format!("part {part} of the state after {height:?}, {} bytes", bytes.len())
        }
    }
}

fn stands_on(standing: &Standing) -> String {
    let certificates = standing.certificates.iter().map(certificate_name);
    let votes = standing.votes.iter().map(|asked| format!("{:?}'s {}", asked.voter, vote(asked)));
    format!("stands on {}", certificates.chain(votes).collect::<Vec<_>>().join(", "))
}

/// Describes a record of the journal.
pub fn record(record: &Record) -> String {
    match record {
        Record::Promise(promise) => format!("{}, lock {:?}", subject(&promise.subject), promise.lock.view),
        Record::Bundles(bundles) => bundle_list(bundles),
        Record::Kept { spreader, until, bundles } => {
            format!("keeps {spreader:?}'s {} up to {until:?}", bundle_list(bundles))
        }
        Record::Block(whole) => block(whole),
        Record::Certificate(certificate) => certificate_name(certificate),
        Record::Message(message) => format!("a message of {} bytes", message.len()),
        Record::Commit { height, digest } => format!("committed up to {height:?} {digest:?}"),
        Record::Abstain(view) => format!("says nothing up to {view:?}"),
        Record::Summary { height, digest } => format!("what is needed above {height:?} {digest:?}"),
        Record::Ancestor { block: whole, .. } => format!("{}, committed", block(whole)),
        Record::Summed => "that is all that is needed".into(),
        Record::Standing(standing) => stands_on(standing),
        Record::Void(certificate) => certificate_name(certificate),
        Record::LostKept { up_to } => format!("has lost acknowledged bundles of blocks up to {up_to:?}"),
        Record::Stopped { proposed } => format!("has stopped, and proposed up to {proposed:?}"),
        Record::Claims(claims) => {
            format!("claims {}", claims.iter().map(certificate_name).collect::<Vec<_>>().join(", "))
        }
    }
}

/// Describes a block by its height, view, digest and number of bundles.
pub fn block(block: &Block) -> String {
    let on = match (block.is_unlinked(), block.is_optimistic()) {
        (true, _) => String::new(),
        (_, true) => format!(" on the block of {:?}", block.justify.view()),
        _ => format!(" on {}", certificate_name(&block.justify)),
    };
    format!("{:?} {:?} {:?}{on} of {} bundles", block.height, block.digest(), block.view, block.payload.len())
}

/// Describes a statement without its voter.
pub fn subject(subject: &Subject) -> String {
    let Subject { domain, view, height, digest } = subject;
    match domain {
        Domain::Timeout => format!("Timeout({view:?})"),
        Domain::ViewChange => format!("ViewChange({view:?})"),
        Domain::Checkpoint => format!("Checkpoint({height:?} {digest:?})"),
        Domain::Stored => format!("Stored(batch {} {digest:?})", height.0),
        Domain::Absent => format!("Absent(bundle {} of {height:?} {digest:?})", view.0),
        _ => format!("{domain:?}({view:?} {height:?} {digest:?})"),
    }
}

/// Describes a vote without its voter.
pub fn vote(vote: &Vote) -> String {
    let said = match &vote.attachment {
        Attachment::None => String::new(),
        Attachment::HighView(view) => format!(", highest QC({view:?})"),
        Attachment::HighCertificate(certificate) => format!(", highest {}", certificate_name(certificate)),
    };
    format!("{}{said}", subject(&vote.subject))
}

pub fn certificate_name(certificate: &Certificate) -> String {
    let view = certificate.view();
    let aggregate = matches!(certificate.attachment(0), Attachment::HighCertificate(_));
    match certificate.subject.domain {
        Domain::Vote if view.0 == 0 => "genesis".into(),
        Domain::Vote => format!("QC({view:?})"),
        Domain::Timeout if aggregate => format!("AggQC({view:?})"),
        Domain::Timeout => format!("TC({view:?})"),
        Domain::Prepare => format!("prepareQC({view:?})"),
        Domain::Checkpoint => format!("STABLE({:?})", certificate.subject.height),
        Domain::PreCommit => format!("precommitQC({view:?})"),
        Domain::Commit => format!("commitQC({view:?})"),
        Domain::Absent => format!("VOID(bundle {} of {:?})", view.0, certificate.subject.height),
        other => format!("{other:?} certificate({view:?})"),
    }
}

/// Returns the names of replicas, separated by spaces.
pub fn replica_names(replicas: impl IntoIterator<Item = ReplicaId>) -> String {
    replicas.into_iter().map(|replica| format!("{replica:?}")).collect::<Vec<_>>().join(" ")
}

fn certificate_and_signers(certificate: &Certificate) -> String {
    format!("{} from {}", certificate_name(certificate), replica_names(certificate.signers.iter()))
}

fn bundle_list(bundles: &[Bundle]) -> String {
    let commands: usize = bundles.iter().map(Bundle::len).sum();
    match bundles {
        [] => "nothing in it".into(),
        [one] => format!("{commands} commands in bundle {:?}", one.digest()),
        [first, ..] => format!("{commands} commands in {} bundles from {:?} on", bundles.len(), first.digest()),
    }
}
