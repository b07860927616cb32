//! `docs/CONFIGURATION.md` matches the source.

use quorate_node::settings::keys;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/CONFIGURATION.md");

#[test]
fn the_page_is_current() {
    let page = quorate_lab::configuration::page();
    if std::env::var_os("QUORATE_GOLDEN").is_some_and(|wanted| wanted == "write") {
        std::fs::write(PATH, &page).expect("the page can be written");
    }
    let written = std::fs::read_to_string(PATH).unwrap_or_default();
    let differs = page.lines().zip(written.lines()).find(|(now, before)| now != before);
    assert!(page == written, "run with QUORATE_GOLDEN=write and read the difference; its first line: {differs:?}");
}

#[test]
fn every_key_has_a_description() {
    let keys = keys();
    for (table, name) in [("", "listen"), ("consensus", "protocol"), ("tcp", "silent_remote_ms"), ("journal", "fsync")]
    {
        assert!(keys.iter().any(|key| key.table == table && key.name == name), "{table}.{name} is among them");
    }
    for key in &keys {
        assert!(key.doc.len() > 10 && !key.doc.contains("::") && !key.doc.contains("]("), "{key:?}");
    }
    let protocol = keys.iter().find(|key| key.name == "protocol").expect("it is there");
    assert!(protocol.doc.contains("`pbft`") && protocol.doc.contains("`jolteon`"), "{}", protocol.doc);
}
