//! Visits of exhibits.

use super::{
    AbsentResult, ExhibitResult, FoundResult, HuntResult, MuseumArgs, MuseumError, MuseumResult, MutantResult,
    THREAD_NAME,
};
use crate::partial;
use crate::result::{Machine, version};
use quorate_adversary::twins::Violation;
use quorate_adversary::twins::museum::{ABSENT, Caught, EXHIBITS, Exhibit, UNSHOWN, Unshown};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// Interval at which a visit checks for signals.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Returns the exhibits with these names.
fn chosen(names: &[String]) -> Result<Vec<&'static Exhibit>, MuseumError> {
    let is = |exhibit: &Exhibit, name: &String| exhibit.name() == *name || exhibit.number.to_string() == *name;
    if let Some(name) = names.iter().find(|name| !EXHIBITS.iter().any(|exhibit| is(exhibit, name))) {
        if let Some(absent) = ABSENT.iter().find(|absent| absent.number.to_string() == *name) {
            return Err(MuseumError::Absent { number: absent.number, bug: absent.bug, why: absent.why });
        }
        let known: Vec<String> = EXHIBITS.iter().map(Exhibit::name).collect();
        return Err(MuseumError::Unknown { name: name.clone(), known: known.join(", ") });
    }
    let shown = |exhibit: &&Exhibit| names.is_empty() || names.iter().any(|name| is(exhibit, name));
    Ok(EXHIBITS.iter().filter(shown).collect())
}

/// Returns the transcripts of the exhibits' own scenarios.
///
/// # Errors
/// If there is no such exhibit.
pub fn transcripts(arguments: &MuseumArgs) -> Result<String, MuseumError> {
    let exhibits = chosen(&arguments.exhibit)?;
    let text = exhibits.iter().map(|exhibit| {
        // On a thread whose name marks panics as effects of the bug.
        let play = || exhibit.transcript(true);
        let ending = thread::scope(|scope| {
            let player = thread::Builder::new().name(THREAD_NAME.into()).spawn_scoped(scope, play);
            player.expect("the system has a thread to spare").join().expect("a panic of a replica is caught")
        });
        let seen = ending
            .violation
            .map_or_else(|| "nothing was found".into(), |Violation { property, what }| format!("{property}: {what}"));
        format!("{} {}\n\n{}\n{seen}\n", exhibit.name(), exhibit.bug, ending.transcript)
    });
    Ok(text.collect::<Vec<_>>().join("\n\n"))
}

/// Plays exhibits on many threads. Reports each finished one by name to `on_exhibit`.
///
/// # Errors
/// If there is no such exhibit. A missed bug is part of the result, not an error.
pub fn visit(arguments: &MuseumArgs, on_exhibit: &(dyn Fn(&str) + Sync)) -> Result<MuseumResult, MuseumError> {
    let exhibits = chosen(&arguments.exhibit)?;
    let cores = || thread::available_parallelism().map_or(1, |cores| cores.get());
    let threads = arguments.threads.unwrap_or_else(cores).min(exhibits.len());
    let (start, of) = (Instant::now(), exhibits.len());
    let (next, max_scenarios) = (Arc::new(AtomicUsize::new(0)), arguments.max_scenarios);
    let (sender, results) = mpsc::channel();
    for _ in 0..threads {
        let (next, sender, exhibits) = (next.clone(), sender.clone(), exhibits.clone());
        // Not joined: an exhibit may take long, but a signal must end the visit immediately.
        let work = move || {
            while let Some(exhibit) = exhibits.get(next.fetch_add(1, Ordering::Relaxed)) {
                let start = Instant::now();
                let caught = exhibit.visit(max_scenarios);
                let result = ExhibitResult::of(exhibit, &caught, start.elapsed().as_secs_f64());
                if sender.send(((exhibit.number, exhibit.name()), result)).is_err() {
                    return;
                }
            }
        };
        let worker = thread::Builder::new().name(THREAD_NAME.into()).spawn(work);
        worker.expect("the system has a thread to spare");
    }
    drop(sender);
    let mut done = Vec::with_capacity(of);
    while done.len() < of && partial::goes_on() {
        match results.recv_timeout(LOOK_INTERVAL) {
            Ok(result) => {
                on_exhibit(&result.1.exhibit);
                done.push(result);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => panic!("an exhibit's thread ended early"),
        }
    }
    done.sort_by(|(one, _), (other, _)| one.cmp(other));
    let exhibits: Vec<ExhibitResult> = done.into_iter().map(|(_, result)| result).collect();
    let having =
        |wrong: fn(&HuntResult) -> bool| exhibits.iter().filter(|one| one.found_by.iter().any(wrong)).count() as u64;
    Ok(MuseumResult {
        shown: exhibits.len() as u64,
        partial: partial::partial(|| format!("after {} of {of} exhibits", exhibits.len()))
            .filter(|_| exhibits.len() < of),
        missed: having(|hunt| hunt.found.is_none()),
        unsound: having(|hunt| hunt.without_bug.is_some()),
        absent: ABSENT
            .iter()
            .map(|absent| AbsentResult {
                number: absent.number,
                bug: absent.bug.to_owned(),
                why: absent.why.to_owned(),
            })
            .collect(),
        mutants: UNSHOWN.iter().map(MutantResult::of).collect(),
        exhibits,
        wall_seconds: start.elapsed().as_secs_f64(),
        threads,
        machine: Machine::here(),
        version: version(),
    })
}

impl MutantResult {
    fn of(unshown: &Unshown) -> MutantResult {
        MutantResult {
            number: unshown.number,
            bug: unshown.bug.to_owned(),
            mutant: unshown.mutant.map(|mutant| mutant.to_string()),
            shown_by: unshown.shown_by.map(str::to_owned),
            found_by: unshown.found_by.map(str::to_owned),
            property: unshown.property.map(|property| property.name().to_owned()),
        }
    }
}

impl ExhibitResult {
    fn of(exhibit: &Exhibit, caught: &[Caught], seconds: f64) -> ExhibitResult {
        let found = |(scenarios, violation): &(u64, Violation)| FoundResult {
            scenarios: *scenarios,
            property: violation.property.name().to_owned(),
            what: violation.what.clone(),
        };
        let hunt = |caught: &Caught| HuntResult {
            hunt: caught.hunt.to_owned(),
            budget: caught.budget,
            found: caught.found.as_ref().map(found),
            without_bug: caught.sound.as_ref().map(found),
        };
        ExhibitResult {
            exhibit: exhibit.name(),
            bug: exhibit.bug.to_owned(),
            source: exhibit.source.to_owned(),
            mutant: exhibit.mutant.map(|mutant| mutant.to_string()),
            protocol: exhibit.protocol,
            passed: caught.iter().all(Caught::passed),
            found_by: caught.iter().map(hunt).collect(),
            seconds,
        }
    }
}
