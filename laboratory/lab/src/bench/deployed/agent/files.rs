//! Files that an agent receives.

use super::super::protocol::RemoteFile;
use quorate_node::private;
use quorate_types::digest::decode_hex;
use std::io;
use std::path::Path;

/// Writes files of a run below its directory.
pub fn write_files(directory: &Path, files: &[RemoteFile]) -> Result<(), String> {
    let cannot = |path: &Path, error: io::Error| format!("cannot write {}: {error}", path.display());
    for file in files {
        let path = directory.join(&file.path);
        let bytes = decode_hex(&file.hex).ok_or_else(|| format!("{} is not in hexadecimal", file.path))?;
        let parent = path.parent().unwrap_or(directory);
        private::create_directories(parent).map_err(|error| cannot(parent, error))?;
        private::write(&path, &bytes).map_err(|error| cannot(&path, error))?;
    }
    Ok(())
}
