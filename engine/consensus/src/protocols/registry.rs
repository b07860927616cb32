//! The only list of protocols. Everything that exists once per protocol is generated from it, including tests.

/// Calls a macro with the list of protocols, after any tokens for the macro itself: `every_protocol!((path::of) given)`
/// expands to `path::of! { [given] chained { file: Rules, .. } others { name: Kind = engine, .. } }`.
///
/// A chained protocol is listed by its file in `chained/rules` and its rules, which have the same name as its
/// [`ProtocolKind`](crate::facts::ProtocolKind). Any other protocol is listed with its engine.
#[macro_export]
macro_rules! every_protocol {
    (($($call:tt)+) $($given:tt)*) => {
        $($call)+! { [$($given)*]
            chained {
                chained_hotstuff: ChainedHotStuff,
                simple_hotstuff: SimpleHotStuff,
                fast_hotstuff: FastHotStuff,
                jolteon: Jolteon,
                hotstuff_2: HotStuff2,
                simple_moonshot: SimpleMoonshot,
            }
            others {
                basic_hotstuff: BasicHotStuff = $crate::protocols::basic::BasicEngine,
                pbft: Pbft = $crate::protocols::pbft::engine::PbftEngine,
                pbft_mac: PbftMac = $crate::protocols::pbft::engine::PbftMacEngine,
            }
        }
    };
}

/// Calls a macro with the list of all protocols, as [`every_protocol!`](crate::every_protocol) does. With the feature
/// `laboratory`, it has those too that are for measurements only, under which replicas do not agree.
#[macro_export]
macro_rules! every_kind {
    (($($call:tt)+) $($given:tt)*) => {
        $crate::every_protocol! { ($crate::with_measured) [$($call)+] $($given)* }
    };
}

/// Adds the protocols for measurements to the list.
#[doc(hidden)]
#[cfg(feature = "laboratory")]
#[macro_export]
macro_rules! with_measured {
    ([[$($call:tt)+] $($given:tt)*] chained { $($chained:tt)* } others { $($others:tt)* }) => {
        $($call)+! { [$($given)*] chained { $($chained)* } others {
            $($others)*
            pbft_phases: PbftPhases = $crate::protocols::pbft::phases::PhasesEngine,
        } }
    };
}

/// Passes the list on: this program has no protocols for measurements.
#[doc(hidden)]
#[cfg(not(feature = "laboratory"))]
#[macro_export]
macro_rules! with_measured {
    ([[$($call:tt)+] $($given:tt)*] $($listed:tt)*) => {
        $($call)+! { [$($given)*] $($listed)* }
    };
}

/// Calls a macro with a function name and the [`ProtocolKind`] of each protocol: `call! { name: Kind, .. }`.
#[macro_export]
macro_rules! each_protocol {
    (
        [$($call:tt)+]
        chained { $($file:ident: $rules:ident,)+ }
        others { $($name:ident: $kind:ident = $engine:ty,)+ }
    ) => {
        $($call)+! { $($file: $rules,)+ $($name: $kind,)+ }
    };
    ($($call:tt)+) => {
        $crate::every_protocol!(($crate::each_protocol) $($call)+);
    };
}

/// Calls a generic function for a protocol: `dispatch!(kind, work)` expands to `work.run(make)` for that kind.
#[macro_export]
macro_rules! dispatch {
    (
        [$of:expr, $work:expr]
        chained { $($file:ident: $rules:ident,)+ }
        others { $($name:ident: $kind:ident = $engine:ty,)+ }
    ) => {
        match $of {
            $($crate::facts::ProtocolKind::$rules => $work.run($crate::replica::make::$file),)+
            $($crate::facts::ProtocolKind::$kind => $work.run($crate::replica::make::$name),)+
        }
    };
    ($of:expr, $work:expr) => {
        $crate::every_kind! { ($crate::dispatch) $of, $work }
    };
}
