//! The only list of the protocols. Everything that exists once per protocol is generated from it, including tests.

/// Calls a macro with the list of protocols, after any tokens for the macro itself: `every_protocol!((path::of) given)`
/// expands to `path::of! { [given] chained { file: Rules, .. } others { name: Kind = make, .. } }`.
///
/// A chained protocol is listed by its file in `chained/rules` and its rules, which share their name with its
/// [`ProtocolKind`]. Any other protocol is listed with a function that creates its replica.
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
                basic_hotstuff: BasicHotStuff = $crate::protocols::basic::replica,
                pbft: Pbft = $crate::protocols::pbft::replica,
                pbft_mac: PbftMac = $crate::protocols::pbft::mac_replica,
            }
        }
    };
}

/// Calls a macro with a function name and the [`ProtocolKind`] of each protocol: `call! { name: Kind, .. }`.
#[macro_export]
macro_rules! each_protocol {
    ([$($call:tt)+] chained { $($file:ident: $rules:ident,)+ } others { $($name:ident: $kind:ident = $make:expr,)+ }) => {
        $($call)+! { $($file: $rules,)+ $($name: $kind,)+ }
    };
    ($($call:tt)+) => {
        $crate::every_protocol!(($crate::each_protocol) $($call)+);
    };
}

/// Runs work that is generic in the protocol: `dispatch!(kind, work)` expands to `work.run(make)` for that kind.
#[macro_export]
macro_rules! dispatch {
    ([$of:expr, $work:expr] chained { $($file:ident: $rules:ident,)+ } others { $($name:ident: $kind:ident = $make:expr,)+ }) => {
        match $of {
            $($crate::config::ProtocolKind::$rules => $work.run($crate::protocols::chained::make::$file),)+
            $($crate::config::ProtocolKind::$kind => $work.run($make),)+
        }
    };
    ($of:expr, $work:expr) => {
        $crate::every_protocol!(($crate::dispatch) $of, $work)
    };
}

macro_rules! kinds {
    ($($name:ident: $kind:ident,)+) => {
        /// A protocol that orders commands.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum ProtocolKind {
            $($kind),+
        }

        impl ProtocolKind {
            /// All protocols, in the order of the documentation.
            pub const ALL: &'static [ProtocolKind] = &[$(ProtocolKind::$kind),+];
        }

        quorate_types::named_choice!(ProtocolKind, "protocol");
    };
}
each_protocol!(kinds);
