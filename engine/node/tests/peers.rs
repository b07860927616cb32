//! Fairness between peers.

use bytes::Bytes;
use quorate_node::peers::PeerFrames;
use quorate_types::ReplicaId;

#[test]
fn one_peers_flood_does_not_delay_the_others() {
    let mut frames = PeerFrames::new(4);
    for number in 0..1000u16 {
        frames.push(ReplicaId(1), number.to_le_bytes().to_vec().into());
    }
    for peer in [3, 2, 3] {
        frames.push(ReplicaId(peer), Bytes::from_static(b"vote"));
    }
    let heard: Vec<(ReplicaId, Bytes)> = std::iter::from_fn(|| frames.pop()).collect();
    assert_eq!(heard.len(), 1003);
    assert!(heard[..6].iter().filter(|(from, _)| *from != ReplicaId(1)).count() == 3, "{:?}", &heard[..6]);
    let flood = heard.iter().filter(|(from, _)| *from == ReplicaId(1)).map(|(_, frame)| frame.clone());
    assert!(
        flood.eq((0..1000u16).map(|number| Bytes::from(number.to_le_bytes().to_vec()))),
        "the frames are out of order"
    );
    assert_eq!(frames.pop(), None);
}
