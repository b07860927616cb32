//! All tests of this crate in one binary, which is linked once.

mod common;
mod damage;
mod replay;
mod requests;
