//! Snapshot files: concurrent writes, damage, and foreign files.

use quorate_node::snapshots::{Snapshot, SnapshotFiles};
use quorate_storage::Identity;
use quorate_types::{EpochId, Height, ReplicaId};
use std::fs;
use std::path::PathBuf;

/// Temporary directory, removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let directory = std::env::temp_dir().join(format!("quorate-snapshots-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).expect("a directory");
        Scratch(directory)
    }

    fn files(&self, cluster: &str, replica: u16) -> SnapshotFiles {
        let identity = Identity { epoch: EpochId::of_name(cluster), replica: ReplicaId(replica) };
        SnapshotFiles::beside(&self.0.join("journal"), identity)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn snapshot(height: u64) -> Snapshot {
    Snapshot { height: Height(height), certificate: None, state: vec![height as u8; 100_000].into() }
}

#[test]
fn two_snapshots_can_be_written_at_the_same_time() {
    let scratch = Scratch::new("side-by-side");
    let files = scratch.files("cluster", 1);
    std::thread::scope(|scope| {
        for odd in [0, 1] {
            let files = &files;
            scope.spawn(move || {
                for height in (1..40).map(|step| 2 * step + odd) {
                    files.write(&snapshot(height)).expect("the snapshot is written");
                }
            });
        }
    });
    assert_eq!(files.heights().expect("a list").len(), 78);
    assert_eq!(files.read_last().expect("the directory can be read"), Some(snapshot(79)));
    let names = fs::read_dir(files.directory()).expect("a directory").flatten().count();
    assert_eq!(names, 78, "unfinished files are left");
}

#[test]
fn damaged_and_foreign_snapshots_are_skipped() {
    let scratch = Scratch::new("damaged");
    let files = scratch.files("cluster", 1);
    assert_eq!(files.read_last().expect("the directory can be read"), None);
    (1..=3).for_each(|height| files.write(&snapshot(height)).expect("the snapshot is written"));
    let path = files.path(Height(3));
    let good = fs::read(&path).expect("a file");
    for at in [0, 9, 40, 45, 52, 59, 70, 94, good.len() - 1] {
        let mut bad = good.clone();
        bad[at] ^= 1;
        fs::write(&path, &bad).expect("the snapshot is written");
        assert_eq!(files.read_last().expect("the directory can be read"), Some(snapshot(2)), "byte {at}");
    }
    fs::write(&path, &good[..good.len() / 2]).expect("the snapshot is written");
    assert_eq!(files.read_last().expect("the directory can be read"), Some(snapshot(2)), "half of the file");
    fs::write(&path, &good).expect("the snapshot is written");
    assert_eq!(files.read_last().expect("the directory can be read"), Some(snapshot(3)));
    assert_eq!(scratch.files("cluster", 2).read_last().expect("the directory can be read"), None, "another replica's");
    assert_eq!(scratch.files("other", 1).read_last().expect("the directory can be read"), None, "another cluster's");
}

#[test]
fn a_snapshot_of_another_format_is_named_with_its_format_and_what_to_do() {
    let scratch = Scratch::new("formats");
    let files = scratch.files("cluster", 1);
    (1..=2).for_each(|height| files.write(&snapshot(height)).expect("the snapshot is written"));
    let path = files.path(Height(2));
    let good = fs::read(&path).expect("a file");
    // One damaged character does not make another format, as the rest of the file shows.
    for damage in [*b"qSnap002", *b"qSnap103"] {
        fs::write(&path, [&damage, &good[8..]].concat()).expect("the snapshot is written");
        assert_eq!(files.read_last().expect("the file is damaged"), Some(snapshot(1)));
    }
    // Formats 1 and 2 had other headers; a later version may have any.
    for (found, magic) in [(1, b"qSnap001"), (2, b"qSnap002"), (17, b"qSnap017")] {
        fs::write(&path, [magic, &good[20..]].concat()).expect("the snapshot is written");
        let error = files.read_last().expect_err("it is not skipped").to_string();
        let names = format!("{} has snapshot format {found}, this version reads format 3; help: ", path.display());
        assert!(error.starts_with(&names) && error.contains("move the file away"), "{error}");
    }
    fs::write(&path, b"qSn").expect("the snapshot is written");
    assert_eq!(files.read_last().expect("a short file is damaged"), Some(snapshot(1)));
}
