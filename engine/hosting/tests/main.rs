//! Tests of the rules that all hosts share.

mod desk;
mod gate;
mod headroom;
mod replies;
mod states;
