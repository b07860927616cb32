//! All tests of the oracles as one binary.

mod backing;
mod chain;
mod fixture;
mod levels;
mod order;
mod times;
mod work;
