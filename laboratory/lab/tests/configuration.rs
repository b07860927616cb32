//! `docs/CONFIGURATION.md` and the schemas match the declarations.

use quorate_node::NodeConfig;
use quorate_types::settings::{Key, keys};

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");

#[test]
fn the_generated_files_are_current() {
    for (name, now) in quorate_lab::configuration::files() {
        let path = format!("{DOCS}/{name}");
        if std::env::var_os("QUORATE_GOLDEN").is_some_and(|wanted| wanted == "write") {
            std::fs::write(&path, &now).expect("the file can be written");
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        let differs = now.lines().zip(written.lines()).find(|(now, before)| now != before);
        assert!(now == written, "{name}: run with QUORATE_GOLDEN=write and read the difference, first {differs:?}");
    }
}

fn key(path: &str) -> &'static Key {
    keys::<NodeConfig>().iter().find(|key| key.path == path).unwrap_or_else(|| panic!("{path} is no key"))
}

#[test]
fn every_key_has_a_description() {
    for path in ["listen", "consensus.protocol", "tcp.silent_remote_ms", "journal.fsync", "members.address"] {
        assert!(!key(path).doc.is_empty());
    }
    for key in keys::<NodeConfig>() {
        assert!(key.doc.len() > 10 && !key.doc.contains("::") && !key.doc.contains("]("), "{key:?}");
    }
}

#[test]
fn a_key_has_the_default_range_and_names_of_its_declaration() {
    let window = key("consensus.window");
    assert_eq!((window.default_text().as_deref(), window.range()), (Some("1000"), (Some(1), Some(16_384))));
    assert_eq!(key("clients.max_answer_us_per_s").range(), (Some(0), Some(1_000_000)));
    assert_eq!(key("cluster").default, None);
    assert_eq!(key("journal.fsync").names(), ["always", "never"]);
    let text = key("consensus.protocol").text();
    assert!(text.contains("`pbft`") && text.contains("`jolteon`"), "{text}");
    assert!(text.contains("The same on every replica."), "{text}");
}
