//! Tests of the rules that all hosts share.

mod gate;
mod headroom;
mod replies;
mod states;
