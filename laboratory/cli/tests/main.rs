//! All tests of this crate in one binary, so that shared code is compiled and linked once.

#[cfg(target_os = "linux")]
mod alerts;
mod architecture;
mod calls;
mod circles;
mod client_commands;
mod command_line;
mod common;
mod cuts;
#[cfg(target_os = "linux")]
mod deployed;
#[cfg(target_os = "linux")]
mod deployed_over_ssh;
mod disk_trouble;
mod documentation;
#[cfg(target_os = "linux")]
mod emulated;
#[cfg(target_os = "linux")]
mod files;
mod flame;
#[cfg(target_os = "linux")]
mod handbook;
mod inspect;
mod lab;
mod loads;
mod model;
mod notebook;
#[cfg(target_os = "linux")]
mod offspring;
mod operators;
mod peer;
mod plan;
mod processes;
mod readme;
mod replay;
mod results;
mod sharing;
mod signals;
mod site;
#[cfg(target_os = "linux")]
mod slurm;
#[cfg(target_os = "linux")]
mod sweeps;
mod tags;
mod twins;
mod versus;
