//! Runs and stops replicas, then inspects and exports their directories. An independent reader checks the exports, and
//! then tampered versions of both.

use crate::remains::*;
use quorate_client::ClientConfig;
use quorate_consensus::config::{Dissemination, ProtocolKind};
use quorate_consensus::recovery::journal::Record;
use quorate_crypto::SchemeKind;
use quorate_node::config::CONFIG_FILE;
use quorate_node::{NodeConfig, testnet};
use quorate_operator::inspection::check::{Checked, check};
use quorate_operator::inspection::{InspectArgs, InspectError, Memory, run};
use quorate_operator::report::Report;
use quorate_types::{Block, Certificate, Domain};
use serde_json::Value;
use std::fs;

#[test]
fn an_independent_reader_accepts_the_exports_of_every_protocol() {
    for protocol in ProtocolKind::ALL.iter().copied() {
        let remains = Remains::of(protocol, "stranger");
        let mut commands = 0;
        for replica in 0..REPLICAS as u16 {
            let (result, export) = remains.export(replica);
            let checked =
                crate::stranger::check(&export).unwrap_or_else(|why| panic!("{protocol}, replica {replica}: {why}"));
            let verification = result.verification.expect("it was asked for");
            let ours = self::checked(&remains, &export).unwrap_or_else(|why| panic!("{protocol}, {replica}: {why}"));
            let found = (ours.committed_height, ours.proven_height, ours.commands, ours.checkpoints, ours.signatures);
            let theirs = (checked.committed, checked.proven, checked.commands, checked.checkpoints, checked.signatures);
            assert_eq!(found, theirs, "{protocol}, replica {replica}: this program against the independent reader");
            assert_eq!(checked.proven, verification.proven_height, "{protocol}, replica {replica}");
            assert_eq!(checked.committed, verification.committed_height, "{protocol}, replica {replica}");
            // The certificates that commit the last blocks may have arrived after the last record.
            assert!(checked.proven * 2 > checked.committed, "{protocol}, replica {replica}: {checked:?}");
            assert!(checked.signatures >= 3 * checked.proven / 8 && verification.states > 0, "{protocol}: {checked:?}");
            commands = commands.max(checked.commands);
        }
        // The journal may lack the commit of the last block: nothing waits for it.
        assert!(commands + 1 >= COMMANDS, "{protocol}: an export contains the answered commands");
    }
}

#[test]
fn an_independent_reader_detects_a_flipped_bit() {
    for protocol in [ProtocolKind::Jolteon, ProtocolKind::Pbft] {
        let remains = Remains::of(protocol, "flipped");
        let (_, export) = remains.export(0);
        crate::stranger::check(&export).expect("the export is sound");
        let full =
            |line: &Value| line["line"] == "block" && line["height"] == 3 && line["payload"].as_array().is_some();
        let (at, block) = find_line(&export, full);
        let with_payload = |line: &Value| line["line"] == "block" && line["results"][0].is_string();
        let (payload_at, with_payload) = find_line(&export, with_payload);
        let (checkpoint_at, checkpoint) = find_line(&export, |line| line["line"] == "checkpoint");
        let mut places = vec![
            (at, &block, "/digest"),
            (at, &block, "/view"),
            (at, &block, "/height"),
            (at, &block, "/author"),
            (payload_at, &with_payload, "/payload/0"),
            (payload_at, &with_payload, "/bundles/0"),
            (payload_at, &with_payload, "/results/0"),
            (checkpoint_at, &checkpoint, "/certificate/signatures/0"),
            (checkpoint_at, &checkpoint, "/certificate/digest"),
            (checkpoint_at, &checkpoint, "/certificate/height"),
            (checkpoint_at, &checkpoint, "/history"),
            (checkpoint_at, &checkpoint, "/frontier/0/digest"),
        ];
        if protocol != ProtocolKind::Pbft {
            let of_justify = ["/justify/digest", "/justify/view", "/justify/signatures/1", "/justify/signers/2"];
            places.extend(of_justify.map(|field| (at, &block, field)));
        }
        for (at, line, field) in places {
            let mut changed = line.clone();
            flip(changed.pointer_mut(field).unwrap_or_else(|| panic!("{field} of {line}")));
            let outcome = crate::stranger::check(&with_line(&export, at, &changed));
            assert!(outcome.is_err(), "{protocol}: a flipped bit in {field} passes: {outcome:?}");
            let outcome = checked(&remains, &with_line(&export, at, &changed));
            assert!(outcome.is_err(), "{protocol}: a flipped bit in {field} passes --check: {outcome:?}");
        }
        let without = |left_out: usize| -> String {
            let lines = export.lines().enumerate().filter(|(number, _)| *number != left_out);
            lines.flat_map(|(_, line)| [line, "\n"]).collect()
        };
        for left_out in [at, payload_at, export.lines().count() - 1] {
            assert!(
                crate::stranger::check(&without(left_out)).is_err(),
                "{protocol}: a missing line {left_out} passes"
            );
            assert!(
                checked(&remains, &without(left_out)).is_err(),
                "{protocol}: a missing line {left_out} passes --check"
            );
        }
        // Flips any bit: this program refuses everything that the independent reader refuses.
        for step in 0..200 {
            let mut bytes = export.clone().into_bytes();
            let at = step * 7919 * 31 % bytes.len();
            bytes[at] ^= 1 << (step % 7);
            let Ok(text) = String::from_utf8(bytes) else { continue };
            let (theirs, ours) = (crate::stranger::check(&text), checked(&remains, &text));
            assert!(theirs.is_ok() || ours.is_err(), "{protocol}: a bit of byte {at} passes --check: {theirs:?}");
        }
    }
}

/// Runs `--check` on a text.
pub fn checked(remains: &Remains, export: &str) -> Result<Checked, InspectError> {
    let path = remains.directory.join("checked.jsonl");
    fs::write(&path, export).expect("it can be written");
    check(&path, None)
}

#[test]
fn an_export_is_checked_against_the_trusted_keys() {
    let remains = Remains::of(ProtocolKind::Jolteon, "keys");
    let (_, export) = remains.export(2);
    let (of_file, path) = (checked(&remains, &export).expect("it is sound"), remains.directory.join("checked.jsonl"));
    assert!(!of_file.keys_compared && of_file.notes.iter().any(|note| note.contains("--keys")), "{:?}", of_file.notes);
    let committee = NodeConfig::read(&remains.home(0).join(CONFIG_FILE)).expect("it is there").committee();
    let committee = committee.expect("it is valid");
    let trusted =
        ClientConfig::new(&of_file.cluster, ProtocolKind::Jolteon, SchemeKind::ED25519, 1, &committee.members);
    assert!(check(&path, Some(&trusted)).expect("the keys are the same").keys_compared);
    let mut foreign = trusted.clone();
    foreign.members.swap(1, 2);
    let refusal = check(&path, Some(&foreign)).expect_err("the keys differ").to_string();
    assert!(refusal.contains("line 1") && refusal.contains("replica 1 has the voting key"), "{refusal}");
    let other = ClientConfig { cluster: "another".into(), ..trusted.clone() };
    assert!(check(&path, Some(&other)).is_err_and(|error| error.to_string().contains("of cluster keys")));
    let fewer = ClientConfig { members: trusted.members[..3].to_vec(), ..trusted };
    assert!(check(&path, Some(&fewer)).is_err_and(|error| error.to_string().contains("n=4 f=1")));
    assert!(matches!(check(&remains.directory, None), Err(InspectError::Unreadable { .. })));
}

/// Returns the index of the record of the `nth` block.
fn block_at(records: &[Record], nth: usize) -> usize {
    let blocks = records.iter().enumerate().filter(|(_, record)| matches!(record, Record::Block(_)));
    blocks.map(|(at, _)| at).nth(nth).expect("there are enough blocks")
}

fn spoil(certificate: &mut Certificate) {
    let mut proof = certificate.proof.to_vec();
    proof[70] ^= 1;
    certificate.proof = proof.into();
}

/// A block's digest does not cover its proof, so a peer may send an honest replica a block with any proof.
#[test]
fn an_invalid_proof_in_a_block_is_noted_and_not_exported() {
    let remains = Remains::of(ProtocolKind::Jolteon, "void-proof");
    let (sound, whole) = remains.export(1);
    rewrite(&remains.home(1), |mut records| {
        let at = block_at(&records, 5);
        let Record::Block(block) = &records[at] else { unreachable!("it is a block") };
        let mut justify = block.justify.clone();
        spoil(&mut justify);
        records[at] =
            Record::Block(Block::new(block.view, block.author, justify, block.payload.clone(), block.time_ms).into());
        records
    });
    let (result, export) = remains.export(1);
    assert_eq!(result.failure(), None);
    let verification = result.verification.as_ref().expect("it was verified");
    assert!(verification.notes.iter().any(|note| note.contains("invalid proof")), "{:?}", verification.notes);
    let proven = sound.verification.as_ref().expect("it was verified").proven_height;
    assert_eq!(verification.proven_height, proven, "later certificates prove as much");
    let theirs = crate::stranger::check(&export).expect("a stranger can check it");
    assert_eq!((theirs.committed, theirs.proven), (verification.committed_height, proven));
    assert_eq!(checked(&remains, &export).expect("and so can this program").proven_height, proven);
    assert_eq!(export.matches("\"unproven\":true").count(), 1);
    // A certificate without its proof must not prove anything.
    let (last, mut line) = find_line(&whole, |line| line["certificate"]["domain"] == Domain::Checkpoint as u8);
    let form = line["certificate"].as_object_mut().expect("it has a certificate");
    form.remove("signatures");
    form.insert("unproven".into(), Value::Bool(true));
    assert!(checked(&remains, &with_line(&whole, last, &line)).is_err(), "an unproven checkpoint passes --check");
    assert!(crate::stranger::check(&with_line(&whole, last, &line)).is_err(), "an unproven checkpoint passes");
}

#[test]
fn verification_finds_damage_that_checksums_do_not_detect() {
    let remains = Remains::of(ProtocolKind::Jolteon, "tampered");
    is_noticed(&remains, 1, "is invalid", |mut records| {
        let certificate = records.iter_mut().rev().find_map(|record| match record {
            Record::Certificate(certificate) if !certificate.proof.is_empty() => Some(certificate),
            _ => None,
        });
        spoil(certificate.expect("it kept one"));
        records
    });
    is_noticed(&remains, 1, "does not precede it in the journal", |mut records| {
        let at = block_at(&records, 5);
        records.remove(at);
        records
    });
    is_noticed(&remains, 1, "lacks its bundle", |mut records| {
        let at = records.iter().position(|record| matches!(record, Record::Bundles(_))).expect("there are bundles");
        records.remove(at);
        records
    });
    is_noticed(&remains, 1, "leaves a gap", |mut records| {
        let commit = records.iter_mut().find_map(|record| match record {
            Record::Commit { digest, .. } => Some(digest),
            _ => None,
        });
        commit.expect("something is committed").0[0] ^= 1;
        records
    });
    is_noticed(&remains, 1, "contradicts itself", |mut records| {
        let promise = records.iter().rev().find_map(|record| match record {
            Record::Promise(promise) if promise.subject.domain == Domain::Vote => Some(promise.clone()),
            _ => None,
        });
        let mut other = promise.expect("it has voted");
        other.subject.digest.0[0] ^= 1;
        records.push(Record::Promise(other));
        records
    });
    let home = remains.home(2);
    let config = home.join(CONFIG_FILE);
    let text = fs::read_to_string(&config).expect("it was written before");
    fs::write(&config, text.replace("application = \"kv\"", "application = \"log\"")).expect("it can be written");
    let words = "a quorum certified the state";
    assert!(remains.inspect(2, true).failure().expect("another state").contains(words), "the difference is detected");
}

/// Moves the bundles of a block to its commit, as journaled by a replica that voted before they arrived.
fn delay_bundles(mut records: Vec<Record>) -> Vec<Record> {
    let at = records.iter().position(has_bundles).expect("there are bundles");
    let (Record::Bundles(bundles) | Record::Kept { bundles, .. }) = records.remove(at) else { unreachable!() };
    let names = |record: &Record| match record {
        Record::Block(block) => bundles.iter().any(|bundle| block.payload.contains(&bundle.digest())),
        _ => false,
    };
    let Some(Record::Block(block)) = records.iter().find(|record| names(record)) else { panic!("no block has them") };
    let commits = |record: &Record| matches!(record, Record::Commit { height, .. } if *height >= block.height);
    let commit = records.iter().position(commits).expect("the first blocks are committed");
    records.insert(commit, Record::Bundles(bundles));
    records
}

/// Returns whether a record contains bundles, of a block or acknowledged ones.
fn has_bundles(record: &Record) -> bool {
    matches!(record, Record::Bundles(_) | Record::Kept { .. })
}

#[test]
fn bundles_may_follow_their_block_if_votes_do_not_wait_for_them() {
    let remains = Remains::after(COMMANDS, 10, ProtocolKind::Jolteon, "late", |config| {
        config.consensus.dissemination = Dissemination::ReplicasCertified;
    });
    let (before, as_exported) = remains.export(1);
    rewrite(&remains.home(1), delay_bundles);
    let (after, export) = remains.export(1);
    assert_eq!(before.committed_height, after.committed_height);
    assert_eq!(export, as_exported, "an export has the bundles with their block");
    crate::stranger::check(&export).expect("a stranger can check it");
    is_noticed(&remains, 1, "lacks its bundle", |mut records| {
        let at = records.iter().position(has_bundles).expect("there are bundles");
        records.remove(at);
        records
    });
    let waiting = Remains::of(ProtocolKind::Jolteon, "not-late");
    is_noticed(&waiting, 1, "lacks its bundle", delay_bundles);
}

#[test]
fn inspecting_a_running_replica_does_not_disturb_it() {
    let (remains, (cluster, config)) = Remains::running(ProtocolKind::Jolteon, "running", |_| {});
    let looked = std::thread::scope(|scope| {
        let looks = scope.spawn(|| {
            let look = |_| {
                let result = remains.inspect(3, true);
                assert!(result.failure().is_none(), "{}", result.to_table());
                assert_eq!(result.journal.held_by_process, Some(std::process::id()));
                result.committed_height
            };
            (0..20).map(look).collect::<Vec<u64>>()
        });
        work(&cluster, &config, COMMANDS, 10);
        looks.join().expect("every inspection succeeds")
    });
    assert!(looked.is_sorted(), "the chain grows: {looked:?}");
    work(&cluster, &config, 5, 10);
    for (_, end) in cluster.shut_down() {
        end.expect("no replica was disturbed");
    }
    assert_eq!(remains.inspect(3, false).journal.held_by_process, None);
}

#[test]
fn a_new_replica_differs_from_one_that_lost_its_journal() {
    let directory = std::env::temp_dir().join(format!("quorate-inspect-{}-new", std::process::id()));
    let _ = fs::remove_dir_all(&directory);
    let net = testnet::write(&NodeConfig::template("new"), REPLICAS, 20_000, &directory).expect("it can be written");
    let home = &net.directories[0];
    assert_eq!(inspect(home, true, None).memory, Memory::New);
    fs::remove_file(home.join("journal.new")).expect("it is there");
    let result = inspect(home, true, None);
    assert_eq!((result.memory, result.committed_height), (Memory::Lost, 0));
    fs::remove_dir_all(&directory).expect("it can be removed");
}

#[test]
fn damage_is_reported_with_its_position_and_repaired_on_request() {
    let remains = Remains::of(ProtocolKind::Jolteon, "damaged");
    let home = remains.home(0);
    let segment = home.join("journal").join("000000000000.segment");
    let mut bytes = fs::read(&segment).expect("it can be read");
    bytes[20_000] ^= 4;
    fs::write(&segment, bytes).expect("it can be written");
    for verify in [false, true] {
        let failure = remains.inspect(0, verify).failure().expect("damage is a failure");
        assert!(failure.contains("000000000000.segment, byte") && failure.contains("--repair"), "{failure}");
    }
    let export = remains.directory.join("export.jsonl");
    let result = inspect(&home, false, Some(export.clone()));
    assert!(result.failure().is_some() && result.export.is_none(), "an unsound journal is not exported");
    let left = fs::read_dir(&remains.directory).expect("it can be listed").count();
    assert_eq!(left, REPLICAS, "a refused export leaves no file");
    let arguments = InspectArgs { repair: true, ..InspectArgs::default() };
    let repaired = run(&home, &arguments).expect("it can be repaired");
    assert!(repaired.failure().is_none() && repaired.memory == Memory::Lost, "{}", repaired.to_table());
    assert!(!repaired.repair.expect("it was asked for").saved.is_empty(), "the removed part is saved");
}

#[test]
fn a_truncated_journal_is_executed_from_its_snapshot() {
    for protocol in [ProtocolKind::Jolteon, ProtocolKind::Pbft] {
        let remains = Remains::after(250, 4096, protocol, "cut", |config| {
            config.consensus.batch_bytes = 64 << 10;
            config.consensus.window = 64;
            (config.consensus.retained_blocks, config.consensus.retained_bytes) = (64, 256 << 10);
            (config.journal.segment_bytes, config.journal.snapshot_bytes) = (192 << 10, 256 << 10);
        });
        let mut cut = 0;
        for replica in 0..REPLICAS as u16 {
            let (result, export) = remains.export(replica);
            let verification = result.verification.expect("it was asked for");
            cut += u64::from(verification.from_height > 0 && !result.snapshots.is_empty());
            assert_eq!(verification.executed_height, Some(verification.committed_height), "{protocol}: {replica}");
            let checked =
                crate::stranger::check(&export).unwrap_or_else(|why| panic!("{protocol}, replica {replica}: {why}"));
            assert_eq!(checked.proven, verification.proven_height, "{protocol}, replica {replica}");
            let ours = self::checked(&remains, &export).unwrap_or_else(|why| panic!("{protocol}, {replica}: {why}"));
            assert_eq!(ours.proven_height, checked.proven, "{protocol}, replica {replica}");
        }
        assert!(cut > 0, "{protocol}: no journal was truncated");
        let result = remains.inspect(0, false);
        let newest = result.snapshots.iter().rfind(|file| file.height.is_some()).expect("a state was written");
        let mut bytes = fs::read(&newest.file).expect("it can be read");
        *bytes.last_mut().expect("it is not empty") ^= 1;
        fs::write(&newest.file, bytes).expect("it can be written");
        let failure = remains.inspect(0, true).failure().expect("a damaged snapshot is a failure");
        assert!(failure.contains("is damaged"), "{failure}");
        refuses_what_a_replica_refuses(&remains);
    }
}

/// Checks that a truncated journal is refused without the state on which it begins.
fn refuses_what_a_replica_refuses(remains: &Remains) {
    let cut = |replica: &u16| remains.inspect(*replica, true).verification.is_some_and(|found| found.from_height > 0);
    let replica = (1..REPLICAS as u16).find(cut).expect("a journal was truncated");
    let home = remains.home(replica);
    fs::remove_dir_all(home.join("journal.snapshots")).expect("they are there");
    let failure = remains.inspect(replica, true).failure().expect("--verify refuses it");
    assert!(failure.contains("no readable snapshot"), "{failure}");
    let arguments = InspectArgs { repair: true, ..InspectArgs::default() };
    let failure = run(&home, &arguments).expect("it can be read").failure().expect("--repair cannot help");
    assert!(failure.contains("no readable snapshot"), "{failure}");
    let ends = remains.restart().shut_down();
    let end = ends.into_iter().find_map(|(id, end)| (id.0 == replica).then_some(end)).expect("it was started");
    let refusal = end.expect_err("a replica refuses to start").to_string();
    assert!(refusal.contains("one of their files is missing"), "{refusal}");
}
