//! Several processes share a directory of results.

use crate::common::Scratch;
use quorate_runner::backend::Backend;
use quorate_runner::{Store, slurm};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

fn created(scratch: &Scratch) -> Store {
    let store = Store::at(&scratch.0);
    store.create().expect("it can be written");
    store
}

#[test]
fn one_process_runs_a_repetition() {
    let scratch = Scratch::new("claims");
    let store = created(&scratch);
    let claim = store.claim("k", 0).expect("it can be locked").expect("nobody has claimed it");
    assert!(store.claim("k", 0).expect("it can be looked at").is_none(), "it is claimed");
    assert!(store.claim("k", 1).expect("it can be locked").is_some(), "another repetition is free");
    drop(claim);
    assert!(store.claim("k", 0).expect("it can be locked").is_some(), "the claim has ended");
    let left: Vec<_> = fs::read_dir(scratch.0.join("cells")).expect("it is there").collect();
    assert_eq!(left.len(), 0, "ended claims leave no files");
}

/// The file of a claim is removed while others open it.
#[test]
fn claims_exclude_each_other_although_their_files_come_and_go() {
    const THREADS: usize = 4;
    const CLAIMS: usize = 500;
    let scratch = Scratch::new("claims-race");
    let store = created(&scratch);
    let (holders, claims) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while claims.load(Ordering::SeqCst) < CLAIMS {
                    let Some(claim) = store.claim("k", 0).expect("it can be locked") else { continue };
                    assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0, "two threads hold the claim");
                    thread::yield_now();
                    holders.fetch_sub(1, Ordering::SeqCst);
                    claims.fetch_add(1, Ordering::SeqCst);
                    drop(claim);
                }
            });
        }
    });
}

#[test]
fn a_measured_run_has_the_machine_alone() {
    let scratch = Scratch::new("machine");
    let store = created(&scratch);
    let share = |whole| store.share_of_machine(whole).expect("it can be locked");
    let simulations = (share(false).expect("it is free"), share(false).expect("simulations run side by side"));
    assert!(share(true).is_none(), "simulations would disturb it");
    drop(simulations);
    let measured = share(true).expect("it is free");
    assert!(share(false).is_none() && share(true).is_none(), "others would disturb it");
    drop(measured);
    assert!(share(false).is_some());
}

#[test]
fn a_shared_directory_admits_others_that_share_it() {
    let scratch = Scratch::new("shared");
    let store = created(&scratch);
    let shared = (store.lock(true).expect("it is free"), store.lock(true).expect("others may share it"));
    assert!(store.lock(false).is_err(), "a run that wants it alone has to wait");
    drop(shared);
    let _alone = store.lock(false).expect("it is free");
    assert!(store.lock(true).is_err(), "it is not shared");
}

#[test]
fn places_are_read_or_refused_with_their_forms() {
    for (text, place) in [
        ("local:3", Backend::Local { slots: 3 }),
        ("shared:1", Backend::Shared { slots: 1 }),
        ("ssh:my/hosts.toml", Backend::Ssh { hosts: "my/hosts.toml".into() }),
        ("slurm:40", Backend::Slurm { jobs: 40 }),
        ("kubernetes:4", Backend::Kubernetes { pods: 4 }),
    ] {
        assert_eq!(text.parse::<Backend>().expect("it is a place"), place);
    }
    assert_eq!("local".parse::<Backend>().expect("it is a place"), Backend::default());
    for wrong in ["", "slurm", "local:0", "local:10001", "shared:", "shared:x", "ssh:3", "slurm:-1", "kubernetes"] {
        let error = wrong.parse::<Backend>().expect_err("it is no place").to_string();
        assert!(error.contains(&format!("`{wrong}`")) && error.contains("slurm:N"), "{error}");
    }
}

#[test]
fn a_script_for_slurm_has_an_array_of_jobs_that_share_the_directory() {
    let scratch = Scratch::new("slurm");
    let words =
        ["lab", "run", "my file.toml", "--on", "slurm:7", "--profile=full", "--dir", "results"].map(str::to_owned);
    let path = slurm::script(Path::new("/opt/quorate"), &words, &scratch.0, 7).expect("it can be written");
    let script = fs::read_to_string(path).expect("it is there");
    assert!(script.contains("\n#SBATCH --array=1-7\n"), "{script}");
    let command = "exec /opt/quorate lab run 'my file.toml' --on shared --profile=full --dir results\n";
    assert!(script.ends_with(command), "{script}");
    assert!(scratch.0.join("jobs").is_dir(), "Slurm does not create the directory of its logs");
    let joined = ["lab", "run", "--on=slurm:7"].map(str::to_owned);
    let path = slurm::script(Path::new("/opt/quorate"), &joined, &scratch.0, 7).expect("it can be written");
    assert!(fs::read_to_string(path).expect("it is there").ends_with("lab run --on=shared\n"));
}
