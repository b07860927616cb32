//! Hardware sizing: the pipeline paper's own numbers, brute force, monotonicity and invalid input.

use proptest::prelude::*;
use quorate_simulator::models::plan::fpga::{MAX_TRIED_REPLICAS, MAX_TRIED_VALUE_BYTES};
use quorate_simulator::models::plan::load::HEADER_BYTES;
use quorate_simulator::models::plan::{Basis, Core, FpgaQuestion, Framing, Load, Point, Profile, Stage, Tables};

const LINE: f64 = 10e9;

pub fn load(replicas: usize, value_bytes: u32, profile: Profile) -> Load {
    Load {
        replicas,
        value_bytes,
        batch: 1,
        header_bytes: HEADER_BYTES,
        framing: Framing::None,
        profile,
        checkpoint_interval: None,
    }
}

fn question(profile: Profile, scheme: &str, device: &str) -> FpgaQuestion {
    let tables = Tables::shipped();
    let load = load(15, 512, profile);
    FpgaQuestion {
        line_rate_bits_per_s: LINE,
        replicas: vec![4, 7, 15, 31],
        values: vec![512, 4096],
        load,
        device: tables.device(device).expect("a device").clone(),
        cores: FpgaQuestion::cores_for(&tables, &load, scheme, &[]).expect("cores"),
        clock_limit_mhz: None,
        fill_percent: 100.0,
        allowance_percent: 100.0,
    }
}

fn paper() -> FpgaQuestion {
    question(Profile::Domain, "rsa-2048", "xc7vx690t")
}

/// Section 5: "just above 80 Kops/s for 512 B and 19 Kops/s for 4096 B", 15 replicas, without TCP/IP.
#[test]
fn the_papers_limits_of_the_line() {
    let limit = |value| load(15, value, Profile::Domain).operations_per_s(LINE).expect("a rate");
    assert!((80_000.0..81_000.0).contains(&limit(512)), "{}", limit(512));
    assert!((19_000.0..19_100.0).contains(&limit(4096)), "{}", limit(4096));
}

/// The bytes of a batch, added up message by message.
#[test]
fn bytes_and_messages_are_those_of_each_message() {
    for (replicas, value, batch, profile) in
        [(4, 0, 1, Profile::Pk), (15, 512, 1, Profile::Mac), (31, 4096, 8, Profile::Domain)]
    {
        let own = Load { batch, ..load(replicas, value, profile) };
        let (mut out, mut bytes_out, mut into, mut bytes_in, mut blocks) = (0u64, 0u64, 0u64, 0u64, 0u64);
        let header = u64::from(HEADER_BYTES);
        let request = u64::from(value) + header;
        let hashed = |bytes: u64| (bytes + 9).div_ceil(64);
        for _ in 0..batch {
            (into, bytes_in, blocks) = (into + 1, bytes_in + request, blocks + hashed(request));
            (out, bytes_out, blocks) = (out + 1, bytes_out + header, blocks + hashed(header));
        }
        let proposal = u64::from(batch) * request + header;
        blocks += hashed(proposal) + 2 * hashed(header);
        for _ in 1..replicas {
            out += 3;
            bytes_out += proposal + 2 * header;
            into += 2;
            bytes_in += 2 * header;
            blocks += 2 * hashed(header);
        }
        let work = own.work();
        assert_eq!(work.messages_out, out as f64);
        assert_eq!(work.messages_in, into as f64);
        assert_eq!(work.bytes_out, bytes_out as f64);
        assert_eq!(work.bytes_in, bytes_in as f64);
        assert_eq!(work.hash_blocks, blocks as f64);
    }
}

/// Section 4.1: which messages are signed, and which have MACs.
#[test]
fn each_profile_signs_what_the_paper_says() {
    let work = |profile| load(15, 512, profile).work();
    let (pk, mac, domain) = (work(Profile::Pk), work(Profile::Mac), work(Profile::Domain));
    assert_eq!((pk.signatures, mac.signatures, domain.signatures), (4.0, 1.0, 0.0));
    assert_eq!((pk.verifications, mac.verifications, domain.verifications), (29.0, 1.0, 1.0));
    assert_eq!((pk.macs, mac.macs, domain.macs), (0.0, 70.0, 71.0));
    let signed = Load { checkpoint_interval: Some(500), ..load(15, 512, Profile::Domain) };
    assert_eq!(signed.work().signatures, 0.002);
}

/// Footnote 4, and "around 4 times smaller than the FPGA on the new Xilinx Alveo boards and the Amazon F1 instances".
#[test]
fn the_papers_device_by_others() {
    let tables = Tables::shipped();
    let own = tables.device("xc7vx690t").expect("the paper's");
    assert_eq!(((own.slices / 1e3).floor(), own.dsps, own.brams), (108.0, 3600.0, 1470.0));
    let ratio = |name| tables.device(name).expect("a device").luts() / own.luts();
    assert!((ratio("u250") - 4.0).abs() < 0.02, "{}", ratio("u250"));
    // F1 has a VU9P, which is less than four times as large.
    assert!((ratio("vu9p") - 2.73).abs() < 0.01, "{}", ratio("vu9p"));
}

/// Figure 11: the dashed lines fall with the group size, for both value sizes.
#[test]
fn cores_of_rsa_fall_with_the_group_and_with_the_value() {
    let question = paper();
    let slices = |replicas, value| question.point(replicas, value).signature_slices;
    for value in [128, 512, 1024, 4096] {
        let by_group: Vec<f64> = (3..=31).map(|replicas| slices(replicas, value)).collect();
        assert!(by_group.windows(2).all(|pair| pair[1] <= pair[0]), "{value}: {by_group:?}");
        assert!(by_group.last() < by_group.first());
    }
    let by_value: Vec<f64> = (0..=64).map(|step| slices(7, step * 128)).collect();
    assert!(by_value.windows(2).all(|pair| pair[1] <= pair[0]), "{by_value:?}");
}

/// Figure 11: "except for when using small groups or very small average value size, even a mid-range FPGA could
/// implement PBFT at 10Gbps line-rate".
#[test]
fn the_papers_device_fits_all_but_small_groups_and_small_values() {
    let question = paper();
    assert!(question.point(15, 512).fits && question.point(15, 4096).fits && question.point(31, 512).fits);
    assert!(!question.point(4, 512).fits && !question.point(15, 64).fits && !question.point(4, 1024).fits);
    let plan = question.plan().expect("a plan");
    let least: Vec<Option<usize>> = plan.least_replicas.iter().map(|least| least.replicas).collect();
    assert_eq!(least, [Some(12), Some(4)]);
    // The conclusion depends neither on the modules without printed resources nor on the use of the core's 3428 CLBs
    // from the paper's table.
    for percent in [0.0, 50.0, 150.0] {
        let other = FpgaQuestion { allowance_percent: percent, ..question.clone() };
        assert!(other.point(15, 512).fits && !other.point(4, 512).fits, "{percent} %");
    }
    let mut compact = question.clone();
    let rsa = compact.cores.iter_mut().find(|core| core.stage == Stage::Verify).expect("RSA");
    (rsa.luts, rsa.ffs) = (4.0 * 3428.0, 0.0);
    assert!(compact.point(15, 512).fits && !compact.point(4, 64).fits);
}

/// Section 6.2: "from the three BFT variants discussed in this paper, only the domain-optimized version is feasible".
#[test]
fn only_the_domain_optimised_variant_is_feasible_with_rsa() {
    for device in ["xc7vx690t", "u250"] {
        for profile in [Profile::Pk, Profile::Mac] {
            let question = question(profile, "rsa-2048", device);
            let points = question.plan().expect("a plan").points;
            assert!(points.iter().all(|point| !point.fits), "{profile} on {device}");
        }
        assert!(question(Profile::Domain, "rsa-2048", device).point(15, 512).fits);
    }
}

/// The smallest group and size, compared with exhaustive search.
#[test]
fn the_least_ones_are_those_of_trying_all() {
    let question = paper();
    for value in [64, 512, 4096] {
        let fitting: Vec<bool> = (2..=MAX_TRIED_REPLICAS).map(|n| question.point(n, value).fits).collect();
        let last_misfit = fitting.iter().rposition(|fits| !fits);
        let expected = last_misfit.map_or(2, |at| at + 3);
        let found = question.least_replicas(value).replicas;
        assert_eq!(found, Some(expected).filter(|n| *n <= MAX_TRIED_REPLICAS), "{value}");
    }
    let fitting: Vec<bool> = (0..=MAX_TRIED_VALUE_BYTES).map(|value| question.fits(7, value)).collect();
    let expected = fitting.iter().rposition(|fits| !fits).map_or(0, |at| at + 1);
    assert_eq!(question.least_value(7).value_bytes, u32::try_from(expected).ok());
    assert_eq!(question.least_value(2).value_bytes.is_some(), question.fits(2, MAX_TRIED_VALUE_BYTES));
}

/// Compared with adding cores one at a time until they sustain the load.
#[test]
fn cores_are_the_fewest_that_carry_the_load() {
    let question = paper();
    for (replicas, value) in [(4, 64), (7, 512), (31, 8192)] {
        for own in question.point(replicas, value).stages {
            let mut cores = 1.0;
            while cores * own.units_per_s_and_core < own.units_per_s * (1.0 - 1e-12) {
                cores += 1.0;
            }
            assert_eq!(own.cores, cores, "{own:?}");
        }
    }
}

#[test]
fn every_row_has_a_source_and_a_rate() {
    let tables = Tables::shipped();
    let names: std::collections::BTreeSet<&str> = tables.cores.iter().map(|core| core.name.as_str()).collect();
    assert_eq!(names.len(), tables.cores.len());
    for core in &tables.cores {
        assert!(core.source.len() > 20 && core.units_per_s(None) > 0.0 && core.luts > 0.0, "{core:?}");
        assert!(matches!(core.stage, Stage::Verify | Stage::Sign) == core.scheme.is_some(), "{core:?}");
        assert!(core.basis == Basis::Published || core.basis == Basis::Assumed || core.note.is_some(), "{core:?}");
    }
    assert!(tables.devices.iter().all(|device| device.source.len() > 10 && device.year >= 2010));
    // Rates that the sources print, or that follow from their code.
    let rate = |name: &str| tables.cores.iter().find(|core| core.name == name).expect("a core").units_per_s(None);
    assert!((rate("ed25519-xue") - 8347.0).abs() < 1.0);
    assert!((rate("ed25519-bisheh-niasar") - 6200.0).abs() < 1.0);
    assert!((rate("sha256-design-gateway") * 512.0 / 1e9 - 1.575).abs() < 0.001);
    assert!((rate("bn-pairing-brinci") - 1.0 / 3.6e-3).abs() < 0.1);
    // 17 Montgomery products of three products each, a reduction of two, and a division of 4096 steps.
    let product = 128.0 + 128.0;
    assert!((rate("rsa2048-vitis") - 316.5e6 / (53.0 * product + 4096.0)).abs() < 1e-6);
    let sign = (2047.0 + 1024.0) * 3.0 * product + 2.0 * product + 4096.0;
    assert!((rate("rsa2048-vitis-sign") - 316.5e6 / sign).abs() < 1e-6);
}

#[test]
fn a_slower_clock_needs_more_cores_and_a_smaller_part_of_the_device_fits_less() {
    let question = paper();
    let slow = FpgaQuestion { clock_limit_mhz: Some(156.25), ..question.clone() };
    let of = |point: &Point, stage| point.stages.iter().find(|own| own.stage == stage).expect("a stage").cores;
    let (fast, slow) = (question.point(15, 512), slow.point(15, 512));
    assert!(of(&slow, Stage::Verify) > of(&fast, Stage::Verify));
    assert_eq!(of(&slow, Stage::Hash), of(&fast, Stage::Hash), "a clock below the limit stays");
    assert!(fast.fits && !FpgaQuestion { fill_percent: 80.0, ..question }.point(15, 512).fits);
}

#[test]
fn nonsense_is_refused() {
    let question = paper();
    let refused = |changed: FpgaQuestion, words: &[&str]| {
        let fault = changed.plan().expect_err("nonsense");
        assert!(words.iter().all(|word| fault.to_string().contains(word)), "{fault}");
    };
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e16] {
        refused(FpgaQuestion { line_rate_bits_per_s: rate, ..question.clone() }, &["--line-rate"]);
    }
    refused(FpgaQuestion { replicas: vec![], ..question.clone() }, &["--replicas", "is empty"]);
    refused(FpgaQuestion { values: vec![], ..question.clone() }, &["--value", "is empty"]);
    refused(FpgaQuestion { replicas: vec![4, 1], ..question.clone() }, &["--replicas", "2 to 1000"]);
    refused(FpgaQuestion { values: vec![1 << 21], ..question.clone() }, &["--value", "1048576"]);
    refused(FpgaQuestion { fill_percent: f64::NAN, ..question.clone() }, &["--fill-percent"]);
    refused(FpgaQuestion { allowance_percent: -1.0, ..question.clone() }, &["--allowance-percent"]);
    refused(FpgaQuestion { clock_limit_mhz: Some(0.0), ..question.clone() }, &["--clock-mhz"]);
    let without: Vec<Core> = question.cores.iter().filter(|core| core.stage != Stage::Hash).cloned().collect();
    refused(FpgaQuestion { cores: without, ..question.clone() }, &["5 stages, but 4 cores", "hash"]);
    let mut empty = question.clone();
    empty.load.batch = 0;
    refused(empty, &["--batch"]);
    let tables = Tables::shipped();
    let unknown = tables.device("xc7vx69").expect_err("no such device").to_string();
    assert!(unknown.contains("xc7vx690t, vu9p, u250, u55c") && unknown.contains("did you mean"), "{unknown}");
    let cores = |profile, scheme| FpgaQuestion::cores_for(&tables, &load(4, 0, profile), scheme, &[]);
    let unsigned = cores(Profile::Pk, "bls").expect_err("no core signs").to_string();
    assert!(unsigned.contains("`sign` with bls") && unsigned.contains("rsa-2048, ed25519"), "{unsigned}");
    assert!(cores(Profile::Domain, "bls").is_ok());
    let unknown = cores(Profile::Domain, "dsa").expect_err("no such scheme").to_string();
    assert!(unknown.contains("rsa-2048, ed25519, bls"), "{unknown}");
}

proptest! {
    /// A faster link never needs fewer cores in any stage, and doubling its rate at most doubles them.
    #[test]
    fn cores_rise_with_the_line(replicas in 2usize..60, value in 0u32..9000, gigabits in 1u32..100, batch in 1u32..9) {
        let mut slow = paper();
        slow.load.batch = batch;
        slow.line_rate_bits_per_s = f64::from(gigabits) * 1e9;
        let fast = FpgaQuestion { line_rate_bits_per_s: 2.0 * slow.line_rate_bits_per_s, ..slow.clone() };
        let (slow, fast) = (slow.point(replicas, value), fast.point(replicas, value));
        for (one, two) in slow.stages.iter().zip(&fast.stages) {
            prop_assert!(one.cores <= two.cores && two.cores <= 2.0 * one.cores, "{one:?} {two:?}");
        }
        prop_assert!(slow.total.slices <= fast.total.slices);
        prop_assert!((fast.operations_per_s / slow.operations_per_s - 2.0).abs() < 1e-9);
    }

    /// Fewer operations fit the link with more replicas or larger values, and more with batches; they never exceed the
    /// link capacity.
    #[test]
    fn operations_fall_with_the_group_and_the_value(replicas in 2usize..99, value in 0u32..9000, batch in 1u32..64) {
        let rate = |replicas, value, batch| {
            Load { batch, ..load(replicas, value, Profile::Domain) }.operations_per_s(LINE).expect("a rate")
        };
        let own = rate(replicas, value, batch);
        prop_assert!(rate(replicas + 1, value, batch) < own && rate(replicas, value + 1, batch) < own);
        prop_assert!(rate(replicas, value, batch + 1) > own);
        let framed = Load { framing: Framing::Ethernet, batch, ..load(replicas, value, Profile::Domain) };
        let framed = framed.operations_per_s(LINE).expect("a rate");
        prop_assert!((framed / own - 1460.0 / 1538.0).abs() < 1e-12);
        let mut question = paper();
        question.load.batch = batch;
        prop_assert!(question.point(replicas, value).goodput_percent < 100.0);
    }

    /// A fitting design has a sum within the device, and the remainder is the difference.
    #[test]
    fn what_fits_is_within(replicas in 2usize..60, value in 0u32..9000, fill in 50u32..=100, of in 0usize..4) {
        let device = Tables::shipped().devices[of].clone();
        let question = FpgaQuestion { fill_percent: f64::from(fill), device, ..paper() };
        let point = question.point(replicas, value);
        let sum = |of: fn(&quorate_simulator::models::plan::fpga::Resources) -> f64| -> f64 {
            point.stages.iter().map(|stage| of(&stage.resources)).sum()
        };
        let device = &question.device;
        let all = [
            (sum(|own| own.slices), point.total.slices, point.remaining.slices, device.slices),
            (sum(|own| own.dsps), point.total.dsps, point.remaining.dsps, device.dsps),
            (sum(|own| own.brams), point.total.brams, point.remaining.brams, device.brams),
        ];
        for (sum, total, remaining, capacity) in all {
            prop_assert_eq!(sum, total);
            prop_assert!((total + remaining - capacity).abs() < 1e-6);
            prop_assert!(!point.fits || total <= capacity * f64::from(fill) / 100.0 + 1e-9);
        }
        prop_assert_eq!(point.fits, question.fits(replicas, value));
        let within = all.iter().all(|(sum, .., capacity)| *sum <= capacity * f64::from(fill) / 100.0);
        prop_assert_eq!(point.fits, within);
    }
}
