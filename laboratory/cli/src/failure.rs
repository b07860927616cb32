//! Exit statuses of the laboratory's errors; `quorate_operator::failure` has the statuses of the operators' commands.

use quorate_lab::bench::BenchError;
use quorate_lab::demo::DemoError;
use quorate_lab::peers::PeerError;
use quorate_lab::sim::SimError;
use quorate_lab::spec::SpecError;
use quorate_lab::torture::TortureError;
use quorate_lab::twins::TwinsError;
use quorate_lab::twins::museum::MuseumError;
use quorate_operator::failure::{self, Kind};
use quorate_runner::RunnerError;
use quorate_runner::page::PageError;
use quorate_types::Fault;
use std::error::Error;

pub fn kind(error: &(dyn Error + 'static)) -> Kind {
    let is_disk_trouble = error.downcast_ref().is_some_and(BenchError::is_disk_trouble)
        || error.downcast_ref().is_some_and(TortureError::is_disk_trouble)
        || error.downcast_ref().is_some_and(DemoError::is_disk_trouble);
    let is_wrong_call = error.is::<SpecError>()
        || error.is::<MuseumError>()
        || error.is::<Fault>()
        || matches!(error.downcast_ref(), Some(PeerError::Fault(_)))
        || error.downcast_ref().is_some_and(RunnerError::is_wrong_call)
        || error.downcast_ref().is_some_and(BenchError::is_wrong_call)
        || error.downcast_ref().is_some_and(PageError::is_wrong_call)
        || error.downcast_ref().is_some_and(SimError::is_wrong_call)
        || error.downcast_ref().is_some_and(TwinsError::is_wrong_call)
        || error.downcast_ref().is_some_and(TortureError::is_wrong_call)
        || error.downcast_ref().is_some_and(DemoError::is_wrong_call);
    match (is_disk_trouble, is_wrong_call) {
        (true, _) => Kind::DiskTrouble,
        (false, true) => Kind::WrongCall,
        (false, false) => failure::kind(error),
    }
}
