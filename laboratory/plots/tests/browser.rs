//! The page in a real browser: `cargo test -p quorate-plots -- --ignored`, with Chromium installed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use quorate_plots::page;
use serde_json::Value;

use crate::samples;

/// Names of the browser, unless `CHROMIUM` has its path.
const NAMES: [&str; 5] =
    ["chromium", "chromium-headless-shell", "chromium-browser", "google-chrome-stable", "google-chrome"];
/// Minimum text size on a phone, in CSS pixels.
const MIN_TEXT_PX: f64 = 10.0;

fn browser() -> PathBuf {
    let named = env::var_os("CHROMIUM").map(PathBuf::from);
    let directories: Vec<PathBuf> = env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect();
    let found = NAMES.iter().flat_map(|name| directories.iter().map(move |path| path.join(name)));
    let help = "no Chromium found; help: install the package `chromium`, or set CHROMIUM to its path";
    named.or_else(|| found.into_iter().find(|path| path.is_file())).expect(help)
}

/// Directory that is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = env::temp_dir().join(format!("quorate-plots-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("the directory for temporary files can be written");
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Puts the page and the probe into a frame of the given width, and returns the probe's findings.
fn probe(name: &str, width: u32, dark: bool) -> Value {
    let scratch = Scratch::new(name);
    let html = page(&samples::page()).expect("the samples can be drawn");
    let first = "<script>const errors = []; onerror = (what) => errors.push(String(what));\
        addEventListener('securitypolicyviolation', (event) => errors.push(event.violatedDirective));\
        addEventListener('unhandledrejection', (event) => errors.push(String(event.reason)));</script></head>";
    let last = format!("<script>{}</script></body>", include_str!("probe.js"));
    let html = html.replacen("</head>", first, 1).replacen("</body>", &last, 1);
    fs::write(scratch.0.join("page.html"), html).expect("the page can be written");
    let outer = format!(
        "<!doctype html><meta charset=\"utf-8\"/><meta name=\"color-scheme\" content=\"light dark\"/>\
         <script>addEventListener('message', (event) => {{
            document.getElementById('found').textContent = event.data; }});\
         </script><pre id=\"found\"></pre><iframe src=\"page.html\" width=\"{width}\" height=\"900\"></iframe>"
    );
    fs::write(scratch.0.join("outer.html"), outer).expect("the page can be written");
    let dom = run(&scratch.0, dark);
    let found = dom.split("<pre id=\"found\">").nth(1).and_then(|rest| rest.split("</pre>").next()).unwrap_or("");
    let found = found.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&found).unwrap_or_else(|error| panic!("the probe reported nothing ({error}): {dom}"))
}

/// Opens the outer page, and returns its content once the scripts have run.
fn run(directory: &Path, dark: bool) -> String {
    let output = Command::new(browser())
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=20000"])
        .arg(format!("--user-data-dir={}", directory.join("profile").display()))
        .arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!dark)))
        .args(["--window-size=1200,1000", "--dump-dom"])
        .arg(format!("file://{}", directory.join("outer.html").display()))
        .output()
        .expect("the browser can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn check(found: &Value, dark: bool, layout: &str) {
    assert_eq!(found["errors"], serde_json::json!([]), "scripts and policy");
    assert_eq!(found["dark"], dark, "the page follows the reader's colour scheme");
    let background = if dark { "rgb(16, 19, 23)" } else { "rgb(245, 246, 248)" };
    assert_eq!(found["background"], background);
    assert_eq!(found["overflow"], 0, "nothing is wider than the screen");
    let least = found["text"].as_f64().expect("a size");
    assert!(least >= MIN_TEXT_PX, "text is {least} pixels high");
    let figures = found["figures"].as_array().expect("figures");
    assert_eq!(figures.len(), samples::all().len());
    for figure in figures {
        let id = figure["id"].as_str().expect("an id");
        assert_eq!(figure["layout"], layout, "{id}");
        for kind in ["keyboard", "pointer", "touch", "far", "held", "closed", "inside", "views"] {
            assert_eq!(figure[kind], true, "{id}: {kind}: {figure}");
        }
        assert_eq!(figure["reached"], figure["count"], "{id}: the arrow keys reach every value");
    }
}

#[test]
#[ignore = "needs Chromium: cargo test -p quorate-plots -- --ignored"]
fn a_wide_light_page_works() {
    check(&probe("light", 1100, false), false, "wide");
}

#[test]
#[ignore = "needs Chromium: cargo test -p quorate-plots -- --ignored"]
fn a_wide_dark_page_works() {
    check(&probe("dark", 1100, true), true, "wide");
}

#[test]
#[ignore = "needs Chromium: cargo test -p quorate-plots -- --ignored"]
fn a_page_on_a_phone_works() {
    check(&probe("phone-light", 390, false), false, "narrow");
    check(&probe("phone-dark", 360, true), true, "narrow");
}
