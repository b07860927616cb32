//! Tests of the code shared by all hosts.

mod desk;
mod gate;
mod headroom;
mod replies;
mod states;
mod wall_clock;
