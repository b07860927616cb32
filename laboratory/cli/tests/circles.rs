//! Checks that neither the files nor the folders of a crate import each other in cycles.
//!
//! An import is a path that begins with `crate`, `super` or `self`, in a `use` or in an expression. It leads to the
//! file that declares the name, following re-exports in a `mod.rs` or `lib.rs`. A module and the files below it are one
//! unit for its sibling modules: within a folder, each file or folder is one unit, and the folder's own `mod.rs` does
//! not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Maximum length of a chain of re-exports to follow.
const MAX_HOPS: usize = 8;

/// A file as a module: its path from the root of the crate.
type Module = Vec<String>;

struct Sources {
    texts: BTreeMap<Module, String>,
    /// Re-exports of each file: names and their paths.
    exports: BTreeMap<Module, BTreeMap<String, Vec<String>>>,
}

impl Sources {
    fn new(files: impl IntoIterator<Item = (Module, String)>) -> Sources {
        let texts: BTreeMap<Module, String> =
            files.into_iter().map(|(at, text)| (at, without_comments(&text))).collect();
        let exports = texts.iter().map(|(at, text)| (at.clone(), re_exports(text))).collect();
        Sources { texts, exports }
    }

    fn of(source: &Path) -> Sources {
        let mut files = Vec::new();
        read(source, &[], &mut files);
        Sources::new(files)
    }

    /// Returns the file to which a path in the file `at` leads.
    fn target(&self, at: &[String], path: &[String]) -> Module {
        let (mut from, mut path) = (at.to_vec(), path.to_vec());
        for _ in 0..MAX_HOPS {
            let names = path.iter().take_while(|name| ["crate", "super", "self"].contains(&name.as_str())).count();
            for name in path.drain(..names) {
                match name.as_str() {
                    "crate" => from.clear(),
                    "super" => drop(from.pop()),
                    _ => {}
                }
            }
            while let Some(name) = path.first() {
                let below: Module = from.iter().chain([name]).cloned().collect();
                if !self.texts.contains_key(&below) {
                    break;
                }
                from = below;
                path.remove(0);
            }
            match path.first().and_then(|name| self.exports.get(&from)?.get(name)) {
                Some(behind) => path = behind.clone(),
                None => break,
            }
        }
        from
    }

    fn imports(&self) -> BTreeMap<Module, BTreeSet<Module>> {
        let of = |(at, text): (&Module, &String)| {
            let targets = paths(text).into_iter().map(|path| self.target(at, &path));
            (at.clone(), targets.filter(|target| target != at).collect())
        };
        self.texts.iter().map(of).collect()
    }

    /// Returns the groups of files that can reach each other.
    fn circles(&self) -> Vec<Vec<String>> {
        circles_of(&self.imports())
    }

    /// Returns the groups of modules of one folder that can reach each other.
    fn circles_of_folders(&self) -> Vec<Vec<String>> {
        let imports = self.imports();
        let folders: BTreeSet<&[String]> =
            self.texts.keys().flat_map(|at| (0..at.len()).map(|end| &at[..end])).collect();
        folders.into_iter().flat_map(|folder| circles_of(&within(folder, &imports))).collect()
    }
}

/// Returns the imports between the modules of a folder, each with the files below it.
fn within(folder: &[String], imports: &BTreeMap<Module, BTreeSet<Module>>) -> BTreeMap<Module, BTreeSet<Module>> {
    let unit = |at: &Module| at.starts_with(folder).then(|| at.get(..=folder.len()).map(<[String]>::to_vec)).flatten();
    let mut between: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
    for (at, targets) in imports {
        let Some(own) = unit(at) else { continue };
        let others = targets.iter().filter_map(unit).filter(|target| *target != own);
        between.entry(own.clone()).or_default().extend(others);
    }
    between
}

/// Returns the groups of modules that can reach each other.
fn circles_of(imports: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<Vec<String>> {
    let reach = |from: &Module| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(at) = open.pop() {
            open.extend(imports[at].iter().filter(|target| seen.insert((*target).clone())));
        }
        seen
    };
    let reached: BTreeMap<&Module, BTreeSet<Module>> = imports.keys().map(|at| (at, reach(at))).collect();
    let circle = |at: &&Module| {
        let together = reached[*at].iter().filter(|other| reached[*other].contains(*at));
        together.map(|module| module.join("/")).collect::<Vec<String>>()
    };
    let circles: BTreeSet<Vec<String>> = reached.keys().map(circle).filter(|circle| circle.len() > 1).collect();
    circles.into_iter().collect()
}

fn read(directory: &Path, at: &[String], files: &mut Vec<(Module, String)>) {
    for entry in fs::read_dir(directory).expect("a crate has sources") {
        let path = entry.expect("a directory can be listed").path();
        let name = path.file_stem().and_then(|name| name.to_str()).expect("names are UTF-8").to_owned();
        let below: Module = at.iter().cloned().chain([name.clone()]).collect();
        if path.is_dir() {
            read(&path, &below, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let module = if ["lib", "main", "mod"].contains(&name.as_str()) { at.to_vec() } else { below };
            files.push((module, fs::read_to_string(&path).expect("sources are text")));
        }
    }
}

fn without_comments(text: &str) -> String {
    text.lines().filter(|line| !line.trim_start().starts_with("//")).map(|line| format!("{line}\n")).collect()
}

/// Expands the braces of a `use` into paths.
fn spread(tree: &str) -> Vec<String> {
    let Some((before, inner)) = tree.split_once('{') else { return vec![tree.trim().to_owned()] };
    let (mut parts, mut part, mut depth) = (Vec::new(), String::new(), 0);
    for letter in inner.chars() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            _ => {}
        }
        if letter == ',' && depth == 0 {
            parts.push(std::mem::take(&mut part));
        } else {
            part.push(letter);
        }
    }
    parts.push(part);
    let named = parts.iter().filter(|part| !part.trim().is_empty());
    named.flat_map(|part| spread(&format!("{}{}", before.trim(), part.trim()))).collect()
}

fn names(path: &str) -> Vec<String> {
    path.split("::").map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
}

fn re_exports(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut exports = BTreeMap::new();
    for (at, _) in text.match_indices("use ") {
        let line = &text[text[..at].rfind('\n').map_or(0, |end| end + 1)..at];
        if !line.trim_start().starts_with("pub") {
            continue;
        }
        let tree = text[at + "use ".len()..].split(';').next().unwrap_or_default();
        for path in spread(tree) {
            let (path, alias) =
                path.split_once(" as ").map_or((path.as_str(), None), |(path, name)| (path, Some(name)));
            let path = names(path);
            if let Some(name) = alias.map(str::to_owned).or_else(|| path.last().cloned()) {
                exports.insert(name.trim().to_owned(), path);
            }
        }
    }
    exports
}

/// Returns all paths in a text that start in its own crate.
fn paths(text: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for root in ["crate::", "super::", "self::"] {
        for (at, _) in text.match_indices(root) {
            let before = &text[..at];
            let inside = before.ends_with(|letter: char| letter.is_alphanumeric() || "_:$".contains(letter));
            if inside {
                continue;
            }
            let line = &before[before.rfind('\n').map_or(0, |end| end + 1)..];
            let is_use = line.trim_start().trim_start_matches("pub").contains("use ") || line.trim() == "use";
            let end = |letter: char| !(letter.is_alphanumeric() || "_:".contains(letter));
            let tree = if is_use { text[at..].split(';').next() } else { text[at..].split(end).next() };
            let path = |path: String| names(path.split(" as ").next().unwrap_or_default());
            found.extend(spread(tree.unwrap_or_default()).into_iter().map(path));
        }
    }
    found
}

#[test]
fn files_and_folders_of_a_crate_do_not_import_each_other_in_cycles() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let halves = ["engine", "laboratory"].map(|half| fs::read_dir(root.join(half)).expect("there are crates"));
    let mut count = 0;
    let paths = halves.into_iter().flatten().map(|entry| entry.expect("a directory can be listed").path());
    for path in paths.filter(|path| path.is_dir()) {
        let name = path.file_name().and_then(|name| name.to_str()).expect("names are UTF-8");
        let sources = Sources::of(&path.join("src"));
        let mut circles = sources.circles();
        circles.extend(sources.circles_of_folders());
        assert!(circles.is_empty(), "{name}: files or folders import each other in a cycle: {circles:?}");
        count += 1;
    }
    assert!(count > 12, "all crates were checked");
}

/// Modules of a crate, or of one of its folders, lowest first.
struct Layers {
    of: &'static str,
    folder: &'static [&'static str],
    lowest_first: &'static [&'static str],
}

const LAYERS: [Layers; 5] = [
    Layers {
        of: "engine/consensus",
        folder: &[],
        lowest_first: &[
            "ids",
            "drops",
            "facts",
            "config",
            "data",
            "voting",
            "recovery",
            "seam",
            "store",
            "protocols",
            "replica",
        ],
    },
    Layers { of: "laboratory/adversary", folder: &[], lowest_first: &["byzantine", "copies", "oracles", "twins"] },
    Layers {
        of: "laboratory/adversary",
        folder: &["twins"],
        lowest_first: &[
            "words",
            "states",
            "hostile",
            "bugs",
            "instance",
            "participants",
            "shares",
            "signatures",
            "links",
            "stock",
            "checker",
            "symmetry",
            "transcript",
            "scenario",
            "foreign",
            "world",
            "play",
            "shrink",
            "space",
            "run",
            "museum",
        ],
    },
    Layers {
        of: "laboratory/simulator",
        folder: &[],
        lowest_first: &[
            "numbers",
            "links",
            "models",
            "clock",
            "schedule",
            "trace",
            "transcript",
            "work",
            "steps",
            "shares",
            "chronicle",
            "hostile",
            "costs",
            "off_path",
            "parcel",
            "probes",
            "statements",
            "ledger",
            "network",
            "oracle",
            "chaos",
            "charges",
            "spec",
            "signatures",
            "keys",
            "levels",
            "clients",
            "node",
            "world",
            "run",
            "scripted",
        ],
    },
    Layers {
        of: "laboratory/lab",
        folder: &[],
        lowest_first: &[
            "text",
            "input",
            "affinity",
            "experiments",
            "noise",
            "record",
            "partial",
            "configuration",
            "link_flags",
            "emulation",
            "spec",
            "recording",
            "network",
            "settings",
            "result",
            "model",
            "plan",
            "requests",
            "search",
            "twins",
            "sim",
            "bench",
            "peers",
            "figures",
            "replay",
            "fidelity",
            "report",
            "torture",
            "calibrate",
            "demo",
        ],
    },
];

#[test]
fn each_layer_imports_only_lower_ones() {
    for Layers { of, folder, lowest_first } in LAYERS {
        let sources = Sources::of(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(of).join("src"));
        let folder: Module = folder.iter().map(|name| (*name).to_owned()).collect();
        let layer = |at: &Module| {
            let name = at.last().expect("a module in the folder has a name").as_str();
            let found = lowest_first.iter().position(|layer| *layer == name);
            found.unwrap_or_else(|| panic!("`{name}` of {of} has no layer"))
        };
        let within = within(&folder, &sources.imports());
        assert_eq!(within.len(), lowest_first.len(), "every layer of {of} is a module");
        for (at, targets) in within {
            let upward: Vec<&Module> = targets.iter().filter(|target| layer(target) > layer(&at)).collect();
            assert!(upward.is_empty(), "{of}: {at:?} imports layers above it: {upward:?}");
        }
    }
}

#[test]
fn a_cycle_is_found_through_re_exports_and_expressions() {
    let module = |path: &str| names(&path.replace('/', "::"));
    let circles = |files: &[(&str, &str)]| {
        Sources::new(files.iter().map(|(at, text)| (module(at), (*text).to_owned()))).circles()
    };
    let straight =
        [("", "mod a;\nmod b;\npub use a::A;\n"), ("a", "use crate::b::B;\n"), ("b", "// use crate::a::A;\n")];
    assert_eq!(circles(&straight), Vec::<Vec<String>>::new());
    let through_the_root = [straight[0], straight[1], ("b", "pub(crate) use crate::{A, c::{C, D as E}};\n")];
    assert_eq!(circles(&through_the_root), [["a", "b"]]);
    let in_an_expression = [straight[0], straight[1], ("b", "fn b() {\n    super::a::new(1)\n}\n")];
    assert_eq!(circles(&in_an_expression), [["a", "b"]]);
    let of_a_child = [("a", "mod c;\nuse c::C;\n"), ("a/c", "use super::A;\n")];
    assert_eq!(circles(&of_a_child), Vec::<Vec<String>>::new(), "a module and the files below it are one");
    let of_siblings =
        [("a", ""), ("a/c", "use super::d::{self, D};\n"), ("a/d", "use super::{\n    c::C,\n    A,\n};\n")];
    assert_eq!(circles(&of_siblings), [["a/c", "a/d"]]);
    let of_folders = [
        ("", "mod a;\nmod b;\n"),
        ("a", "mod c;\nmod e;\n"),
        ("b", "mod d;\nmod f;\n"),
        ("a/c", "use crate::b::d::D;\n"),
        ("a/e", ""),
        ("b/d", ""),
        ("b/f", "use crate::a::e::E;\n"),
    ];
    assert_eq!(circles(&of_folders), Vec::<Vec<String>>::new());
    let sources = Sources::new(of_folders.iter().map(|(at, text)| (module(at), (*text).to_owned())));
    assert_eq!(sources.circles_of_folders(), [["a", "b"]]);
}
