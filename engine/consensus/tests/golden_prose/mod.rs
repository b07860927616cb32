//! Introductions of the transcripts: the subject of each, and the parts that deserve attention.

use super::golden_files::wrap;
use crate::common::play::Viewed;
use quorate_consensus::facts::{Facts, Shape};

/// Returns the first lines of a transcript.
pub fn title<R: Viewed>(story: &str) -> String {
    let Facts { title, essence, .. } = R::FACTS;
    let (heading, shows) = match story {
        "happy" => ("a happy life", happy(&R::FACTS)),
        "silent-leader" => ("a silent leader", silent_leader(&R::FACTS)),
        "lagging-replica" => ("a replica that lags behind", lagging_replica(&R::FACTS)),
        "view-change-with-a-lock" => ("a view change with a locked replica", view_change_with_a_lock()),
        "state-transfer" => ("a replica that comes back by the state", state_transfer()),
        "leader-crashes-after-proposing-ahead" => {
            ("a leader that crashes after its optimistic proposal", leader_crashes_ahead())
        }
        "uncertified-parent" => ("an optimistic proposal that does not stand", uncertified_parent()),
        "equivocating-leader" => ("a leader that says two things", equivocating_leader(&R::FACTS)),
        _ => panic!("no prose for the story `{story}`"),
    };
    format!("{title}: {heading}\n\n{}\n{}", wrap(essence), wrap(&shows))
}

fn happy(facts: &Facts) -> String {
    if facts.optimistic_proposals {
        return "Here nothing goes wrong. The leader of the next view proposes on a block when it votes for it, so the \
                second of the two QCs that a commit takes comes one hop after the first, at all replicas. With no \
                further command no block follows, and the cluster rests without a message or an alarm. Every link \
                takes 1 ms and all else takes no time, so a millisecond is a hop; `sent` counts messages. Of four \
                votes the first three make the QC."
            .into();
    }
    if facts.shape == Shape::Phases {
        return "Here nothing goes wrong. A commit takes three QCs, all for one block in one view; the leader shows \
                each of them to all and collects the votes that answer it. The last one decides, the view is over, \
                and the cluster rests without a message or an alarm. Every link takes 1 ms and all else takes no \
                time, so a millisecond is a hop; `sent` counts messages. Of four votes the first three make a QC."
            .into();
    }
    let (certificates, follow) = match facts.shape.chain_length() {
        3 => ("three QCs", "two empty blocks follow"),
        _ => ("two QCs", "an empty block follows"),
    };
    format!(
        "Here nothing goes wrong. A commit takes {certificates}; as no further command comes, {follow} at once to \
         complete it. The last QC is shown by itself, and then the cluster rests without a message or an alarm. Every \
         link takes 1 ms and all else takes no time, so a millisecond is a hop; `sent` counts messages. Of four votes \
         the first three make the QC."
    )
}

fn silent_leader(facts: &Facts) -> String {
    let evidence = if facts.timeouts_carry_certificates { "an AggQC" } else { "a TC" };
    if facts.optimistic_proposals {
        return "R0 leads as long as its views succeed (leader `fixed`), and dies before c2 comes. After half a view \
                timeout of 100 ms the others remind it of c2; after a whole one they give the view up. Their timeouts \
                make a TC, which begins the next view. R1 leads it; it waits a quarter of the view for a higher lock, \
                since 2Δ is longer, and proposes with the TC. Then it proposes ahead again."
            .into();
    }
    format!(
        "R0 leads as long as its views succeed (leader `fixed`), and dies before c2 comes. After half a view timeout \
         of 100 ms the others remind it of c2; after a whole one they give the view up. Their timeouts make \
         {evidence}, which begins the next view; R1 leads it and those after it. One view is lost: the gap is one \
         view timeout and the hops of a commit."
    )
}

fn view_change_with_a_lock() -> String {
    "Leaders take turns, and R1 leads v1. The network loses its COMMIT messages, so that R1 alone is locked on b1 \
     when the view changes. R2, who leads v2, is Byzantine: it knows prepareQC(v1), yet proposes b1' on genesis. R0 \
     and R3 are not locked and vote. R1 refuses: b1' does not extend its lock (algorithm 1, line 26), and genesis is \
     no newer than that (line 27). R2 shows prepareQC(v2) and falls silent. R3, who leads v3, builds on the highest \
     prepareQC that the timeouts tell of. Now R1 votes: b2 does not extend its lock, but carries a certificate that \
     is newer, so that no quorum was ever locked on b1 (line 27). In v4 all are locked on b2 and vote for b3, whose \
     certificate is no newer than their lock, because it extends it (line 26)."
        .into()
}

fn lagging_replica(facts: &Facts) -> String {
    if facts.optimistic_proposals {
        return "R3 is cut off from replicas and clients while c1 and c2 are ordered. The first proposal after its \
                return shows the QC of the view before, so R3 follows, and its vote is on time. The block under the QC \
                is missing: R3 gives it 10 ms (fetch_delay_ms) to come by itself, then asks for it and its ancestors \
                by digest, and for their bundles. R3 commits when all is there, in order: nothing is executed across \
                a gap."
            .into();
    }
    if facts.shape == Shape::Phases {
        return "R3 is cut off from replicas and clients while c1 and c2 are ordered. The first proposal after its \
                return tells it all: it shows the commitQC of the view before, so that its view has begun, and R3 \
                follows. The block that is decided is missing: R3 gives it 10 ms (fetch_delay_ms) to come by itself, \
                then asks for it and its ancestors by digest, and for their bundles. What a QC names needs no other \
                signature. R3 commits when all is there, in order: nothing is executed across a gap."
            .into();
    }
    "R3 is cut off from replicas and clients while c1 and c2 are ordered. The first proposal after its return tells \
     it all: a genuine QC means that its view has begun, so R3 follows. The block under the QC is missing: R3 gives \
     it 10 ms (fetch_delay_ms) to come by itself, then asks for it and its ancestors by digest, and for their \
     bundles. What a QC names needs no other signature. R3 commits when all is there, in order: nothing is executed \
     across a gap."
        .into()
}

fn state_transfer() -> String {
    "After every second block (checkpoint_interval) replicas vouch for the state, and here they keep it each time; \
     n-f votes make it STABLE. R3 is cut off for longer than the four blocks that are kept (retained_blocks), or \
     those above the older of two states. When it asks for what it lacks, it is offered a state instead: of f+1 who \
     say so one is honest. STABLE names the manifest, and the manifest its chunks, so it does not matter who sends \
     them; the peers are asked in turn. R3 goes on from there, fetches the blocks above as anybody who lags behind \
     does, and takes part."
        .into()
}

fn equivocating_leader(facts: &Facts) -> String {
    let evidence = if facts.timeouts_carry_certificates { "an AggQC" } else { "a TC" };
    format!(
        "R0 turns Byzantine: in one view it signs two blocks, sends one to R1 and R2 and the other to R2 and R3, \
         votes for neither, and says no more. A replica votes once in a view, so neither gets a quorum. R2 has seen \
         both and accuses R0: two genuine signatures are proof. The view fails; R1 shows {evidence} and builds on the \
         last QC. Both blocks are dead, and c2, which one of them carried, is proposed again. All agree at every \
         moment."
    )
}

fn leader_crashes_ahead() -> String {
    "Leaders take turns (leader `round-robin`). R2 leads v2, proposes b2 ahead in v1, and dies at once. Its proposal \
     is on the way: the others vote for it when QC(v1) shows that b1 is certified. No view is lost for a leader whose \
     proposal is not."
        .into()
}

fn uncertified_parent() -> String {
    "Leaders take turns (leader `round-robin`). R1, who leads v1, is Byzantine: it sends b1' to R2 alone and b1 to R0 \
     and R3, votes for b1, and says no more. R2, who leads v2, votes for b1' and proposes b2 ahead on it. The votes \
     of R0, R1 and R3 certify b1. Nobody votes for b2: its parent is not what they are locked on. R2 enters v2 with \
     QC(v1) and proposes b2', on b1. It made two proposals in v2, but of different kinds: nobody accuses it."
        .into()
}
