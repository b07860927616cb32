//! A whole cluster in virtual time: replicas, their devices, the network between them, and the oracles that judge what they do.
//!
//! Everything is a function of the seed. Two runs of one test are the same to the last event.

// Each test binary uses the part of the harness that it needs.
#![allow(dead_code)]

pub mod keys;
pub mod network;
pub mod oracle;
pub mod play;
pub mod random;
pub mod story;
pub mod told_pbft;
mod told_views;
pub mod world;

use play::Play;
use quorate_consensus::Config;

/// The default settings of a protocol.
pub fn config<P: Play>() -> Config {
    Config { protocol: P::NAME.parse().expect("every play is a protocol"), ..Config::default() }
}

/// One test for each protocol with views out of one generic function.
#[macro_export]
macro_rules! for_every_protocol {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        mod $name {
            quorate_consensus::every_protocol!(($crate::for_every_family) $name);
        }
    )+};
}

/// The tests of one generic function, named like the files of the protocols.
#[macro_export]
macro_rules! for_every_family {
    ([$name:ident] chained { $($file:ident: $rules:ident,)+ } others { $($others:tt)+ }) => {
        $(#[test]
        fn $file() {
            use quorate_consensus::chained::{engine::Chained, rules::$rules};
            super::bodies::$name::<Chained<$rules>>();
        })+

        #[test]
        fn basic_hotstuff() {
            super::bodies::$name::<quorate_consensus::basic::BasicHotStuff>();
        }
    };
}
