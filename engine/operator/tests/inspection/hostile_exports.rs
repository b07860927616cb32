//! Exports made to exhaust the memory of a checker.

use quorate_operator::inspection::check::{MAX_LINE_BYTES, check_lines};
use std::io::{self, BufReader, Read};
use std::path::Path;

/// A file that begins with some bytes, and then endlessly repeats others.
struct Endless {
    start: Vec<u8>,
    again: Vec<u8>,
    read: u64,
}

impl Read for &mut Endless {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        for byte in into.iter_mut() {
            let at = self.read as usize;
            let of_rest = || self.again[(at - self.start.len()) % self.again.len()];
            *byte = self.start.get(at).copied().unwrap_or_else(of_rest);
            self.read += 1;
        }
        Ok(into.len())
    }
}

fn refusal(start: &str, again: &str) -> (String, u64) {
    let mut file = Endless { start: start.into(), again: again.into(), read: 0 };
    let refused = check_lines(BufReader::new(&mut file), Path::new("endless"), None);
    (refused.expect_err("no export is endless").to_string(), file.read)
}

#[test]
fn an_endless_line_is_read_no_further_than_a_line_may_be_long() {
    for (start, again) in [
        ("", "x"),
        ("", "\0"),
        ("{\"line\":\"cluster\",\"name\":\"", "a"),
        ("{\"line\":\"cluster\",\"members\":[", "{},"),
        ("{\"line\":\"block\",\"payload\":[", "\"\","),
        ("{\"line\":\"root\"", " "),
    ] {
        let (why, read) = refusal(start, again);
        assert!(why.contains("line 1: the line is longer than 16777216 bytes"), "{why}");
        assert!(read <= MAX_LINE_BYTES + 16_384, "{start}: {read} bytes are read");
    }
}

/// One complete line.
fn first(line: &str) -> String {
    check_lines(line.as_bytes(), Path::new("long"), None).expect_err("it is not an export").to_string()
}

#[test]
fn lists_are_refused_at_the_first_element_too_many() {
    let many = |element: &str, count: usize| vec![element; count].join(",");
    let member = "{\"identity_key\":\"\",\"voting_key\":\"\",\"possession\":\"\"}";
    let why = first(&format!("{{\"line\":\"cluster\",\"members\":[{}]}}", many(member, 257)));
    assert!(why.contains("a list has more than 256 elements"), "{why}");
    let why = first(&format!("{{\"line\":\"block\",\"bundles\":[{}]}}", many("\"\"", 65_537)));
    assert!(why.contains("a list has more than 65536 elements"), "{why}");
    let certificate = format!("{{\"signers\":[{}]}}", many("1", 257));
    let why = first(&format!("{{\"line\":\"certificate\",\"certificate\":{certificate}}}"));
    assert!(why.contains("a list has more than 256 elements"), "{why}");
}
