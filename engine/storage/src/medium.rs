//! Disk operations needed by a journal, implemented by real directories and simulated disks.

use std::io;

/// A flat directory of files. Clones are handles to the same directory.
pub trait Medium: Clone + Send + 'static {
    type File: MediumFile;

    /// Returns the name of a journal on this medium, used in results and errors.
    fn name(&self) -> &'static str;

    /// Returns the name of a file for error messages.
    fn describe(&self, name: &str) -> String;

    /// Lists the names of all files, in any order.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Creates a file of `bytes` zeros, which are actually written, not left as a hole. Fails if the name exists.
    fn create(&self, name: &str, bytes: u64) -> io::Result<Self::File>;

    /// Opens an existing file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Self::File>;

    /// Renames a file; durable after [`Medium::sync_names`].
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file; durable after [`Medium::sync_names`].
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes all creations, renamings and removals durable.
    fn sync_names(&self) -> io::Result<()>;
}

/// An open file of a [`Medium`].
pub trait MediumFile: Send + 'static {
    /// Returns the length of the file in bytes.
    fn bytes(&self) -> io::Result<u64>;

    /// Reads exactly `into.len()` bytes.
    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;

    /// Writes all of `data`; durable on return unless the medium was opened with [`Fsync::Never`](crate::Fsync::Never).
    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Makes everything durable that any process has written to the file, even with
    /// [`Fsync::Never`](crate::Fsync::Never).
    fn sync(&self) -> io::Result<()>;
}
