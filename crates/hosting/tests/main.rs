//! What every host of a replica relies on.

mod gate;
mod replies;
mod states;
