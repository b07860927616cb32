//! Lists the experiments of the repository, so that they become part of the binary.

use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../..").canonicalize()?;
    let mut files = Vec::new();
    let experiments = root.join("experiments");
    collect(&experiments, &mut files)?;
    // Experiments are in subdirectories; the list of the papers' figures is beside these.
    files.retain(|file| file.parent() != Some(&experiments));
    files.sort();
    let mut source =
        String::from("/// Names and texts of all experiment files.\npub const FILES: &[(&str, &str)] = &[\n");
    for file in files {
        let name = file.strip_prefix(&root)?.to_str().ok_or("the name of an experiment is UTF-8")?;
        let path = file.to_str().ok_or("the path of an experiment is UTF-8")?;
        writeln!(source, "    ({name:?}, include_str!({path:?})),")?;
    }
    source.push_str("];\n");
    fs::write(Path::new(&env::var("OUT_DIR")?).join("catalogue.rs"), source)?;
    Ok(())
}

/// Adds the files below a directory, and makes cargo watch them.
fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={}", directory.display());
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    Ok(())
}
