//! Plays a script with any protocol's rules, which may be wrong.

use super::scene::{Ending, Play, Setting, play};
use crate::byzantine::malleable::{ForMalleable, Malleable};
use crate::twins::bugs::for_rules;
use crate::twins::world::World;
use quorate_consensus::Protocol;
use quorate_consensus::replica::MakeReplica;

/// A script that is generic over protocols.
pub(super) trait Script {
    fn perform<P: Protocol<Message: Malleable>>(self, world: &mut World<P>);
}

/// Plays a script with the protocol of the setting, and with the mutant's wrong rule if it has one.
pub(super) fn play_by_rules(how: &Play, setting: Setting, script: impl Script) -> Ending {
    struct Playing<'a, S>(&'a Play, Setting, S);
    impl<S: Script> ForMalleable for Playing<'_, S> {
        type Output = Ending;
        fn run<P: Protocol<Message: Malleable> + 'static>(self, make: MakeReplica<P>) -> Ending {
            play(self.0, self.1, make, |world| self.2.perform(world))
        }
    }
    for_rules(setting.config.protocol, how.mutant, Playing(how, setting, script))
}

/// Plays a script in a world of any protocol by [`play_by_rules`].
macro_rules! by_rules {
    ($how:expr, $setting:expr, |$world:ident| $script:block) => {{
        struct Scene;
        impl $crate::twins::museum::by_rules::Script for Scene {
            fn perform<P: quorate_consensus::Protocol<Message: crate::byzantine::Malleable>>(
                self,
                $world: &mut $crate::twins::world::World<P>,
            ) $script
        }
        $crate::twins::museum::by_rules::play_by_rules($how, $setting, Scene)
    }};
}
pub(super) use by_rules;
