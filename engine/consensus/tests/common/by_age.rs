//! PBFT for MACs whose claims end by age and not by evidence, as in the paper (TOCS 2002, section 4.5, constant M).

use super::play::Play;
use super::told_pbft::{claims, slot};
use quorate_consensus::facts::Facts;
use quorate_consensus::protocols::pbft::engine::Engine;
use quorate_consensus::protocols::pbft::log::Log;
use quorate_consensus::protocols::pbft::message::{Declaration, NewView, PbftMessage, ViewChange, bare};
use quorate_consensus::protocols::pbft::selection::Selection;
use quorate_consensus::protocols::pbft::sets::Sets;
use quorate_consensus::protocols::pbft::view_change_evidence::ViewChangeEvidence;
use quorate_consensus::{Config, Replica};
use quorate_types::{Certificate, Domain, EpochId, Height, Quorum, ReplicaId, Subject};

/// The variant of the view change.
pub struct ByAge;

impl ViewChangeEvidence for ByAge {
    const FACTS: Facts = Sets::FACTS;
    const CARRIED_IS_HELD: bool = Sets::CARRIED_IS_HELD;
    const SHOWS_VOTES: bool = Sets::SHOWS_VOTES;
    const EVIDENCE_ENDS_CLAIMS: bool = false;
    const MORE_HELPS: bool = Sets::MORE_HELPS;

    fn keep(certificate: Certificate) -> Certificate {
        Sets::keep(certificate)
    }

    fn fits(change: &ViewChange) -> bool {
        Sets::fits(change)
    }

    fn declares(change: &Declaration) -> bool {
        Sets::declares(change)
    }

    fn select(changes: &[Declaration], quorum: Quorum) -> Option<Selection> {
        Sets::select(changes, quorum)
    }

    fn unproven<'a>(shown: &'a [Certificate], log: &Log) -> Vec<&'a Certificate> {
        Sets::unproven(shown, log)
    }

    fn proofs(selection: &Selection, changes: &[&ViewChange]) -> Vec<Certificate> {
        Sets::proofs(selection, changes)
    }

    fn proves(shown: &[Certificate], selection: &Selection) -> bool {
        Sets::proves(shown, selection)
    }

    fn follow(log: &mut Log, _new_view: &NewView, selection: &Selection, returns: bool, floor: Height) {
        for (slot, chosen) in selection.iter().filter(|(slot, _)| *slot > floor) {
            let entry = log.slot(slot);
            if let Some(subject) = chosen.filter(|_| returns) {
                entry.prepared = Some(bare(*subject));
            }
        }
    }
}

/// The protocol in the harness.
pub struct MacByAge;

impl Play for MacByAge {
    const NAME: &'static str = "pbft-mac";
    const VOTED_IN: Domain = Domain::Prepare;
    const ORDERS_TWICE: bool = true;
    type Message = PbftMessage;
    type Engine = Engine<ByAge>;

    fn replica(config: Config, quorum: Quorum, epoch: EpochId, me: ReplicaId, salt: u64) -> Replica<Self::Engine> {
        Replica::new(Engine::new(&config, &epoch), config, quorum, epoch, me, salt)
    }

    fn claims(replica: &Replica<Self::Engine>) -> Vec<Subject> {
        claims(replica.protocol())
    }

    fn slot(subject: &Subject) -> Height {
        slot(subject)
    }
}
