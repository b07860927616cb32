//! A disk in memory that simulates disk failures, driven by a seed, for tests and simulators.

use crate::format::SECTOR_BYTES;
use crate::medium::{Medium, MediumFile};
use crate::options::Fsync;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Maximum number of unsynced writes of a file, or of name changes. A real kernel also writes data back after a while.
const MAX_UNSYNCED: usize = 64;

/// Faults of a [`SimulatedDisk`]; none by default.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Duration of each write and sync in nanoseconds, drawn uniformly from this range.
    pub latency_ns: Range<u64>,
    /// Whether the writing thread sleeps for the latency. Otherwise it is only added up, for
    /// [`SimulatedDisk::take_busy`].
    pub sleep: bool,
    /// Rate of writes that fail with an I/O error after writing a part, per million.
    pub errors_per_million: u32,
    /// Maximum size of all files, in bytes.
    pub capacity_bytes: Option<u64>,
    /// Whether the file system has become read-only.
    pub read_only: bool,
    /// The power fails after this many more bytes; creating, renaming or removing a file counts as one byte. The write
    /// in progress is torn at that byte, or leaves any subset of its sectors.
    pub power_fails_after_bytes: Option<u64>,
}

/// A disk in memory. Clones are handles to the same disk. A write is durable when it returns, except with
/// [`Fsync::Never`].
#[derive(Clone)]
pub struct SimulatedDisk {
    disk: Arc<Mutex<Disk>>,
    fsync: Fsync,
}

#[derive(Clone, Default)]
struct Content {
    cached: Vec<u8>,
    durable: Vec<u8>,
    /// Offset and data of the writes since the last sync.
    unsynced: Vec<(usize, Vec<u8>)>,
}

/// Overwrites `content` with `data` at `offset`.
fn put(content: &mut [u8], offset: usize, data: &[u8]) {
    content[offset..offset + data.len()].copy_from_slice(data);
}

type Names = BTreeMap<String, usize>;

#[derive(Clone, Default)]
struct Disk {
    names: Names,
    /// The durable names, and the names after each later change.
    past_names: Vec<Names>,
    /// By the number in [`Names`].
    files: Vec<Content>,
    faults: Faults,
    down: bool,
    busy: Duration,
    random: u64,
}

impl SimulatedDisk {
    /// Creates an empty disk without faults that draws random numbers from `seed`.
    pub fn new(seed: u64, fsync: Fsync) -> SimulatedDisk {
        let disk = Disk { random: seed, past_names: vec![Names::new()], ..Disk::default() };
        SimulatedDisk { disk: Arc::new(Mutex::new(disk)), fsync }
    }

    pub fn set_faults(&self, faults: Faults) {
        self.lock().faults = faults;
    }

    /// Returns whether the power has failed.
    pub fn is_down(&self) -> bool {
        self.lock().down
    }

    /// Returns the duration of all writes and syncs since the last call.
    pub fn take_busy(&self) -> Duration {
        std::mem::take(&mut self.lock().busy)
    }

    /// Cuts the power, unless it has failed already, and returns the disk as found afterwards, with a random part of
    /// the unsynced data and without faults. This disk stays down.
    pub fn lose_power(&self) -> SimulatedDisk {
        let mut disk = self.lock();
        disk.down = true;
        let mut found = disk.clone();
        let at = found.below(found.past_names.len());
        found.names = found.past_names.swap_remove(at);
        found.past_names = vec![found.names.clone()];
        for at in 0..found.files.len() {
            let mut content = std::mem::take(&mut found.files[at]);
            for (offset, data) in std::mem::take(&mut content.unsynced) {
                found.tear(&mut content.durable, offset, &data, None);
            }
            content.cached.clone_from(&content.durable);
            found.files[at] = content;
        }
        found.down = false;
        found.faults = Faults::default();
        SimulatedDisk { disk: Arc::new(Mutex::new(found)), fsync: self.fsync }
    }

    /// Returns an independent disk with the same content, faults and random state.
    pub fn duplicate(&self) -> SimulatedDisk {
        SimulatedDisk { disk: Arc::new(Mutex::new(self.lock().clone())), fsync: self.fsync }
    }

    /// Flips `bits` in the byte at `offset` of the file `name`. Returns false if there is no such byte.
    pub fn flip(&self, name: &str, offset: u64, bits: u8) -> bool {
        let mut disk = self.lock();
        let Some(file) = disk.names.get(name).copied() else { return false };
        let Content { cached, durable, .. } = &mut disk.files[file];
        for bytes in [cached, durable] {
            match usize::try_from(offset).ok().and_then(|at| bytes.get_mut(at)) {
                Some(byte) => *byte ^= bits,
                None => return false,
            }
        }
        true
    }

    /// Returns the content of the file `name` as read by a process.
    pub fn content(&self, name: &str) -> Option<Vec<u8>> {
        let disk = self.lock();
        disk.names.get(name).map(|file| disk.files[*file].cached.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().expect("the simulated disk does not panic")
    }

    /// Changes the names of files, unless the disk fails.
    fn change<T>(&self, change: impl FnOnce(&mut Disk) -> io::Result<T>) -> io::Result<T> {
        let mut disk = self.lock();
        disk.writable()?;
        disk.spend(1)?;
        let result = change(&mut disk)?;
        let names = disk.names.clone();
        disk.past_names.push(names);
        if disk.past_names.len() > MAX_UNSYNCED {
            disk.past_names.remove(0);
        }
        Ok(result)
    }

    fn pause(&self, latency: Option<Duration>) {
        if let Some(latency) = latency {
            std::thread::sleep(latency);
        }
    }
}

fn power_is_off() -> io::Error {
    io::Error::other("the power has failed")
}

fn no_such_file() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOENT)
}

impl Disk {
    /// Draws a random number with splitmix64 (Steele, Lea and Flood, 2014).
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.random;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Draws a number below `end`, which is not zero.
    fn below(&mut self, end: usize) -> usize {
        (self.draw() % end as u64) as usize
    }

    fn readable(&self) -> io::Result<()> {
        if self.down { Err(power_is_off()) } else { Ok(()) }
    }

    fn writable(&self) -> io::Result<()> {
        self.readable()?;
        if self.faults.read_only { Err(io::Error::from_raw_os_error(libc::EROFS)) } else { Ok(()) }
    }

    /// Counts bytes down to the power failure.
    fn spend(&mut self, bytes: usize) -> io::Result<()> {
        if let Some(left) = &mut self.faults.power_fails_after_bytes {
            if *left < bytes as u64 {
                self.down = true;
                return Err(power_is_off());
            }
            *left -= bytes as u64;
        }
        Ok(())
    }

    /// Frees the content of files that no longer have a name.
    fn forget_removed(&mut self) {
        for (file, content) in self.files.iter_mut().enumerate() {
            if !content.cached.is_empty() && !self.names.values().any(|named| *named == file) {
                *content = Content::default();
            }
        }
    }

    /// Draws a latency and adds it to the total; returns it if the thread must sleep.
    fn wait(&mut self) -> Option<Duration> {
        let Range { start, end } = self.faults.latency_ns;
        if end <= start {
            return None;
        }
        let latency = Duration::from_nanos(start + self.draw() % (end - start));
        self.busy += latency;
        self.faults.sleep.then_some(latency)
    }

    /// Performs a part of a write: its beginning up to `at`, or any subset of its sectors.
    fn tear(&mut self, into: &mut [u8], offset: usize, data: &[u8], at: Option<usize>) {
        if self.draw() & 1 == 0 {
            let end = at.unwrap_or_else(|| self.below(data.len() + 1));
            into[offset..offset + end].copy_from_slice(&data[..end]);
            return;
        }
        let mut from = 0;
        while from < data.len() {
            // Sectors are aligned to the file, not to the write.
            let to = data.len().min((offset + from + 1).next_multiple_of(SECTOR_BYTES) - offset);
            if self.draw() & 1 == 0 {
                into[offset + from..offset + to].copy_from_slice(&data[from..to]);
            }
            from = to;
        }
    }

    fn write(&mut self, file: usize, offset: u64, data: &[u8], fsync: Fsync) -> io::Result<()> {
        self.writable()?;
        let offset = usize::try_from(offset).expect("a simulated file fits in memory");
        let mut content = std::mem::take(&mut self.files[file]);
        assert!(offset + data.len() <= content.cached.len(), "a journal writes within its segments");
        let left = self.faults.power_fails_after_bytes.map(|left| left.min(usize::MAX as u64) as usize);
        let result = if let Err(error) = self.spend(data.len()) {
            self.tear(&mut content.durable, offset, data, left);
            Err(error)
        } else if self.draw() % 1_000_000 < u64::from(self.faults.errors_per_million) {
            // As with a failed writeback: the cache contains all of the data, the disk a part.
            self.tear(&mut content.durable, offset, data, None);
            put(&mut content.cached, offset, data);
            Err(io::Error::from_raw_os_error(libc::EIO))
        } else {
            put(&mut content.cached, offset, data);
            match fsync {
                Fsync::Always => put(&mut content.durable, offset, data),
                Fsync::Never => {
                    content.unsynced.push((offset, data.to_vec()));
                    if content.unsynced.len() > MAX_UNSYNCED {
                        let (offset, data) = content.unsynced.remove(0);
                        put(&mut content.durable, offset, &data);
                    }
                }
            }
            Ok(())
        };
        self.files[file] = content;
        result
    }
}

impl Medium for SimulatedDisk {
    type File = SimulatedFile;

    fn name(&self) -> &'static str {
        match self.fsync {
            Fsync::Always => "simulated",
            Fsync::Never => "simulated, never synced",
        }
    }

    fn describe(&self, name: &str) -> String {
        format!("simulated/{name}")
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let disk = self.lock();
        disk.readable()?;
        Ok(disk.names.keys().cloned().collect())
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<SimulatedFile> {
        let file = self.change(|disk| {
            if disk.names.contains_key(name) {
                return Err(io::Error::from_raw_os_error(libc::EEXIST));
            }
            let used: usize = disk.names.values().map(|file| disk.files[*file].cached.len()).sum();
            if disk.faults.capacity_bytes.is_some_and(|capacity| used as u64 + bytes > capacity) {
                return Err(io::Error::from_raw_os_error(libc::ENOSPC));
            }
            let zeros = vec![0; usize::try_from(bytes).expect("a simulated file fits in memory")];
            disk.files.push(Content { cached: zeros.clone(), durable: zeros, unsynced: Vec::new() });
            disk.names.insert(name.to_owned(), disk.files.len() - 1);
            Ok(disk.files.len() - 1)
        })?;
        Ok(SimulatedFile { disk: self.clone(), file })
    }

    fn open(&self, name: &str) -> io::Result<SimulatedFile> {
        let disk = self.lock();
        disk.readable()?;
        let file = *disk.names.get(name).ok_or_else(no_such_file)?;
        Ok(SimulatedFile { disk: self.clone(), file })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.change(|disk| {
            let file = disk.names.remove(from).ok_or_else(no_such_file)?;
            disk.names.insert(to.to_owned(), file);
            Ok(())
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.change(|disk| disk.names.remove(name).map(drop).ok_or_else(no_such_file))
    }

    fn sync_names(&self) -> io::Result<()> {
        if self.fsync == Fsync::Never {
            return self.lock().readable();
        }
        let mut disk = self.lock();
        disk.writable()?;
        let latency = disk.wait();
        disk.past_names = vec![disk.names.clone()];
        disk.forget_removed();
        drop(disk);
        self.pause(latency);
        Ok(())
    }
}

/// A file of a [`SimulatedDisk`].
pub struct SimulatedFile {
    disk: SimulatedDisk,
    file: usize,
}

impl MediumFile for SimulatedFile {
    fn bytes(&self) -> io::Result<u64> {
        let disk = self.disk.lock();
        disk.readable()?;
        Ok(disk.files[self.file].cached.len() as u64)
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let disk = self.disk.lock();
        disk.readable()?;
        let cached = &disk.files[self.file].cached;
        let from = usize::try_from(offset).ok().and_then(|offset| cached.get(offset..));
        let from = from.and_then(|from| from.get(..into.len()));
        into.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut disk = self.disk.lock();
        let latency = disk.wait();
        let result = disk.write(self.file, offset, data, self.disk.fsync);
        drop(disk);
        self.disk.pause(latency);
        result
    }

    fn sync(&self) -> io::Result<()> {
        let mut disk = self.disk.lock();
        disk.writable()?;
        let latency = disk.wait();
        let content = &mut disk.files[self.file];
        for (offset, data) in std::mem::take(&mut content.unsynced) {
            put(&mut content.durable, offset, &data);
        }
        drop(disk);
        self.disk.pause(latency);
        Ok(())
    }
}
