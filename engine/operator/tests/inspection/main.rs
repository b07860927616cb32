//! All tests of this crate in one binary, so that shared code is compiled and linked once.

mod genesis;
mod hostile_exports;
mod inspect;
mod remains;
mod schemes;
mod stranger;
mod taken_over;
mod voids;
