//! Limit on the number of bundles that a block names after view timeouts.

use crate::unit_support::*;
use proptest::prelude::*;
use quorate_consensus::Config;
use quorate_consensus::config::Dissemination;
use quorate_consensus::data::batching::Batching;
use quorate_consensus::data::naming::{Naming, PACKET_BUNDLES};
use quorate_types::limits::{MAX_BLOCK_BUNDLES, MAX_FRAME_BYTES, MAX_PROOF_BYTES};
use quorate_types::{CoverNames, Digest};

fn naming() -> Naming {
    Naming::new(&config())
}

#[test]
fn nothing_is_limited_until_a_view_times_out() {
    let mut naming = naming();
    for named in [0, 1, 5000, MAX_BLOCK_BUNDLES] {
        naming.on_certificate(named);
        assert_eq!(naming.limit(), MAX_BLOCK_BUNDLES);
    }
}

#[test]
fn views_that_time_out_in_a_row_cut_deeper_each_time() {
    let mut naming = naming();
    let limits: Vec<usize> = (1..=4)
        .map(|views| {
            naming.on_timeout(2000 * views);
            naming.limit()
        })
        .collect();
    assert_eq!(limits, [1000, 250, 31, PACKET_BUNDLES], "more wait after each view");
}

#[test]
fn a_certificate_between_them_makes_the_next_cut_a_half() {
    let mut naming = naming();
    naming.on_timeout(2000);
    naming.on_timeout(2000);
    naming.on_certificate(1);
    assert_eq!(naming.limit(), 250, "a short block shows nothing about longer ones");
    naming.on_timeout(2000);
    assert_eq!(naming.limit(), 125);
}

#[test]
fn blocks_that_use_the_limit_double_it_to_half_of_what_failed_and_raise_it_slowly_from_there() {
    let mut naming = naming();
    (0..9).for_each(|_| naming.on_timeout(2000));
    assert_eq!(naming.limit(), PACKET_BUNDLES);
    let limits: Vec<usize> = (0..9)
        .map(|_| {
            naming.on_certificate(naming.limit());
            naming.limit()
        })
        .collect();
    assert_eq!(limits, [32, 64, 128, 256, 512, 1000, 1062, 1128, 1198]);
    (0..200).for_each(|_| naming.on_certificate(naming.limit()));
    assert_eq!(naming.limit(), MAX_BLOCK_BUNDLES, "in the end it has no effect");
}

#[test]
fn a_short_limit_grows_by_a_packet() {
    let mut naming = naming();
    naming.on_timeout(2 * PACKET_BUNDLES);
    assert_eq!(naming.limit(), PACKET_BUNDLES);
    naming.on_certificate(naming.limit());
    assert_eq!(naming.limit(), 2 * PACKET_BUNDLES);
    naming.on_certificate(naming.limit());
    assert_eq!(naming.limit(), 3 * PACKET_BUNDLES);
}

#[test]
fn a_block_of_one_packet_did_not_fail_for_its_length() {
    let mut naming = naming();
    (0..9).for_each(|_| naming.on_timeout(PACKET_BUNDLES));
    assert_eq!(naming.limit(), MAX_BLOCK_BUNDLES);
}

#[test]
fn blocks_that_carry_commands_shrink_to_one_bundle() {
    let mut naming = Naming::new(&Config { dissemination: Dissemination::Leader, ..config() });
    (0..9).for_each(|_| naming.on_timeout(40));
    assert_eq!(naming.limit(), 1);
    naming.on_certificate(1);
    assert_eq!(naming.limit(), 2);
}

#[test]
fn blocks_of_a_fixed_size_keep_it() {
    let mut fixed = Batching::new(&Config { batch: 100.into(), ..config() });
    let mut auto = Batching::new(&config());
    let before = fixed.room();
    for batching in [&mut fixed, &mut auto] {
        batching.on_timeout(2000);
    }
    assert_eq!(fixed.room(), before);
    assert_eq!(auto.room().bundles, 1000);
}

#[derive(Clone, Debug)]
enum Event {
    Certified(usize),
    TimedOut(usize),
}

proptest! {
    /// After any history, certificates of full blocks lift the limit, and the limit never starves a leader.
    #[test]
    fn the_limit_stays_within_bounds_and_recovers(
        carries in any::<bool>(),
        events in prop::collection::vec(
            prop_oneof![
                (0..=MAX_BLOCK_BUNDLES).prop_map(Event::Certified),
                any::<usize>().prop_map(Event::TimedOut),
            ],
            0..100,
        ),
    ) {
        let dissemination = if carries { Dissemination::Leader } else { Dissemination::Client };
        let mut naming = Naming::new(&Config { dissemination, ..config() });
        for event in events {
            let before = naming.limit();
            match event {
                Event::Certified(named) => {
                    naming.on_certificate(named);
                    prop_assert!(naming.limit() >= before);
                }
                Event::TimedOut(open) => {
                    naming.on_timeout(open);
                    prop_assert!(naming.limit() <= before);
                }
            }
            naming.invariants();
        }
        (0..300).for_each(|_| naming.on_certificate(naming.limit()));
        prop_assert_eq!(naming.limit(), MAX_BLOCK_BUNDLES);
    }
}

/// Length of that part of a block that names `bundles` bundles, each with its own storage certificate if it has one.
fn naming_bytes(bundles: usize, are_covered: bool) -> usize {
    let names =
        |kind: u8| (0..bundles).map(move |at| Digest([kind, at as u8].repeat(16).try_into().expect("32 bytes")));
    let covers = CoverNames::new(names(1).map(|name| are_covered.then_some(name)));
    4 + bundles * 32 + covers.wire_bytes()
}

/// The rest of the packet is for certificates.
#[test]
fn the_shortest_blocks_name_their_bundles_and_certificates_in_half_of_a_packet() {
    const HALF_BYTES: usize = 600;
    for dissemination in [Dissemination::Client, Dissemination::Replicas, Dissemination::ReplicasCertified] {
        let mut naming = Naming::new(&Config { dissemination, ..config() });
        (0..20).for_each(|_| naming.on_timeout(10_000));
        let are_covered = dissemination == Dissemination::ReplicasCertified;
        let bytes = naming_bytes(naming.limit(), are_covered);
        assert!(bytes <= HALF_BYTES, "{dissemination}: {bytes} bytes");
        assert!(naming_bytes(2 * naming.limit(), are_covered) > HALF_BYTES, "{dissemination}: needlessly short");
    }
}

/// The longest block that the wire format allows, with a separate storage certificate for each bundle.
#[test]
fn no_number_of_names_exceeds_a_frame() {
    let cover_bytes = 4 + MAX_BLOCK_BUNDLES * 32 + MAX_BLOCK_BUNDLES * 2;
    let longest = 4 + MAX_BLOCK_BUNDLES * 32 + cover_bytes;
    assert!(naming_bytes(200, true) <= 4 + 200 * 32 + 4 + 200 * 34);
    assert!(longest + 2 * MAX_PROOF_BYTES < MAX_FRAME_BYTES, "{longest} bytes of names, and two certificates");
}
