//! The fault `equivocate`.

use crate::byzantine::kind::{Exposure, Facts, Kind};
use crate::byzantine::lie;
use crate::byzantine::malleable::Malleable;
use crate::byzantine::step::{Sent, Step, Tactic};
use quorate_types::ReplicaId;

/// `equivocate`: as a leader, proposes different blocks to two overlapping groups of the others, and votes for both.
/// With its own vote, each group is a quorum, which each block needs. Replicas in both groups receive both blocks, and
/// safety depends on them. Bano et al., "Twins: BFT systems made robust", OPODIS 2021, section 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Equivocate;

impl Kind for Equivocate {
    const FACTS: Facts = Facts { may_wait: true, exposed_by: Exposure::Evidence, ..Facts::lies("equivocate") };
    const DEFAULT: Equivocate = Equivocate;

    fn tactic<M: Malleable>(self) -> impl Tactic<M> + 'static {
        self
    }
}

impl<M: Malleable> Tactic<M> for Equivocate {
    fn send(&mut self, sent: Sent<M>, step: &mut Step<'_, M>) {
        let Some(message) = sent.said() else { return step.pass(sent) };
        let second_vote = step.vote_for_rival(message).map(|lie| sent.saying(lie));
        let Some(rival) = step.rival(message, lie::rival).map(|lie| sent.saying(lie)) else {
            // The collector receives a vote for each block.
            step.pass(sent);
            return step.out.extend(second_vote.map(Sent::action));
        };
        let others: Vec<ReplicaId> = step.context.others().collect();
        let half = (step.context.quorum.quorum() - 1).min(others.len());
        step.pass_to(others[..half].iter().copied(), &sent);
        step.pass_to(others[others.len() - half..].iter().copied(), &rival);
    }
}
