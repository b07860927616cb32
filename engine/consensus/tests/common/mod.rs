//! A whole cluster in virtual time: replicas, their devices, the network, and the oracles that check them.
//!
//! Everything is a function of the seed: two runs of one test are identical down to the last event.

// Each test uses only a part of the harness.
#![allow(dead_code)]

pub mod by_age;
pub mod keys;
#[cfg(feature = "mutants")]
pub mod mutant;
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
use quorate_consensus::config::ViewDuration;

/// Returns the default settings of a protocol, but with view timeouts that are known in advance.
pub fn config<P: Play>() -> Config {
    let protocol = P::NAME.parse().expect("the name is a protocol's");
    Config { protocol, view_duration: ViewDuration::Exponential, ..Config::default() }
}

/// Expands a generic function into one test for each protocol with views.
#[macro_export]
macro_rules! for_every_protocol {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        mod $name {
            quorate_consensus::every_protocol!(($crate::for_every_family) $name);
        }
    )+};
}

/// Expands generic functions of the neighboring module `bodies` into one test per protocol.
#[macro_export]
macro_rules! for_all_protocols {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        $crate::for_every_protocol! { $($(#[$doc])* $name),+ }
        mod pbft {
            $($(#[$doc])* #[test] fn $name() { super::bodies::$name::<$crate::common::told_pbft::Pbft>(); })+
        }
        mod pbft_mac {
            $($(#[$doc])* #[test] fn $name() { super::bodies::$name::<$crate::common::told_pbft::PbftMac>(); })+
        }
    };
}

/// Names the tests of one generic function after the files of the protocols.
#[macro_export]
macro_rules! for_every_family {
    ([$name:ident] chained { $($file:ident: $rules:ident,)+ } others { $($others:tt)+ }) => {
        $(#[test]
        fn $file() {
            use quorate_consensus::protocols::chained::{engine::Chained, rules::$rules};
            super::bodies::$name::<Chained<$rules>>();
        })+

        #[test]
        fn basic_hotstuff() {
            super::bodies::$name::<quorate_consensus::protocols::basic::BasicHotStuff>();
        }
    };
}
