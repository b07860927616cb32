//! `docs/CONFIGURATION.md` and the schemas match the declarations.

use quorate_client::ClientConfig;
use quorate_hosting::SharedSettings;
use quorate_lab::BenchSpec;
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

/// Bytes, counts and times: texts have them with separators of thousands or without.
fn states(text: &str, number: u64) -> bool {
    let text = text.replace(',', "");
    text.split(|c: char| !c.is_ascii_digit()).any(|word| word == number.to_string())
}

#[test]
fn no_description_repeats_the_default_or_the_range_of_its_declaration() {
    let keys = [keys::<NodeConfig>(), keys::<ClientConfig>(), keys::<BenchSpec>()];
    for key in keys.into_iter().flatten() {
        let says = ["Default", "(default)", "by default"].iter().any(|words| key.doc.contains(words));
        let says_default = key.default.is_some() && says;
        assert!(!says_default && !key.doc.contains("The same on all"), "{}: {}", key.path, key.doc);
        let (least, most) = key.range();
        let bound = least.into_iter().chain(most).find(|bound| *bound > 1 && states(&key.doc, *bound));
        assert_eq!(bound, None, "{}: {}", key.path, key.doc);
    }
}

#[test]
fn clients_and_replicas_declare_what_they_share_once() {
    /// Each end has keys of its own in files.
    const OWN: [&str; 2] = ["key_file", "passphrase_file"];
    let both = keys::<ClientConfig>().iter().filter(|key| keys::<NodeConfig>().iter().any(|own| own.path == key.path));
    for key in both.filter(|key| !OWN.contains(&key.path.as_str())) {
        let shared = keys::<SharedSettings>().iter().find(|shared| shared.path == key.path);
        assert_eq!(shared, Some(key), "declare it in `shared_settings`");
        assert_eq!(keys::<NodeConfig>().iter().find(|own| own.path == key.path), shared, "declare it once");
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
