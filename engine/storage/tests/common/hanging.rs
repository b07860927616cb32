//! A disk that hangs.

use quorate_storage::{Medium, MediumFile, SimulatedDisk, SimulatedFile};
use std::io;
use std::sync::{Arc, RwLock};

/// Disk whose writes wait while a test holds the write lock of `answers`.
#[derive(Clone)]
pub struct Hanging {
    pub disk: SimulatedDisk,
    pub answers: Arc<RwLock<()>>,
}

pub struct HangingFile {
    file: SimulatedFile,
    answers: Arc<RwLock<()>>,
}

impl Hanging {
    fn file(&self, file: io::Result<SimulatedFile>) -> io::Result<HangingFile> {
        Ok(HangingFile { file: file?, answers: self.answers.clone() })
    }
}

impl Medium for Hanging {
    type File = HangingFile;

    fn name(&self) -> &'static str {
        "hanging"
    }

    fn describe(&self, name: &str) -> String {
        self.disk.describe(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<HangingFile> {
        self.file(self.disk.create(name, bytes))
    }

    fn open(&self, name: &str) -> io::Result<HangingFile> {
        self.file(self.disk.open(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_names(&self) -> io::Result<()> {
        self.disk.sync_names()
    }
}

impl MediumFile for HangingFile {
    fn bytes(&self) -> io::Result<u64> {
        self.file.bytes()
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, into)
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        let _answers = self.answers.read().expect("nobody panics with it");
        self.file.write(offset, data)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}
