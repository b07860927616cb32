//! Damaged files give one clear error and never a panic; a file with a torn end is read up to that point.

use crate::common::{NO_LIMIT, REPLICAS, Scratch, record};
use proptest::prelude::*;
use quorate_consensus::config::ProtocolKind;
use quorate_hosting::recording::{Ending, Reader, RecordingError, Replayed, replay};
use std::path::Path;
use std::sync::OnceLock;

const LINE: &str = "quorate recording, format 6\n";

fn bytes() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let scratch = Scratch::new();
        let path = scratch.path("life.recording");
        record(ProtocolKind::Jolteon, 40, &path, NO_LIMIT);
        std::fs::read(path).expect("the recording was written")
    })
}

fn open_and_replay(path: &Path) -> Result<Replayed, RecordingError> {
    replay(&mut Reader::open(path)?, None, None, None)
}

fn replay_bytes(bytes: &[u8]) -> Result<Replayed, RecordingError> {
    let scratch = Scratch::new();
    open_and_replay(&scratch.file(bytes))
}

fn number(bytes: &[u8]) -> usize {
    u32::from_le_bytes(bytes.try_into().expect("four bytes")) as usize
}

/// Returns the ranges of the chunks' payloads.
fn payloads(file: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut at = LINE.len();
    let mut found = Vec::new();
    while at < file.len() {
        let length = number(&file[at..at + 4]);
        found.push(at + 12..at + 12 + length);
        at += 12 + length;
    }
    found
}

fn chunk(payload: &[u8]) -> Vec<u8> {
    let mut chunk = (payload.len() as u32).to_le_bytes().to_vec();
    chunk.extend(crc32fast::hash(payload).to_le_bytes());
    chunk.extend(crc32fast::hash(&chunk).to_le_bytes());
    chunk.extend(payload);
    chunk
}

/// Creates a file with valid checksums.
fn file_of(header: &[u8], payloads: &[&[u8]]) -> Vec<u8> {
    let chunks = payloads.iter().flat_map(|payload| chunk(payload));
    LINE.bytes().chain(chunk(header)).chain(chunks).collect()
}

fn header() -> &'static [u8] {
    &bytes()[payloads(bytes())[0].clone()]
}

fn said(bytes: &[u8]) -> String {
    replay_bytes(bytes).expect_err("the file is invalid").to_string()
}

#[test]
fn the_file_is_more_than_one_chunk() {
    assert!(payloads(bytes()).len() > 2, "of {} bytes", bytes().len());
    assert_eq!(replay_bytes(bytes()).expect("the recording is valid").difference, None);
}

#[test]
fn another_format_is_refused_with_its_number() {
    for format in ["0", "1", "2", "3", "4", "5", "77"] {
        let other = [LINE.replace('6', format).as_bytes(), &bytes()[LINE.len()..]].concat();
        let said = said(&other);
        let words = format!("the recording has format {format}, quorate");
        assert!(said.contains(&words) && said.contains("reads only format 6"), "{said}");
    }
}

#[test]
fn other_files_are_refused() {
    for file in ["", "hello\n", "quorate recording, format one\n", "quorate recording, format 02\n", &LINE[..20]] {
        let said = said(file.as_bytes());
        assert!(said.contains("this is not a recording"), "{file:?}: {said}");
    }
    let scratch = Scratch::new();
    for path in [scratch.path("absent"), std::env::temp_dir()] {
        let said = open_and_replay(&path).expect_err("the path is not a file").to_string();
        assert!(said.contains(&path.display().to_string()) && said.contains("--record"), "{said}");
    }
}

#[test]
fn an_invalid_header_is_refused() {
    let text = std::str::from_utf8(header()).expect("JSON");
    for (old, new, words) in [
        ("\"replicas\":4", "\"replicas\":3", "cannot tolerate 1"),
        ("\"replicas\":4", "\"replicas\":1000000", "a committee has between"),
        ("\"batch\":3", "\"batch\":0", "batch: is 0"),
        ("\"jolteon\"", "\"paxos\"", "unknown protocol `paxos`"),
        ("\"faults\"", "\"defaults\"", "unknown field `defaults`"),
        ("{", "", "expected"),
    ] {
        let altered = text.replacen(old, new, 1);
        assert_ne!(altered, text);
        let said = said(&file_of(altered.as_bytes(), &[]));
        assert!(said.contains("invalid header") && said.contains(words), "{said}");
    }
    assert!(said(LINE.as_bytes()).contains("truncated"));
}

#[test]
fn data_after_the_end_is_refused() {
    let said = said(&[bytes(), &chunk(b"\x04\0\0\0\0")].concat());
    assert!(said.contains("continues after its end"), "{said}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// The recorder may be killed at any moment, and the file is valid up to that point.
    #[test]
    fn a_file_may_end_anywhere(at in any::<prop::sample::Index>()) {
        let whole = bytes();
        let at = at.index(whole.len());
        let replayed = replay_bytes(&whole[..at]);
        let chunks = payloads(whole);
        if at < chunks[0].end {
            prop_assert!(replayed.is_err(), "without a header there is nothing to replay");
            return Ok(());
        }
        let replayed = replayed.map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(replayed.difference, None);
        let last = chunks.iter().map(|payload| payload.end).filter(|end| *end <= at).max().unwrap_or(0);
        prop_assert_eq!(replayed.ending, Some(Ending::BrokenOff { torn_bytes: (at - last) as u64 }));
    }

    /// Every changed byte is detected.
    #[test]
    fn a_changed_byte_is_an_error(at in any::<prop::sample::Index>(), change in 1..=255u8) {
        let mut damaged = bytes().to_vec();
        let at = at.index(damaged.len());
        damaged[at] ^= change;
        let error = replay_bytes(&damaged);
        prop_assert!(error.is_err(), "byte {} of {}", at, damaged.len());
    }

    /// Changed payloads with valid checksums.
    #[test]
    fn a_forged_recording_is_an_error_or_a_difference(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let first = &bytes()[payloads(bytes())[1].clone()];
        let mut made_up = first.to_vec();
        for (at, to) in changes {
            let at = at.index(made_up.len());
            made_up[at] = to;
        }
        made_up.truncate(cut.index(made_up.len()) + 1);
        match replay_bytes(&file_of(header(), &[&made_up])) {
            Ok(replayed) => prop_assert!(replayed.replicas.len() <= REPLICAS),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn noise_is_an_error(noise in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(replay_bytes(&noise).is_err());
        prop_assert!(replay_bytes(&[LINE.as_bytes(), &noise].concat()).is_err());
        prop_assert!(replay_bytes(&file_of(&noise, &[])).is_err());
        let _ = replay_bytes(&file_of(header(), &[&noise]));
    }
}
