//! The documents as a site: `mdbook build docs`, and each link between its pages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");

fn files(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("the directory exists").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|own| own == extension) {
            found.push(path);
        }
    }
    found
}

/// Returns the targets of the links to other pages. The navigation, which is the same on every page, is a page too.
fn links(page: &str) -> Vec<&str> {
    let main = page.split_once("<main>").and_then(|(_, rest)| rest.split_once("</main>"));
    let text = main.map_or(page, |(text, _)| text);
    let targets = text.split("href=\"").skip(1).filter_map(|rest| rest.split(['"', '#']).next());
    targets.filter(|target| target.ends_with(".html") && !target.contains(':')).collect()
}

#[test]
#[ignore = "needs mdbook"]
fn the_site_has_every_page_and_no_dead_link() {
    let site = std::env::temp_dir().join(format!("quorate-site-{}", std::process::id()));
    let built = Command::new("mdbook").args(["build", DOCS, "--dest-dir"]).arg(&site).output();
    let built = built.expect("mdbook is in the PATH; help: cargo install mdbook");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let pages = files(&site, "html");
    let mut dead: Vec<String> = Vec::new();
    let mut followed = 0;
    for page in &pages {
        let text = fs::read_to_string(page).expect("a page is text");
        for link in links(&text) {
            let parent = page.parent().and_then(|parent| parent.strip_prefix(&site).ok()).expect("it is in the site");
            // The page has a script for links to files of the repository.
            if link.matches("../").count() > parent.components().count() {
                continue;
            }
            followed += 1;
            if !page.with_file_name(link).exists() {
                dead.push(format!("{}: {link}", page.display()));
            }
        }
    }
    let docs = Path::new(DOCS);
    let sources = files(docs, "md").into_iter().filter(|path| !path.ends_with("SUMMARY.md"));
    let built = sources.map(|path| site.join(path.strip_prefix(docs).expect("it is below")).with_extension("html"));
    let missing: Vec<PathBuf> = built.filter(|path| !path.exists()).collect();
    fs::remove_dir_all(&site).expect("it is ours");
    assert!(dead.is_empty() && missing.is_empty(), "{dead:#?} {missing:#?}");
    assert!(followed > 100, "the pages link each other: {followed}");
}
