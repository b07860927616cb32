//! CPU cores: the paper's figures, sums, monotonicity and invalid input.

use crate::plan_fpga::load;
use proptest::prelude::*;
use quorate_simulator::models::plan::cpu::{CpuModel, CpuStage, Role};
use quorate_simulator::models::plan::paper::PaperCosts;
use quorate_simulator::models::plan::{CpuCosts, CpuQuestion, Load, Profile};

fn costs() -> CpuCosts {
    CpuCosts {
        source: "a table of this test".to_owned(),
        read_call_us: 2.0,
        write_call_us: 4.0,
        receive_us: 0.1,
        send_us: 0.2,
        receive_byte_ns: 0.5,
        send_byte_ns: 0.25,
        hash_us: 0.3,
        hash_byte_ns: 1.0,
        proposal_us: 1.5,
        statement_us: 0.5,
        submit_us: 0.4,
        verdict_us: 1.25,
        pool_us: 1.0,
        bundle_us: 0.75,
        command_us: 0.05,
        command_byte_ns: 0.4,
        client_verify_us: 18.0,
        sign_us: 20.0,
        verify_us: vec![(1, 18.0), (3, 34.0), (11, 98.0)],
        mac_us: 0.2,
        check_us: vec![(1, 0.3), (11, 2.3)],
        flush_us: 0.0,
    }
}

fn question(model: CpuModel, profile: Profile, scheme: &str) -> CpuQuestion {
    CpuQuestion {
        rate_per_s: Some(10_000.0),
        line_rate_bits_per_s: 10e9,
        replicas: vec![15],
        values: vec![512],
        load: load(15, 512, profile),
        scheme: scheme.to_owned(),
        model,
        messages_per_call: 10.0,
        cores: vec![1, 2, 4, 8, 16],
    }
}

fn table(profile: Profile) -> CpuQuestion {
    question(CpuModel::Table(Box::new(costs())), profile, "ed25519")
}

fn paper(profile: Profile, scheme: &str) -> CpuQuestion {
    let own = question(CpuModel::Paper(Box::new(PaperCosts::shipped())), profile, scheme);
    CpuQuestion { cores: vec![6], ..own }
}

/// The leader and a backup of four replicas, added up by hand: headers of 148 B, values of 100 B, one call per 10
/// messages.
#[test]
fn stages_are_the_sums_of_their_work() {
    let own = CpuQuestion { rate_per_s: Some(1000.0), ..table(Profile::Pk) };
    let point = own.point(4, 100);
    let of = |role: Role, stage: CpuStage| {
        let role = point.roles.iter().find(|own| own.role == role).expect("a role");
        role.stages.iter().find(|own| own.stage == stage).expect("a stage").us_per_operation
    };
    let close = |value: f64, expected: f64| assert!((value - expected).abs() < 1e-9, "{value} {expected}");
    // In: a request of 248 B, three PREPAREs, three COMMITs.
    close(of(Role::Leader, CpuStage::Receive), 0.7 * 2.0 + 7.0 * 0.1 + (248.0 + 6.0 * 148.0) * 0.0005);
    // A PRE-PREPARE of 396 B, two PREPAREs, three COMMITs.
    close(of(Role::Backup, CpuStage::Receive), 0.6 * 2.0 + 6.0 * 0.1 + (396.0 + 5.0 * 148.0) * 0.0005);
    // The client, and a quorum of three.
    close(of(Role::Leader, CpuStage::Verify), 18.0 + 34.0);
    close(of(Role::Leader, CpuStage::Sign), 40.0);
    close(of(Role::Leader, CpuStage::Order), 1.5 + 8.0 * 0.5 + 1.25 + 0.4 + 1.0);
    close(of(Role::Backup, CpuStage::Order), 1.5 + 7.0 * 0.5 + 1.25 + 1.0);
    close(of(Role::Leader, CpuStage::Hash), 3.0 * 0.3 + (248.0 + 296.0) * 0.001);
    close(of(Role::Leader, CpuStage::Execute), 0.05 + 0.75 + 100.0 * 0.0004);
    // Three PRE-PREPAREs, three COMMITs, a reply.
    close(of(Role::Leader, CpuStage::Send), 0.7 * 4.0 + 3.0 * 0.2 + (3.0 * (396.0 + 148.0) + 148.0) * 0.00025);
    close(of(Role::Backup, CpuStage::Send), 0.7 * 4.0 + 3.0 * 0.2 + (6.0 * 148.0 + 148.0) * 0.00025);
    for role in &point.roles {
        let sum: f64 = role.stages.iter().map(|stage| stage.us_per_operation).sum();
        close(sum, role.us_per_operation);
        close(role.cores, sum * 1000.0 / 1e6);
        let most = role.stages.iter().map(|stage| stage.us_per_operation).fold(0.0, f64::max);
        assert_eq!(role.saturates_first, CpuStage::Verify);
        close(role.saturates_at_per_s, 1e6 / most);
    }
}

/// MACs replace signatures, first between replicas, then also on replies.
#[test]
fn macs_save_what_signatures_cost() {
    let sign = |profile| {
        let point = table(profile).point(15, 512);
        point.roles[0].stages.iter().find(|own| own.stage == CpuStage::Sign).expect("a stage").us_per_operation
    };
    assert_eq!(sign(Profile::Pk), 40.0);
    assert!((sign(Profile::Mac) - (15.0 * 0.2 + 20.0)).abs() < 1e-9);
    assert!((sign(Profile::Domain) - (15.0 * 0.2 + 0.2)).abs() < 1e-9);
}

/// Ordering is one thread, and eventually the link is saturated.
#[test]
fn more_cores_help_until_ordering_or_the_line_limits() {
    let point = table(Profile::Domain).point(15, 512);
    let limits: Vec<&str> = point.on_cores.iter().map(|own| own.limit.as_str()).collect();
    assert_eq!(limits, ["cores", "cores", "order", "order", "order"], "{point:?}");
    let rates: Vec<f64> = point.on_cores.iter().map(|own| own.operations_per_s).collect();
    assert!(rates.windows(2).all(|pair| pair[1] >= pair[0]) && (rates[1] / rates[0] - 2.0).abs() < 1e-9);
    let slow = CpuQuestion { line_rate_bits_per_s: 1e8, ..table(Profile::Domain) };
    assert!(slow.point(15, 512).on_cores.iter().all(|own| own.limit == "line"));
}

/// Sections 5.1 to 5.4: results of the paper's printed costs for its six cores, compared with its measurements.
#[test]
fn the_papers_costs_against_its_measurements() {
    let on_six = |profile, scheme, value| {
        let own = paper(profile, scheme);
        own.validate().expect("a question");
        own.point(15, value).on_cores[0].operations_per_s
    };
    // The costs were derived from these two measurements, so they are reproduced.
    assert!((on_six(Profile::Domain, "rsa-2048", 512) - 20_000.0).abs() < 1.0);
    assert!((on_six(Profile::Domain, "rsa-2048", 4096) - 11_400.0).abs() < 1.0);
    // An upper bound on these, since the paper prints no verification cost.
    let measured = [
        (Profile::Pk, "rsa-2048", 800.0),
        (Profile::Pk, "rsa-1024", 4.0 * 800.0),
        (Profile::Mac, "rsa-2048", 2600.0),
        (Profile::Mac, "rsa-1024", 2.5 * 2600.0),
    ];
    for (profile, scheme, paper) in measured {
        let ratio = on_six(profile, scheme, 512) / paper;
        assert!((1.0..1.6).contains(&ratio), "{profile} {scheme}: {ratio}");
    }
    // 4.5 million cycles, printed as "around 1.2 ms".
    let costs = PaperCosts::shipped();
    assert!((costs.sign_cycles / costs.clock_ghz / 1e6 - 1.2).abs() < 1e-9);
    let signing = paper(Profile::Mac, "rsa-2048").point(15, 512).roles[0].saturates_first;
    assert_eq!(signing, CpuStage::Sign);
}

#[test]
fn nonsense_is_refused() {
    let refused = |changed: CpuQuestion, words: &[&str]| {
        let fault = changed.plan().expect_err("nonsense");
        assert!(words.iter().all(|word| fault.to_string().contains(word)), "{fault}");
    };
    let own = table(Profile::Domain);
    for rate in [0.0, -5.0, f64::NAN, f64::INFINITY, 1e13] {
        refused(CpuQuestion { rate_per_s: Some(rate), ..own.clone() }, &["--rate"]);
    }
    refused(CpuQuestion { line_rate_bits_per_s: 0.0, ..own.clone() }, &["--line-rate"]);
    refused(CpuQuestion { messages_per_call: f64::NAN, ..own.clone() }, &["--messages-per-call"]);
    refused(CpuQuestion { replicas: vec![], ..own.clone() }, &["--replicas"]);
    refused(CpuQuestion { values: vec![], ..own.clone() }, &["--value"]);
    refused(CpuQuestion { replicas: vec![1001], ..own.clone() }, &["--replicas", "1000"]);
    refused(CpuQuestion { cores: vec![0], ..own.clone() }, &["--cores", "1 to 1024"]);
    refused(paper(Profile::Domain, "ed25519"), &["--scheme", "rsa-2048"]);
}

proptest! {
    /// The cores increase with the load, the group and the value; batches save work.
    #[test]
    fn cores_rise_with_load_group_and_value(replicas in 2usize..60, value in 0u32..9000, batch in 1u32..64) {
        let total = |replicas, value, batch| {
            let own = table(Profile::Domain);
            let own = CpuQuestion { load: Load { batch, ..own.load }, ..own };
            own.point(replicas, value).roles.iter().map(|role| role.us_per_operation).fold(0.0, f64::max)
        };
        let own = total(replicas, value, batch);
        prop_assert!(total(replicas + 1, value, batch) > own && total(replicas, value + 1, batch) > own);
        prop_assert!(total(replicas, value, batch + 1) < own);
        let double = CpuQuestion { rate_per_s: Some(20_000.0), ..table(Profile::Domain) };
        let (one, two) = (table(Profile::Domain).point(replicas, value), double.point(replicas, value));
        prop_assert!((two.roles[0].cores / one.roles[0].cores - 2.0).abs() < 1e-9);
    }
}
