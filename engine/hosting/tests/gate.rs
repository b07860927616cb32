//! Messages wait for their records and stay in order.

use quorate_consensus::protocols::chained::message::ChainedMessage;
use quorate_consensus::seam::RecordId;
use quorate_consensus::{Envelope, To};
use quorate_hosting::{DurabilityGate, Outgoing, Peers, split};
use quorate_types::ReplicaId;

fn message(nonce: u64) -> Outgoing<ChainedMessage> {
    Outgoing { to: To::All, message: Envelope::Ask { nonce }, sign: false }
}

fn released(gate: &mut DurabilityGate<ChainedMessage>, durable: Option<u64>) -> Vec<Outgoing<ChainedMessage>> {
    std::iter::from_fn(|| gate.release(durable.map(RecordId))).collect()
}

#[test]
fn a_message_is_released_when_its_record_is_durable_and_not_before() {
    let mut gate = DurabilityGate::default();
    gate.hold(RecordId(3), message(1));
    gate.hold(RecordId(3), message(2));
    gate.hold(RecordId(5), message(3));
    assert_eq!(released(&mut gate, None), []);
    assert_eq!(released(&mut gate, Some(2)), []);
    assert_eq!(released(&mut gate, Some(4)), [message(1), message(2)]);
    assert_eq!(gate.awaited(), Some(RecordId(5)));
    assert_eq!(released(&mut gate, Some(9)), [message(3)]);
    assert_eq!(gate.awaited(), None);
    assert_eq!(released(&mut gate, None), [], "a message without a record is not held");
}

#[test]
fn a_message_does_not_overtake_one_with_a_later_record() {
    let mut gate = DurabilityGate::default();
    gate.hold(RecordId(5), message(1));
    gate.hold(RecordId(3), message(2));
    assert_eq!(released(&mut gate, Some(4)), []);
    assert_eq!(released(&mut gate, Some(5)), [message(1), message(2)]);
}

#[test]
fn a_crash_drops_waiting_messages() {
    let mut gate = DurabilityGate::default();
    gate.hold(RecordId(1), message(1));
    gate.clear();
    assert_eq!(released(&mut gate, Some(1)), []);
}

#[test]
fn a_message_returns_to_its_sender_if_it_is_a_recipient() {
    let (me, other) = (ReplicaId(2), ReplicaId(1));
    assert_eq!(split(To::One(me), me), (Peers::Nobody, true));
    assert_eq!(split(To::One(other), me), (Peers::One(other), false));
    assert_eq!(split(To::All, me), (Peers::Others, true));
    assert_eq!(split(To::Others, me), (Peers::Others, false));
}
