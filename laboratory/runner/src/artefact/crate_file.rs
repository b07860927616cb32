//! The metadata of an artefact, as RO-Crate 1.1: <https://w3id.org/ro/crate/1.1>.

use super::{About, BIBLIOGRAPHY_FILE, REPEAT_FILE, ROWS_FILE, experiment_path};
use crate::error::RunnerError;
use crate::page::reproduction::Catalogue;
use crate::page::{FIGURES_DIR, PAGE_FILE};
use crate::report::Archived;
use crate::store::Store;
use quorate_lab::experiments::Row;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Name that RO-Crate prescribes.
pub const METADATA_FILE: &str = "ro-crate-metadata.json";
const CONTEXT: &str = "https://w3id.org/ro/crate/1.1/context";
/// Term that the context of RO-Crate 1.1 does not have yet.
const SHA256_TERM: &str = "https://schema.org/sha256";
const PROFILE: &str = "https://w3id.org/ro/crate/1.1";
/// Seconds of a day.
const DAY_S: u64 = 86_400;
/// File that a run locks; its content is the ID of a process.
const LOCK_FILE: &str = "lock";

/// A directory to describe.
pub(super) struct Described<'d> {
    pub dir: &'d Path,
    pub store: &'d Store,
    pub archived: &'d [Archived],
    pub catalogue: &'d Catalogue,
    pub about: &'d About,
}

/// Entities, in the order of the file.
#[derive(Default)]
struct Graph(Vec<Value>);

fn reference(id: &str) -> Value {
    json!({ "@id": id })
}

fn references<'i>(ids: impl IntoIterator<Item = &'i String>) -> Value {
    ids.into_iter().map(|id| reference(id)).collect()
}

impl Described<'_> {
    /// Returns the number of files and the metadata.
    pub fn metadata(&self) -> Result<(usize, String), RunnerError> {
        let files = self.files()?;
        let rows = self.rows();
        let mut graph = Graph::default();
        let (builds, machines) = self.tools(&mut graph);
        let papers = self.papers(&mut graph);
        let actions = self.actions(&mut graph, &files, &builds, &machines);
        for path in &files {
            let file = self.file(path, rows.get(path.as_str()).copied())?;
            graph.0.push(file);
        }
        let descriptor = json!({
            "@id": METADATA_FILE,
            "@type": "CreativeWork",
            "about": reference("./"),
            "conformsTo": reference(PROFILE),
        });
        let root = self.root(&files, &papers, &actions);
        let entities: Vec<Value> = [descriptor, root].into_iter().chain(graph.0).collect();
        let document = json!({ "@context": [CONTEXT, { "sha256": SHA256_TERM }], "@graph": entities });
        let text = serde_json::to_string_pretty(&document).expect("metadata are plain data") + "\n";
        Ok((files.len(), text))
    }

    fn root(&self, files: &[String], papers: &[String], actions: &[String]) -> Value {
        let names: BTreeSet<String> = self.archived.iter().map(|own| own.experiment.name()).collect();
        let names: Vec<String> = names.into_iter().collect();
        let titles: BTreeSet<&str> = self.archived.iter().map(|own| own.experiment.title.as_str()).collect();
        let titles: Vec<&str> = titles.into_iter().collect();
        let mut root = json!({
            "@id": "./",
            "@type": "Dataset",
            "name": format!("Results of quorate: {}", names.join(", ")),
            "description": format!("{}. `sh {REPEAT_FILE}` repeats all runs.", titles.join(". ")),
            "datePublished": iso_date(self.about.published),
            "hasPart": references(files),
            "mentions": references(actions),
        });
        if !papers.is_empty() {
            root["citation"] = references(papers);
        }
        if let Some(license) = &self.about.license {
            root["license"] = license.as_str().into();
        }
        root
    }

    /// Adds the programs and machines of the rows. Returns their ids by name.
    fn tools(&self, graph: &mut Graph) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
        let all = |of: fn(&Row) -> &str| -> BTreeSet<String> {
            let rows = self.archived.iter().flat_map(|own| &own.rows);
            rows.map(of).filter(|name| !name.is_empty()).map(str::to_owned).collect()
        };
        let mut add = |names: BTreeSet<String>, id: &str, entity: &dyn Fn(&str) -> Value| {
            let mut ids = BTreeMap::new();
            for (at, name) in names.into_iter().enumerate() {
                let own = format!("#{id}-{}", at + 1);
                let mut value = entity(&name);
                value["@id"] = own.as_str().into();
                graph.0.push(value);
                ids.insert(name, own);
            }
            ids
        };
        let build = |name: &str| json!({ "@type": "SoftwareApplication", "name": "quorate", "version": name });
        let machine = |name: &str| json!({ "@type": "IndividualProduct", "name": name });
        let builds = add(all(|row| &row.provenance.surroundings.build), "build", &build);
        let machines = add(all(|row| &row.provenance.surroundings.machine), "machine", &machine);
        (builds, machines)
    }

    /// Adds the papers whose figures are reproduced. Returns their ids.
    fn papers(&self, graph: &mut Graph) -> Vec<String> {
        let mut ids = Vec::new();
        for paper in &self.catalogue.papers {
            let is_cited = self.archived.iter().any(|own| own.experiment.paper == paper.name);
            let doi = field(&paper.bibtex, "doi").map(|doi| format!("https://doi.org/{doi}"));
            let id = doi.or_else(|| Some(format!("https://arxiv.org/abs/{}", field(&paper.bibtex, "eprint")?)));
            if let Some(id) = id.filter(|_| is_cited) {
                graph.0.push(json!({ "@id": id, "@type": "ScholarlyArticle", "name": paper.title }));
                ids.push(id);
            }
        }
        ids
    }

    /// Adds an action for each experiment that was run. Returns their ids.
    fn actions(
        &self,
        graph: &mut Graph,
        files: &[String],
        builds: &BTreeMap<String, String>,
        machines: &BTreeMap<String, String>,
    ) -> Vec<String> {
        let mut ids = Vec::new();
        for own in self.archived {
            let id = format!("#run-{}-{}", own.experiment.name().replace('/', "-"), own.profile);
            let named = |of: fn(&Row) -> &str, known: &BTreeMap<String, String>| -> BTreeSet<String> {
                own.rows.iter().filter_map(|row| known.get(of(row)).cloned()).collect()
            };
            let mut tools = named(|row| &row.provenance.surroundings.build, builds);
            tools.extend(named(|row| &row.provenance.surroundings.machine, machines));
            let has_failed = own.rows.iter().any(|row| row.failure.is_some());
            let status = if has_failed { "FailedActionStatus" } else { "CompletedActionStatus" };
            let cells: Vec<String> =
                self.cells(own).map(|(path, ..)| path).filter(|path| files.contains(path)).collect();
            graph.0.push(json!({
                "@id": id,
                "@type": "CreateAction",
                "name": format!("{}, profile {}", own.experiment.title, own.profile),
                "description": own.experiment.about.split_whitespace().collect::<Vec<_>>().join(" "),
                "object": reference(&experiment_path(own)),
                "instrument": references(&tools),
                "result": references(&cells),
                "actionStatus": format!("http://schema.org/{status}"),
            }));
            ids.push(id);
        }
        ids
    }

    /// Returns the paths of an experiment's rows in the directory, with the key of the cell.
    fn cells<'a>(&'a self, own: &'a Archived) -> impl Iterator<Item = (String, &'a str, u32)> {
        let most = own.plan().map_or(0, |plan| plan.repeat.max);
        own.record.cells.values().flatten().flat_map(move |key| {
            (0..most)
                .map(move |repetition| (self.relative(&self.store.path(key, repetition)), key.as_str(), repetition))
        })
    }

    /// Returns the rows by path, each with the key of its cell.
    fn rows(&self) -> BTreeMap<String, (&str, &Row)> {
        let mut rows = BTreeMap::new();
        for own in self.archived {
            let Ok(plan) = own.plan() else { continue };
            for instrument in &own.instruments {
                let keys = own.record.cells.get(instrument.name()).map_or(&[][..], Vec::as_slice);
                let cells = plan.cells.iter().filter(|cell| cell.instrument == *instrument);
                for (cell, key) in cells.zip(keys) {
                    let values = cell.values();
                    let of_cell = own.rows.iter().filter(|row| row.instrument == *instrument && row.cell == values);
                    for row in of_cell {
                        rows.insert(self.relative(&self.store.path(key, row.repetition)), (key.as_str(), row));
                    }
                }
            }
        }
        rows
    }

    fn relative(&self, path: &Path) -> String {
        path.strip_prefix(self.dir).unwrap_or(path).to_string_lossy().into_owned()
    }

    fn file(&self, path: &str, row: Option<(&str, &Row)>) -> Result<Value, RunnerError> {
        let full = self.dir.join(path);
        let (bytes, digest) = digest(&full)?;
        let mut file = Map::new();
        file.insert("@id".into(), path.into());
        file.insert("@type".into(), "File".into());
        file.insert("name".into(), name_of(path, row).into());
        file.insert("contentSize".into(), bytes.to_string().into());
        file.insert("encodingFormat".into(), format_of(path).into());
        file.insert("sha256".into(), digest.into());
        if let Some((key, row)) = row {
            // The key is the digest of the specification and everything else that determines the row.
            file.insert("identifier".into(), key.into());
            file.insert("description".into(), format!("Repeat with: {}", row.provenance.command).into());
        }
        Ok(Value::Object(file))
    }

    /// Returns the paths of all files, except locks, files of unfinished runs, and the metadata.
    fn files(&self) -> Result<Vec<String>, RunnerError> {
        let mut paths = Vec::new();
        collect(self.dir, &mut paths)?;
        let mut paths: Vec<String> =
            paths.iter().map(|path| self.relative(path)).filter(|path| is_part(path)).collect();
        paths.sort();
        Ok(paths)
    }
}

/// Returns whether a file is part of the artefact.
fn is_part(path: &str) -> bool {
    let row = path.strip_prefix("cells/").map(|name| {
        // A row is KEY-REPETITION.json; files of unfinished runs have further parts.
        let (key, repetition) = name.strip_suffix(".json").and_then(|stem| stem.split_once('-')).unwrap_or_default();
        !key.is_empty() && !repetition.is_empty() && repetition.bytes().all(|byte| byte.is_ascii_digit())
    });
    path != METADATA_FILE && path != LOCK_FILE && row.unwrap_or(true)
}

fn collect(dir: &Path, paths: &mut Vec<PathBuf>) -> Result<(), RunnerError> {
    for entry in fs::read_dir(dir).map_err(RunnerError::read(dir))? {
        let entry = entry.map_err(RunnerError::read(dir))?;
        let kind = entry.file_type().map_err(RunnerError::read(entry.path()))?;
        if kind.is_dir() {
            collect(&entry.path(), paths)?;
        } else if kind.is_file() {
            paths.push(entry.path());
        }
    }
    Ok(())
}

/// Returns the size in bytes and the SHA-256 of a file, in hexadecimal.
fn digest(path: &Path) -> Result<(u64, String), RunnerError> {
    let mut file = File::open(path).map_err(RunnerError::read(path))?;
    let (mut hasher, mut bytes, mut buffer) = (Sha256::new(), 0, vec![0; 1 << 16]);
    loop {
        match file.read(&mut buffer).map_err(RunnerError::read(path))? {
            0 => break,
            count => {
                hasher.update(&buffer[..count]);
                bytes += count as u64;
            }
        }
    }
    Ok((bytes, hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()))
}

fn name_of(path: &str, row: Option<(&str, &Row)>) -> String {
    if let Some((_, row)) = row {
        let at: Vec<String> = row.cell.iter().map(|(axis, value)| format!("{axis} {value}")).collect();
        let at = if at.is_empty() { String::new() } else { format!(", {}", at.join(", ")) };
        return format!("{} {}{at}, repetition {}", row.experiment, row.instrument, row.repetition);
    }
    match path {
        PAGE_FILE => "Figures, claims and verdicts".to_owned(),
        ROWS_FILE => "All rows, one line for each run".to_owned(),
        BIBLIOGRAPHY_FILE => "BibTeX entries for the runs and the papers".to_owned(),
        REPEAT_FILE => "Script that repeats all runs".to_owned(),
        _ if path.starts_with(FIGURES_DIR) => format!("Figure {}", path.rsplit('/').next().unwrap_or(path)),
        _ => path.rsplit('/').next().unwrap_or(path).to_owned(),
    }
}

fn format_of(path: &str) -> &'static str {
    const FORMATS: &[(&str, &str)] = &[
        (".vl.json", "application/vnd.vegalite.v5+json"),
        (".json", "application/json"),
        (".csv", "text/csv"),
        (".html", "text/html"),
        (".svg", "image/svg+xml"),
        (".pdf", "application/pdf"),
        (".tex", "application/x-tex"),
        (".bib", "application/x-bibtex"),
        (".toml", "application/toml"),
        (".sh", "application/x-sh"),
        (".md", "text/markdown"),
    ];
    FORMATS.iter().find(|(ending, _)| path.ends_with(ending)).map_or("application/octet-stream", |(_, format)| format)
}

/// Returns the value of a field of a BibTeX entry.
fn field<'e>(entry: &'e str, name: &str) -> Option<&'e str> {
    let prefix = format!("{name} = {{");
    let line = entry.lines().map(str::trim).find(|line| line.starts_with(&prefix))?;
    line[prefix.len()..].split('}').next()
}

/// Returns the date of a time in UTC as YYYY-MM-DD.
fn iso_date(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let (mut year, mut days) = (1970, since.as_secs() / DAY_S);
    let is_leap = |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    format!("{year:04}-{:02}-{:02}", month + 1, days + 1)
}
