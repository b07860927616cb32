//! Tests of the rules that all hosts share.

mod gate;
mod replies;
mod states;
