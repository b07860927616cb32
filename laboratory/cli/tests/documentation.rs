//! Checks that the documents refer only to existing files, links, headings, symbols, commands, flags and traits.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// A name in a document, and the problem with it.
type Finding = String;

fn root() -> PathBuf {
    fs::canonicalize(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).expect("the workspace has a directory")
}

/// Returns the current documents. A decision (`docs/adr`) describes the code of its time, so only its links are
/// checked.
fn documents() -> Vec<PathBuf> {
    let mut all =
        ["README.md", "CONTRIBUTING.md", "SECURITY.md", "fuzz/README.md"].map(|name| root().join(name)).to_vec();
    all.extend(files(&root().join("docs"), "md"));
    all
}

fn files(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("the directory exists").flatten() {
        let path = entry.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found
}

/// Returns the directories of all crates.
fn crates() -> Vec<PathBuf> {
    let halves = ["engine", "laboratory"].map(|half| fs::read_dir(root().join(half)).expect("there are crates"));
    let paths = halves.into_iter().flatten().map(|entry| entry.expect("a directory can be listed").path());
    paths.filter(|path| path.is_dir()).collect()
}

/// All source text without comments, for looking up symbols and the traits shown in documents.
static SOURCES: LazyLock<String> = LazyLock::new(|| {
    let this_file = Path::new(file!()).file_name().expect("it has a name");
    let mut text = String::new();
    let examples = files(&root().join("examples"), "rs");
    let sources = crates().into_iter().flat_map(|of| files(&of, "rs")).chain(examples);
    for path in sources.filter(|path| path.file_name() != Some(this_file)) {
        let source = fs::read_to_string(&path).expect("a source is text");
        let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
        text.extend(code.flat_map(|line| [line, "\n"]));
        // A module's name is a symbol, too.
        text.push_str(path.file_stem().and_then(|stem| stem.to_str()).expect("a source has a name"));
        text.push('\n');
    }
    let scripts = ["mutation", "fuzz"].map(|directory| files(&root().join(directory), "sh"));
    let manifests = crates().into_iter().flat_map(|of| files(&of, "toml"));
    for path in manifests.chain(scripts.into_iter().flatten()) {
        text.push_str(&fs::read_to_string(path).expect("a manifest or a script is text"));
    }
    text
});

static WORDS: LazyLock<BTreeSet<&'static str>> =
    LazyLock::new(|| SOURCES.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect());

/// Runs `quorate` and returns what it prints.
fn quorate(arguments: &[&str]) -> Option<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_quorate")).args(arguments).output().expect("it starts");
    output.status.success().then(|| String::from_utf8(output.stdout).expect("help is text"))
}

/// Returns the subcommands of a command, parsed from its help.
fn subcommands(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next().map(str::to_owned));
    names.filter(|name| name != "help").collect()
}

/// Every command of `quorate` as space-separated words, with its flags.
static COMMANDS: LazyLock<Vec<(String, BTreeSet<String>)>> = LazyLock::new(|| {
    let mut commands = Vec::new();
    let mut open = vec![Vec::new()];
    while let Some(words) = open.pop() {
        let arguments: Vec<&str> = words.iter().map(String::as_str).chain(["--help-all"]).collect();
        let help = quorate(&arguments).expect("each command has help");
        open.extend(subcommands(&help).into_iter().map(|name| [words.clone(), vec![name]].concat()));
        commands.push((words.join(" "), flags_in(&help).map(str::to_owned).collect()));
    }
    commands
});

fn flags_in(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_'));
    words.filter(|word| word.len() > 3 && word.starts_with("--"))
}

/// Flags of `cargo` and `rustup` that the documents use.
const FLAGS_OF_OTHERS: &[&str] =
    &["--release", "--workspace", "--locked", "--features", "--test", "--all-targets", "--all", "--check", "--bin"];

/// Code in a document.
enum Code<'a> {
    /// Text between backticks.
    Span(&'a str),
    /// A line of a fenced block in this language.
    Line(&'a str, &'a str),
    /// The target of a link.
    Link(&'a str),
}

/// Calls `see` with each piece of code and link of a document, and its line number.
fn read<'a>(text: &'a str, mut see: impl FnMut(usize, Code<'a>)) {
    let mut fence: Option<&str> = None;
    // A span may be wrapped over two lines, so text is read in paragraphs.
    let mut inside = false;
    for (number, line) in text.lines().enumerate() {
        let number = number + 1;
        if let Some(language) = line.trim_start().strip_prefix("```") {
            fence = if fence.is_some() { None } else { Some(language.trim()) };
            inside = false;
            continue;
        }
        if let Some(language) = fence {
            see(number, Code::Line(language, line));
            continue;
        }
        inside &= !line.trim().is_empty();
        for (index, part) in line.split('`').enumerate() {
            let is_code = (index % 2 == 1) != inside;
            if is_code && index > 0 && index < line.matches('`').count() {
                see(number, Code::Span(part));
            } else if !is_code {
                links(part, |target| see(number, Code::Link(target)));
            }
        }
        inside ^= line.matches('`').count() % 2 == 1;
        // Links whose text is code.
        links(line, |target| see(number, Code::Link(target)));
    }
}

fn links<'a>(text: &'a str, mut see: impl FnMut(&'a str)) {
    for part in text.split("](").skip(1) {
        if let Some((target, _)) = part.split_once(')') {
            see(target);
        }
    }
}

/// Returns the anchor that GitHub generates for a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    kept.chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

fn has_heading(text: &str, wanted: &str) -> bool {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| line.trim_start_matches('#')).any(|heading| anchor(heading) == wanted)
}

fn check_link(document: &Path, target: &str) -> Result<(), Finding> {
    if target.starts_with("http://") || target.starts_with("https://") {
        return Ok(());
    }
    let (file, heading) = target.split_once('#').map_or((target, None), |(file, heading)| (file, Some(heading)));
    let path = if file.is_empty() { document.to_owned() } else { document.with_file_name("").join(file) };
    let text = if path.is_dir() {
        Ok(String::new())
    } else {
        fs::read_to_string(&path).or_else(|_| fs::read(&path).map(|_| String::new()))
    };
    let text = text.map_err(|_| format!("the link's target {target} does not exist"))?;
    match heading {
        Some(heading) if !has_heading(&text, heading) => Err(format!("{target}: no such heading")),
        _ => Ok(()),
    }
}

const EXTENSIONS: &[&str] = &[".rs", ".toml", ".md", ".txt", ".sh", ".patch", ".png"];

/// Files created by runs or users, which are absent from a clone.
const MADE_BY_USERS: &[&str] = &[
    "client.toml",
    "config.toml",
    "node.toml",
    "node.key",
    "network.toml",
    "mine.toml",
    "costs.toml",
    "result.json",
    "report.html",
    "rows.parquet",
    "repeat.sh",
];

/// Returns the files that `crate/file` or `module/file` may stand for: below a crate's `src`, or below a module in it.
fn short_paths(path: &str) -> Vec<PathBuf> {
    let Some((name, rest)) = path.split_once('/') else { return Vec::new() };
    let named = crates().into_iter().filter(|of| of.ends_with(name)).map(|of| of.join("src").join(rest));
    named.chain(crates().into_iter().map(|of| of.join("src").join(path))).collect()
}

/// Checks a path in a document: relative to the root or to the document, or abbreviated for a source file.
fn check_path(document: &Path, path: &str) -> Result<(), Finding> {
    let path = path.split("::").next().expect("split gives one part at least");
    if MADE_BY_USERS.iter().any(|made| path.ends_with(made)) {
        return Ok(());
    }
    let mut candidates = vec![root().join(path), document.with_file_name("").join(path)];
    candidates.extend(short_paths(path));
    if candidates.iter().any(|candidate| candidate.exists()) {
        return Ok(());
    }
    Err(format!("no file `{path}` relative to the root, to the document, or as `crate/file` or `module/file`"))
}

/// Checks the command and flags of a line such as `quorate sim --fault crash:1@2s` or `cargo run --release -- sim`.
fn check_command(line: &str) -> Result<(), Finding> {
    let line = line.split(" # ").next().expect("split gives one part at least").trim().trim_start_matches("$ ");
    let arguments = match (line.strip_prefix("quorate "), line.starts_with("cargo run ")) {
        (Some(arguments), _) => arguments,
        (None, true) => line.split_once(" -- ").map_or("", |(_, arguments)| arguments),
        (None, false) => return Ok(()),
    };
    let words: Vec<&str> = arguments.split_whitespace().collect();
    let command = COMMANDS
        .iter()
        .filter(|(name, _)| !name.is_empty())
        .filter(|(name, _)| names(name, &words))
        .max_by_key(|(name, _)| name.len());
    let Some((name, flags)) = command else {
        let is_name = words.first().is_some_and(|word| word.chars().all(|c| c.is_ascii_lowercase()));
        return if is_name { Err(format!("quorate has no command `{arguments}`")) } else { Ok(()) };
    };
    match flags_in(arguments).find(|flag| !flags.contains(*flag)) {
        Some(flag) => Err(format!("`quorate {name}` has no flag {flag}")),
        None => Ok(()),
    }
}

/// Returns whether the words name this command: its words occur in order, starting with the first, with optional flags
/// and values in between.
fn names(name: &str, words: &[&str]) -> bool {
    let mut words = words.iter();
    let mut parts = name.split(' ');
    parts.next() == words.next().copied() && parts.all(|part| words.any(|word| *word == part))
}

fn is_identifier(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !text.starts_with(|c: char| c.is_ascii_digit())
}

fn check_span(document: &Path, span: &str) -> Result<(), Finding> {
    if span.starts_with("quorate ") || span.starts_with("cargo ") {
        return check_command(span);
    }
    if span.starts_with("--") && span.len() > 2 {
        let flag = flags_in(span).next().unwrap_or(span);
        let is_ours = COMMANDS.iter().any(|(_, flags)| flags.contains(flag));
        return if is_ours || FLAGS_OF_OTHERS.contains(&flag) {
            Ok(())
        } else {
            Err(format!("no command has the flag {flag}"))
        };
    }
    let is_path = !span.contains([' ', '*', '<', '{', '='])
        && span.split("::").next().is_some_and(|file| EXTENSIONS.iter().any(|end| file.ends_with(end)));
    if is_path {
        return check_path(document, span);
    }
    let symbol = span.trim_end_matches("()");
    let parts: Vec<&str> = symbol.split("::").flat_map(|part| part.split('.')).collect();
    if parts.iter().all(|part| is_identifier(part))
        && (symbol.contains('_')
            || symbol.contains("::")
            || (symbol.len() > 2 && symbol.starts_with(|c: char| c.is_ascii_uppercase()))
            || span.ends_with("()"))
    {
        return match parts.iter().find(|part| !WORDS.contains(**part)) {
            Some(part) => Err(format!("the sources do not contain `{part}`")),
            None => Ok(()),
        };
    }
    Ok(())
}

/// Checks that a line of Rust in a document occurs in the sources, ignoring its `//` comment.
fn check_rust(line: &str) -> Result<(), Finding> {
    static SQUEEZED: LazyLock<String> = LazyLock::new(|| squeeze(&SOURCES));
    let code = squeeze(line.split("//").next().expect("split gives one part at least"));
    if code.len() < 4 || SQUEEZED.contains(&code) {
        Ok(())
    } else {
        Err(format!("the sources do not contain `{}`", line.trim()))
    }
}

/// Removes white space, and the commas that occur only in wrapped lines.
fn squeeze(text: &str) -> String {
    let packed: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    packed.replace(",)", ")")
}

fn check(document: &Path) -> Vec<Finding> {
    let text = fs::read_to_string(document).expect("a document is text");
    let is_decision = document.parent().is_some_and(|parent| parent.ends_with("adr"));
    let mut findings = Vec::new();
    read(&text, |number, code| {
        let checked = match code {
            Code::Link(target) => check_link(document, target),
            _ if is_decision => Ok(()),
            Code::Span(span) => check_span(document, span),
            Code::Line("rust", line) => check_rust(line),
            Code::Line(_, line) => check_command(line),
        };
        if let Err(finding) = checked {
            let name = document.strip_prefix(root()).unwrap_or(document).display();
            findings.push(format!("{name}:{number}: {finding}"));
        }
    });
    findings.dedup();
    findings
}

#[test]
fn every_name_in_the_documents_exists() {
    let findings: Vec<Finding> = documents().iter().flat_map(|document| check(document)).collect();
    assert!(findings.is_empty(), "{} names are stale:\n{}", findings.len(), findings.join("\n"));
}

#[test]
fn a_stale_name_is_found() {
    let document = root().join("docs/ARCHITECTURE.md");
    for span in [
        "consensus/no_such_file.rs",
        "no_such_symbol_anywhere",
        "Replica::no_such_method",
        "--no-such-flag",
        "quorate nonsense",
        "quorate bench --no-such-flag",
    ] {
        assert!(check_span(&document, span).is_err(), "{span}");
    }
    for span in ["consensus/replica/mod.rs", "Replica", "Replica::step", "--protocol", "quorate bench --protocol pbft"]
    {
        assert_eq!(check_span(&document, span), Ok(()), "{span}");
    }
    assert!(check_link(&document, "NOWHERE.md").is_err());
    assert!(check_link(&document, "ARCHITECTURE.md#no-such-heading").is_err());
    assert_eq!(check_link(&document, "ARCHITECTURE.md#the-seam"), Ok(()));
    assert!(check_rust("    fn no_such_function(&self) -> Never;").is_err());
    let mut seen = Vec::new();
    read("a `b c` [d](e.md) `f\n\n```sh\nquorate x\n```\n[`g`](h)", |number, code| {
        seen.push((
            number,
            match code {
                Code::Span(text) | Code::Line(_, text) | Code::Link(text) => text.to_owned(),
            },
        ));
    });
    let has = |number: usize, text: &str| seen.iter().any(|(at, found)| (*at, found.as_str()) == (number, text));
    assert!(has(1, "b c") && has(1, "e.md") && has(4, "quorate x") && has(6, "g") && has(6, "h"), "{seen:?}");
}

/// Returns public types and traits without a doc comment, as `file:line: item`. Other items need one only if the name
/// and type are insufficient, which no program can judge.
fn undocumented(name: &str, source: &str) -> Vec<Finding> {
    const ITEMS: [&str; 4] = ["struct", "enum", "trait", "type"];
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let is_item = |line: &str| {
        let words = line.strip_prefix("pub ").unwrap_or_default().trim_start_matches("unsafe ");
        ITEMS.contains(&words.split(' ').next().unwrap_or_default())
    };
    // Multi-line attributes may be in between.
    let ends = |line: &&&str| line.is_empty() || line.ends_with(['}', ';', '{']);
    // The derived commands of `clap` take a doc comment for a description, but not this attribute.
    let is_doc = |line: &&str| line.starts_with("///") || line.starts_with("#[cfg_attr(doc, doc = ");
    let is_documented = |at: usize| lines[..at].iter().rev().take_while(|line| !ends(line)).any(is_doc);
    let missing = (0..lines.len()).filter(|at| is_item(lines[*at]) && !lines[*at].contains('$') && !is_documented(*at));
    missing.map(|at| format!("{name}:{}: {}", at + 1, lines[at])).collect()
}

#[test]
fn every_public_type_is_documented() {
    let sources = crates().into_iter().flat_map(|of| files(&of.join("src"), "rs"));
    let found: Vec<Finding> = sources
        .flat_map(|path| {
            let source = fs::read_to_string(&path).expect("a source is text");
            undocumented(&path.strip_prefix(root()).unwrap_or(&path).display().to_string(), &source)
        })
        .collect();
    assert!(found.is_empty(), "{} public types have no documentation:\n{}", found.len(), found.join("\n"));
    assert_eq!(
        undocumented("a.rs", "/// Adds.\n#[must_use]\npub trait Add {}\npub struct Sum {\n    pub total: u8,\n}"),
        ["a.rs:4: pub struct Sum {"]
    );
}

/// The contents of the site and the index of decisions list every page.
#[test]
fn every_page_is_listed() {
    let docs = root().join("docs");
    let text = |name: &str| fs::read_to_string(docs.join(name)).expect("the page exists");
    let (summary, decisions) = (text("SUMMARY.md"), text("adr/README.md"));
    let mut missing: Vec<Finding> = Vec::new();
    for path in files(&docs, "md") {
        let name = path.strip_prefix(&docs).expect("it is below").display().to_string();
        if name != "SUMMARY.md" && !summary.contains(&format!("({name})")) {
            missing.push(format!("docs/SUMMARY.md does not list {name}"));
        }
        let decision = name.strip_prefix("adr/").filter(|name| *name != "README.md");
        if decision.is_some_and(|file| !decisions.contains(&format!("({file})"))) {
            missing.push(format!("docs/adr/README.md does not list {name}"));
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

/// Statements of the documents about the cluster written by `quorate testnet`: the document, the statement, and the key
/// in `config.toml` with its value.
const DEFAULTS: &[(&str, &str, &str, &str)] = &[
    ("README.md", "`testnet` sets `channel = \"tls\"`", "channel", "tls"),
    ("README.md", "By default any key is accepted", "clients.admitted", "any"),
    ("docs/OPERATIONS.md", "`quorate testnet` sets `channel = \"tls\"`", "channel", "tls"),
    ("docs/OPERATIONS.md", "**By default a cluster is public**", "clients.admitted", "any"),
    ("docs/OPERATIONS.md", "| `admin_listen` | no other host: it is on loopback", "admin_listen", "127.0.0.1:7008"),
    ("docs/OPERATIONS.md", "`testnet` calls the cluster `quorate`", "cluster", "quorate"),
    ("docs/STRANGERS.md", "in a cluster that admits `any`, which is the default", "clients.admitted", "any"),
];

/// Words that contradict these defaults in a paragraph that does not name the setting under which they are true.
const CONTRADICTIONS: &[(&str, &str)] = &[("not encrypted", "plain"), ("nothing is encrypted", "plain")];

#[test]
fn statements_about_defaults_agree_with_what_testnet_writes() {
    let directory = std::env::temp_dir().join(format!("quorate-defaults-{}", std::process::id()));
    let _ = fs::remove_dir_all(&directory);
    let dir = directory.to_str().expect("a test's path is UTF-8");
    quorate(&["testnet", "--dir", dir]).expect("testnet writes a cluster");
    let text = fs::read_to_string(directory.join("replica-0/config.toml")).expect("testnet wrote it");
    fs::remove_dir_all(&directory).expect("it is ours");
    let written = |key: &str| {
        let (wanted, name) = key.rsplit_once('.').unwrap_or(("", key));
        let mut table = "";
        text.lines().find_map(|line| {
            table = line.strip_prefix('[').map_or(table, |header| header.trim_end_matches(']'));
            let (key, value) = line.split_once(" = ").filter(|_| table == wanted)?;
            (key == name).then(|| value.trim_matches('"'))
        })
    };
    let mut findings: Vec<Finding> = Vec::new();
    for (document, statement, key, value) in DEFAULTS {
        let text = fs::read_to_string(root().join(document)).expect("the document exists");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if !words.contains(statement) {
            findings.push(format!("{document} does not say any more: {statement}"));
        }
        if written(key) != Some(*value) {
            findings.push(format!("{document}: {statement}, but testnet writes {key} = {:?}", written(key)));
        }
    }
    for document in ["README.md", "docs/OPERATIONS.md"] {
        let text = fs::read_to_string(root().join(document)).expect("the document exists");
        for paragraph in text.split("\n\n") {
            let words = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
            let wrong =
                CONTRADICTIONS.iter().filter(|(claim, setting)| words.contains(claim) && !words.contains(setting));
            findings.extend(wrong.map(|(claim, _)| format!("{document} says `{claim}`: {words}")));
        }
    }
    assert!(findings.is_empty(), "{findings:#?}");
}
