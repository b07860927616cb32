//! Writing of results to standard output or files, and of everything else to standard error.
//!
//! Outputs are opened before anything runs, so that an unwritable output is reported immediately. No measurement is
//! lost: the table is printed first, and a failed output does not prevent the others from being written.

use crate::Outcome;
use crate::failure::wrong_call;
use crate::report::Report;
use quorate_types::text::escaped_lines;
use std::borrow::Cow;
use std::error::Error;
use std::fs::{self, File};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Path that denotes standard output.
const STANDARD: &str = "-";

/// Reader of standard output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a loop that prints ends when its reader is gone"]
pub enum Reader {
    Reads,
    /// The reader has closed the pipe (`| head`), so nothing more will be read.
    Gone,
}

/// Prints one line of a multi-line result, and returns whether the next line will be read.
///
/// # Errors
/// If standard output cannot be written.
pub fn say_next(line: &[u8]) -> Result<Reader, String> {
    write(&[line, b"\n"].concat())
}

/// Returns a text for standard output. For a terminal, control characters other than line ends and tabs are escaped:
/// texts of files, peers and clients may contain others.
pub fn for_output(text: &str) -> Cow<'_, str> {
    if io::stdout().is_terminal() { escaped_lines(text) } else { text.into() }
}

/// Prints a text of a result, [escaped](for_output) for a terminal. A closed reader (`| head`) is not an error.
///
/// # Errors
/// If standard output cannot be written.
pub fn say(text: &str) -> Result<(), String> {
    say_bytes(for_output(text).as_bytes())
}

/// Control sequences for a terminal.
pub const BOLD: &str = "\x1b[1m";
pub const NOT_BOLD: &str = "\x1b[0m";

/// Sends a control sequence to standard output if that is a terminal.
///
/// # Errors
/// If standard output cannot be written.
pub fn control(sequence: &'static str) -> Result<(), String> {
    match io::stdout().is_terminal() {
        true => write(sequence.as_bytes()).map(|_| ()),
        false => Ok(()),
    }
}

/// Prints a line of a result that may be binary.
///
/// # Errors
/// If standard output cannot be written.
pub fn say_bytes(line: &[u8]) -> Result<(), String> {
    say_next(line).map(|_| ())
}

fn write(bytes: &[u8]) -> Result<Reader, String> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(Reader::Reads),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(format!("cannot write to standard output: {error}")),
    }
}

/// Prints a text to standard error, without control characters other than line ends and tabs.
pub fn report(text: &str) {
    // If standard error is closed, there is no other place to report that.
    let _ = writeln!(io::stderr(), "{}", escaped_lines(text));
}

/// Destination of one format of a result.
struct Place {
    flag: &'static str,
    path: String,
    /// `None` for standard output.
    file: Option<File>,
    /// Whether this run created the file; it is removed if nothing is written.
    is_new: bool,
    is_written: bool,
}

/// Open outputs of a call.
pub struct Outputs(Vec<Place>);

/// One format of a result: the flag that names its output, and a function that creates the text if the flag is given.
pub type Form<'a> = (&'static str, &'a dyn Fn() -> String);

impl Outputs {
    /// Opens the outputs of the given flags. Existing files keep their content until a result is written. `inputs` are
    /// files read by the run.
    ///
    /// # Errors
    /// A wrong call, if an output cannot be written, is named by two flags, or is an input.
    pub fn open(flags: &[(&'static str, Option<&str>)], inputs: &[&Path]) -> Result<Outputs, Box<dyn Error>> {
        let mut outputs = Outputs(Vec::new());
        for (flag, path) in flags.iter().filter_map(|(flag, path)| Some((*flag, (*path)?))) {
            let place = Place::open(flag, path)?;
            let taken = outputs.0.iter().find(|other| other.is_the_same(&place));
            if let Some(other) = taken {
                let what = if path == STANDARD { "standard output" } else { path };
                let why = format!("{} and {flag} both name {what}; name another place for one of them", other.flag);
                return Err(wrong_call(why));
            }
            if let Some(input) = inputs.iter().find(|input| place.is_file(input)) {
                let why =
                    format!("{flag} {path} would overwrite {}, which is an input; name another file", input.display());
                return Err(wrong_call(why));
            }
            outputs.0.push(place);
        }
        Ok(outputs)
    }

    /// Prints the table, on standard output unless another format is written there, and writes each format to its
    /// output.
    ///
    /// # Errors
    /// Lists every output that cannot be written; the table is then printed at least to standard error.
    pub fn deliver(mut self, table: &str, forms: &[Form<'_>]) -> Result<(), Box<dyn Error>> {
        let mut failures = Vec::new();
        if self.0.iter().any(|place| place.file.is_none()) {
            report(table);
        } else if let Err(failure) = say(table) {
            report(table);
            failures.push(failure);
        }
        for place in &mut self.0 {
            let text = forms.iter().find(|(flag, _)| *flag == place.flag).map(|(_, text)| text());
            match text.map(|text| place.write(&text)) {
                Some(Err(failure)) => failures.push(failure),
                Some(Ok(())) if place.flag == "--report" && place.file.is_some() => {
                    report(&format!("report: {}", place.path));
                }
                _ => {}
            }
        }
        if failures.is_empty() { Ok(()) } else { Err(failures.join("\n").into()) }
    }

    /// Prints the text of a result and writes its other formats: the formats of [`Report`], and `others`.
    ///
    /// # Errors
    /// Lists every output that cannot be written, or else states why the result is a failure.
    pub fn show(self, result: &impl Report, others: &[Form<'_>]) -> Outcome {
        let (json, page) = (|| result.to_json(), || result.to_page());
        let forms = [others, &[("--json", &json), ("--report", &page)]].concat();
        self.deliver(result.to_table().trim_end(), &forms)?;
        result.failure().map_or(Ok(()), |failure| Err(failure.into()))
    }

    /// Writes the single result of a call, and prints its location if it is a file.
    ///
    /// # Errors
    /// If the output of `flag` cannot be written.
    pub fn deliver_only(mut self, flag: &str, text: &str) -> Result<(), Box<dyn Error>> {
        let place = self.0.iter_mut().find(|place| place.flag == flag).expect("it was opened");
        place.write(text)?;
        if place.file.is_some() {
            report(&format!("{}: {}", place.flag.trim_start_matches('-'), place.path));
        }
        Ok(())
    }

    pub fn writer(&mut self, flag: &str) -> Box<dyn Write> {
        let place = self.0.iter_mut().find(|place| place.flag == flag).expect("it was opened");
        place.is_written = true;
        match place.file.take() {
            None => Box::new(io::stdout()),
            Some(file) => {
                // Devices and pipes cannot be truncated, and need not be.
                let _ = file.set_len(0);
                Box::new(file)
            }
        }
    }
}

impl Place {
    fn open(flag: &'static str, path: &str) -> Result<Place, Box<dyn Error>> {
        let mut place = Place { flag, path: path.to_owned(), file: None, is_new: false, is_written: false };
        if path != STANDARD {
            let is_new = !Path::new(path).exists();
            let file = File::options().write(true).create(true).truncate(false).open(path);
            place.file = Some(
                file.map_err(|error| wrong_call(format!("{flag}: cannot write {path}: {error}; name another file")))?,
            );
            place.is_new = is_new;
        }
        Ok(place)
    }

    fn write(&mut self, text: &str) -> Result<(), String> {
        let Some(file) = &mut self.file else { return say(text.trim_end()) };
        self.is_written = true;
        // Devices and pipes cannot be truncated, and need not be.
        let _ = file.set_len(0);
        file.write_all(text.as_bytes())
            .and_then(|()| file.flush())
            .map_err(|error| format!("{}: cannot write {}: {error}", self.flag, self.path))
    }

    /// Returns the canonical path of an existing file.
    fn canonical(path: &Path) -> Option<PathBuf> {
        fs::canonicalize(path).ok()
    }

    fn is_file(&self, path: &Path) -> bool {
        let is_regular = self.file.as_ref().is_some_and(|file| file.metadata().is_ok_and(|about| about.is_file()));
        is_regular && Place::canonical(path).is_some_and(|of| Place::canonical(Path::new(&self.path)) == Some(of))
    }

    fn is_the_same(&self, other: &Place) -> bool {
        match (&self.file, &other.file) {
            (None, None) => true,
            (Some(_), Some(_)) => self.is_file(Path::new(&other.path)),
            _ => false,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_new && !self.is_written {
            // A file that cannot be removed stays behind empty, which does no harm.
            let _ = fs::remove_file(&self.path);
        }
    }
}
