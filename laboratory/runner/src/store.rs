//! Directory of results.
//!
//! `cells/KEY-REPETITION.json` is a row, with a key derived from all its inputs (`Cell::key`); `runs/NAME.json` is a
//! completed experiment, through which its rows are found again; `logs/KEY-REPETITION.log` is the log of a run. Files
//! are replaced atomically. A run locks the directory, so that two runs do not disturb each other's measurements, unless
//! it shares it: such runs lock each repetition of a cell that they take (`cells/KEY-REPETITION.lock`).

use crate::catalogue::Source;
use crate::claim::{self, Claim, Share};
use crate::error::RunnerError;
use quorate_lab::experiments::{Experiment, Instrument, Profile, Row};
use quorate_lab::figures::vocabulary;
use quorate_types::{Fault, Hasher, tags};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Default directory of results.
pub const DEFAULT_DIR: &str = "quorate-lab";
/// Name of the file that a run locks; it contains the process ID.
const LOCK_FILE: &str = "lock";
/// Maximum size of a kept file in bytes.
const MAX_FILE_BYTES: u64 = 256 << 20;
/// Tag of the hash that distinguishes names whose file names would be equal.
const NAME_TAG: [u8; 4] = tags::ROW_NAME;
const SHOWN_DIGITS: usize = 8;

/// A directory of results.
#[derive(Clone, Debug)]
pub struct Store(PathBuf);

/// Drop guard of a locked directory.
#[derive(Debug)]
pub struct Lock(#[allow(dead_code, reason = "the lock ends when the file is closed")] File);

/// An experiment as it was run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// File name in errors.
    pub file: String,
    pub text: String,
    pub profile: Profile,
    /// Seed of repetition 0 if given on the command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Keys of the cells in the order of the plan, by the instruments that were run.
    pub cells: BTreeMap<String, Vec<String>>,
}

impl Record {
    /// Parses the experiment.
    ///
    /// # Errors
    /// If the text is invalid, for instance because a later version of the program wrote it.
    pub fn experiment(&self) -> Result<Experiment, Fault> {
        let mut experiment = Source { file: self.file.clone(), text: self.text.clone() }.experiment()?;
        seed(&mut experiment, self.seed);
        Ok(experiment)
    }

    /// Returns the instruments that were run, in the order of the experiment.
    pub fn instruments(&self, experiment: &Experiment) -> Vec<Instrument> {
        let ran = |instrument: &&Instrument| self.cells.contains_key(instrument.name());
        experiment.instruments.iter().filter(ran).copied().collect()
    }
}

/// Sets the seed of repetition 0.
pub(crate) fn seed(experiment: &mut Experiment, seed: Option<u64>) {
    if let Some(seed) = seed.and_then(|seed| i64::try_from(seed).ok()) {
        experiment.base.common.insert("seed".to_owned(), seed.into());
    }
}

impl Store {
    /// Returns a handle for a directory. [`create`](Store::create) creates the directory itself.
    pub fn at(dir: &Path) -> Store {
        Store(dir.to_owned())
    }

    /// Locks the directory until the lock is dropped or the process ends. With `shared`, others may share it.
    ///
    /// # Errors
    /// If another run has locked it in a way that excludes this one, or it cannot be locked.
    pub fn lock(&self, shared: bool) -> Result<Lock, RunnerError> {
        let path = self.0.join(LOCK_FILE);
        let mut file = claim::open(&path)?;
        let kind = if shared { libc::LOCK_SH } else { libc::LOCK_EX };
        if !claim::lock(&file, kind | libc::LOCK_NB).map_err(RunnerError::write(&path))? {
            let mut holder = String::new();
            // Ignore errors: the holder may be about to write its ID.
            let _ = file.read_to_string(&mut holder);
            let holder = match holder.trim() {
                "" => "another process".to_owned(),
                process => format!("process {process}"),
            };
            let what = format!("is in use by the run of {holder}");
            let place = self.0.display().to_string();
            return Err(Fault::new(place, what, "wait until it ends, or name another --dir").into());
        }
        let written = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        written.map_err(RunnerError::write(&path))?;
        Ok(Lock(file))
    }

    /// Claims a repetition of a cell; `None` if another process runs it.
    ///
    /// # Errors
    /// If the directory cannot be written.
    pub fn claim(&self, key: &str, repetition: u32) -> Result<Option<Claim>, RunnerError> {
        Claim::on(self.cells().join(format!("{key}-{repetition}.lock")))
    }

    /// Takes a share of this machine among the processes that share the directory, or the whole machine; `None` if
    /// others have taken too much of it.
    ///
    /// # Errors
    /// If the directory cannot be written.
    pub fn share_of_machine(&self, whole: bool) -> Result<Option<Share>, RunnerError> {
        let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Share::of(&self.cells().join(format!("machine-{}.lock", file_name(name.trim()))), whole)
    }

    /// Creates the directory if it does not exist.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(&self) -> Result<(), RunnerError> {
        for below in [self.cells(), self.runs(), self.logs()] {
            fs::create_dir_all(&below).map_err(RunnerError::write(below))?;
        }
        Ok(())
    }

    /// Opens a directory written by `quorate lab run`.
    ///
    /// # Errors
    /// If it is not one.
    pub fn open(dir: &Path) -> Result<Store, RunnerError> {
        let store = Store(dir.to_owned());
        if store.runs().is_dir() {
            return Ok(store);
        }
        let place = dir.display().to_string();
        Err(Fault::new(place, "is no directory of results", "name the --dir of a `quorate lab run`").into())
    }

    fn cells(&self) -> PathBuf {
        self.0.join("cells")
    }

    fn runs(&self) -> PathBuf {
        self.0.join("runs")
    }

    fn logs(&self) -> PathBuf {
        self.0.join("logs")
    }

    /// Returns the path of a row.
    pub fn path(&self, key: &str, repetition: u32) -> PathBuf {
        self.cells().join(format!("{key}-{repetition}.json"))
    }

    /// Returns the prefix of a run's temporary files.
    pub(crate) fn scratch(&self, key: &str, repetition: u32) -> PathBuf {
        self.cells().join(format!("{key}-{repetition}-{}", std::process::id()))
    }

    /// Returns a kept row; `None` if it does not exist.
    ///
    /// # Errors
    /// If the file cannot be read, or is not a row.
    pub fn load(&self, key: &str, repetition: u32) -> Result<Option<Row>, RunnerError> {
        let path = self.path(key, repetition);
        match fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Ok(about) if !about.is_file() => {
                let place = path.display().to_string();
                return Err(Fault::new(place, "is not a regular file", "move it away").into());
            }
            _ => {}
        }
        let row: Row = parse(&path)?;
        row.validate(&vocabulary())?;
        if row.repetition != repetition {
            let what = format!("holds repetition {}", row.repetition);
            return Err(Fault::new(path.display().to_string(), what, "delete the file").into());
        }
        Ok(Some(row))
    }

    /// Keeps the log of a run instead of its last attempt's.
    pub(crate) fn log(&self, key: &str, repetition: u32, text: &str) -> Result<(), RunnerError> {
        let path = self.logs().join(format!("{key}-{repetition}.log"));
        fs::write(&path, text).map_err(RunnerError::write(&path))
    }

    /// Returns when a row was written; `None` if it does not exist.
    pub(crate) fn written_at(&self, key: &str, repetition: u32) -> Option<SystemTime> {
        fs::metadata(self.path(key, repetition)).and_then(|about| about.modified()).ok()
    }

    /// Stores a row durably.
    ///
    /// # Errors
    /// If the directory cannot be written.
    pub fn save(&self, key: &str, row: &Row) -> Result<(), RunnerError> {
        write(&self.path(key, row.repetition), row)
    }

    /// Stores an experiment as it is run. Keeps instruments of earlier runs if everything else is the same.
    ///
    /// # Errors
    /// If the directory cannot be written.
    pub fn record(&self, name: &str, record: &Record) -> Result<(), RunnerError> {
        let path = self.runs().join(format!("{}.json", file_name(&format!("{name}-{}", record.profile))));
        let mut record = record.clone();
        if let Ok(before) = parse::<Record>(&path)
            && (&before.text, before.seed) == (&record.text, record.seed)
        {
            for (instrument, cells) in before.cells {
                record.cells.entry(instrument).or_insert(cells);
            }
        }
        write(&path, &record)
    }

    /// Returns all completed experiments, by name.
    ///
    /// # Errors
    /// If the directory or one of its files cannot be read.
    pub fn records(&self) -> Result<Vec<Record>, RunnerError> {
        let runs = self.runs();
        let mut paths = Vec::new();
        for entry in fs::read_dir(&runs).map_err(RunnerError::read(&runs))? {
            let path = entry.map_err(RunnerError::read(&runs))?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                paths.push(path);
            }
        }
        paths.sort();
        paths.iter().map(|path| parse(path)).collect()
    }
}

/// Converts a name to a valid file name: characters other than letters, digits and hyphens are replaced, and a digest
/// distinguishes names that become equal.
fn file_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let mut hasher = Hasher::new(NAME_TAG);
    hasher.update(name.as_bytes());
    let short: String = name.chars().take(100).map(plain).collect();
    format!("{short}-{}", &hasher.finish().to_hex()[..SHOWN_DIGITS])
}

fn parse<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<T, RunnerError> {
    let length = fs::metadata(path).map_err(RunnerError::read(path))?.len();
    let place = path.display().to_string();
    if length > MAX_FILE_BYTES {
        let what = format!("is {length} bytes long, more than {MAX_FILE_BYTES}");
        return Err(Fault::new(place, what, "delete it and run the cell again").into());
    }
    let text = fs::read_to_string(path).map_err(RunnerError::read(path))?;
    let unreadable = |error: serde_json::Error| {
        Fault::new(place, format!("cannot be read: {error}"), "delete it and run the cell again")
    };
    Ok(serde_json::from_str(&text).map_err(unreadable)?)
}

fn write(path: &Path, value: &impl Serialize) -> Result<(), RunnerError> {
    let text = serde_json::to_string_pretty(value).expect("it is plain data") + "\n";
    quorate_types::files::replace(path, text.as_bytes(), quorate_types::files::DEFAULT_MODE)
        .map_err(RunnerError::write(path))
}
