//! The registry: the one place that lists the protocols. Everything that exists once per protocol is made from this list,
//! tests included.

/// Calls a macro with every protocol, after what it is to be given besides: `every_protocol!((path::of) given)` is
/// `path::of! { [given] chained { file: Rules, .. } others { name: Kind = make, .. } }`. A chained protocol is its file in `chained/rules`
/// and the name of its rules, which is that of its [`ProtocolKind`]; any other has a function that makes a replica.
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
            }
            others {
                basic_hotstuff: BasicHotStuff = $crate::basic::replica,
                pbft: Pbft = $crate::pbft::replica,
            }
        }
    };
}

/// Calls a macro with a name for a function and the [`ProtocolKind`] of every protocol: `call! { name: Kind, .. }`.
#[macro_export]
macro_rules! each_protocol {
    ([$($call:tt)+] chained { $($file:ident: $rules:ident,)+ } others { $($name:ident: $kind:ident = $make:expr,)+ }) => {
        $($call)+! { $($file: $rules,)+ $($name: $kind,)+ }
    };
    ($($call:tt)+) => {
        $crate::every_protocol!(($crate::each_protocol) $($call)+);
    };
}

/// Runs work that is generic in the protocol for the protocol of that kind: `dispatch!(kind, work)` is `work.run(make)`.
#[macro_export]
macro_rules! dispatch {
    ([$of:expr, $work:expr] chained { $($file:ident: $rules:ident,)+ } others { $($name:ident: $kind:ident = $make:expr,)+ }) => {
        match $of {
            $($crate::config::ProtocolKind::$rules => $work.run($crate::chained::replica::<$crate::chained::rules::$rules>),)+
            $($crate::config::ProtocolKind::$kind => $work.run($make),)+
        }
    };
    ($of:expr, $work:expr) => {
        $crate::every_protocol!(($crate::dispatch) $of, $work)
    };
}

macro_rules! kinds {
    ($($name:ident: $kind:ident,)+) => {
        /// Which protocol orders commands.
        #[allow(missing_docs)]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum ProtocolKind {
            $($kind),+
        }

        impl ProtocolKind {
            /// Every protocol, in the order of the documentation.
            pub const ALL: &'static [ProtocolKind] = &[$(ProtocolKind::$kind),+];
        }

        quorate_types::named_choice!(ProtocolKind, "protocol");
    };
}
each_protocol!(kinds);
