//! What a journal needs of a disk: the seam under which a real directory and a simulated disk are exchanged.

use std::io;

/// A flat directory of files. Clones are handles to the same one.
pub trait Medium: Clone + Send + 'static {
    /// An open file.
    type File: MediumFile;

    /// The journal's kind on this medium, for results and errors.
    fn name(&self) -> &'static str;

    /// How errors call the file `name`.
    fn describe(&self, name: &str) -> String;

    /// The names of all files, in any order.
    fn list(&self) -> io::Result<Vec<String>>;

    /// A new file of `bytes` zeros that are written, not merely promised. Fails if the name is taken.
    fn create(&self, name: &str, bytes: u64) -> io::Result<Self::File>;

    /// An existing file, to read and write.
    fn open(&self, name: &str) -> io::Result<Self::File>;

    /// Gives a file another name; durable after [`Medium::sync_names`].
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file; durable after [`Medium::sync_names`].
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes the names of all files durable.
    fn sync_names(&self) -> io::Result<()>;
}

/// An open file of a [`Medium`].
pub trait MediumFile: Send + 'static {
    /// Its length in bytes.
    fn bytes(&self) -> io::Result<u64>;

    /// Reads exactly as much as `into` holds.
    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;

    /// Writes all of `data`; durable on return, unless the medium was opened never to wait for that.
    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Makes durable what any process has written to the file before, whatever the medium was opened for.
    fn sync(&self) -> io::Result<()>;
}
