//! Links between actors, by the view of a message.

use crate::cast::{ActorId, ActorSet, Cast};
use quorate_types::View;

/// Highest view for which links can be cut.
pub const MAX_SCRIPTED_VIEW: u64 = 4096;

/// Directed links by the view of a message. Links are open unless cut, and an actor always reaches itself.
#[derive(Clone, Debug)]
pub struct Links {
    everybody: ActorSet,
    actors: usize,
    /// Actors reached by the messages of each view and each actor.
    reach: Vec<ActorSet>,
}

impl Links {
    pub fn new(cast: &Cast) -> Links {
        Links { everybody: cast.everybody(), actors: cast.len(), reach: Vec::new() }
    }

    /// Opens all links again.
    pub fn clear(&mut self) {
        self.reach.clear();
    }

    /// Returns the actors that an actor's messages of a view reach.
    #[inline]
    pub fn reach(&self, view: View, from: ActorId) -> ActorSet {
        let at = (view.0 as usize).saturating_mul(self.actors).saturating_add(from.0);
        self.reach.get(at).copied().unwrap_or(self.everybody)
    }

    fn view(&mut self, view: u64) -> &mut [ActorSet] {
        assert!(view <= MAX_SCRIPTED_VIEW, "links are scripted up to view {MAX_SCRIPTED_VIEW}, not in {view}");
        let (at, end) = (view as usize * self.actors, (view as usize + 1) * self.actors);
        if self.reach.len() < end {
            self.reach.resize(end, self.everybody);
        }
        &mut self.reach[at..end]
    }

    /// Restricts messages of a view to groups. An actor in no group is isolated.
    pub fn partition(&mut self, view: u64, groups: impl IntoIterator<Item = ActorSet>) {
        let reach = self.view(view);
        for (actor, reached) in reach.iter_mut().enumerate() {
            *reached = 1 << actor;
        }
        for group in groups {
            for (actor, reached) in reach.iter_mut().enumerate() {
                if group >> actor & 1 == 1 {
                    *reached |= group;
                }
            }
        }
    }

    /// Opens the links from one group to another in a view.
    pub fn pass(&mut self, view: u64, from: ActorSet, to: ActorSet) {
        for (actor, reached) in self.view(view).iter_mut().enumerate() {
            if from >> actor & 1 == 1 {
                *reached |= to;
            }
        }
    }

    /// Describes the links of a view: the groups, if each actor reaches exactly its own group; otherwise the actors
    /// that each one reaches.
    pub fn describe(&self, view: View, cast: &Cast) -> String {
        let reach = |actor: ActorId| self.reach(view, actor) | 1 << actor.0;
        if cast.actors().all(|actor| reach(actor) == self.everybody) {
            return "all connected".into();
        }
        let alike = |actor: ActorId| {
            cast.actors().all(|other| reach(actor) >> other.0 & 1 == 0 || reach(other) == reach(actor))
        };
        if cast.actors().all(alike) {
            let is_first = |actor: &ActorId| reach(*actor).trailing_zeros() as usize == actor.0;
            let groups = cast.actors().filter(is_first).map(|actor| format!("{{{}}}", cast.names(reach(actor))));
            return groups.collect::<Vec<_>>().join(" ");
        }
        let lines = cast.actors().map(|actor| {
            let others = reach(actor) & !(1 << actor.0);
            let others = if others == 0 { "nobody".to_owned() } else { cast.names(others) };
            format!("{} reaches {others}", cast.name(actor))
        });
        lines.collect::<Vec<_>>().join(", ")
    }
}
