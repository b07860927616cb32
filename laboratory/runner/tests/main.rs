//! All tests of this crate in one binary. Whole runs are tested with the binary, in `laboratory/cli/tests/lab.rs`.

mod artefact;
mod calls;
mod catalogue;
mod citable;
mod common;
mod compare;
mod documents;
mod experiments;
mod export;
mod figures;
mod instructions;
mod kubernetes;
mod page;
mod reproduction;
mod sharing;
mod store;
mod until;
