//! The tests of this crate in one binary, so that shared code is compiled and linked once.

mod answers_to_hosts;
mod chaos;
mod common;
mod golden;
mod golden_files;
mod golden_prose;
mod pbft;
mod properties;
mod questions;
mod restart;
mod scenarios;
mod transfer;
mod unit_batching;
mod unit_checkpoints;
mod unit_config;
mod unit_leader;
mod unit_pacemaker;
mod unit_pool;
mod unit_rules;
mod unit_safety;
mod unit_store;
mod unit_support;
mod unit_tally;
mod unit_transfer;
mod unit_trees;
