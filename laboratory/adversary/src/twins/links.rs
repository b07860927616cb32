//! Links between instances, depending on the view of a message.

use crate::twins::participants::{InstanceId, InstanceSet, Participants};
use quorate_types::View;

/// Highest view for which links can be cut.
pub const MAX_SCRIPTED_VIEW: u64 = 4096;

/// Directed links, by the view of a message. Links are open unless cut, and an instance always reaches itself.
#[derive(Clone, Debug)]
pub struct Links {
    everybody: InstanceSet,
    instances: usize,
    /// Instances reached by the messages of each view and each instance.
    reach: Vec<InstanceSet>,
}

impl Links {
    pub fn new(participants: &Participants) -> Links {
        Links { everybody: participants.everybody(), instances: participants.len(), reach: Vec::new() }
    }

    /// Opens all links again.
    pub fn clear(&mut self) {
        self.reach.clear();
    }

    /// Returns the instances reached by an instance's messages of a view.
    #[inline]
    pub fn reach(&self, view: View, from: InstanceId) -> InstanceSet {
        let at = (view.0 as usize).saturating_mul(self.instances).saturating_add(from.0);
        self.reach.get(at).copied().unwrap_or(self.everybody)
    }

    fn view(&mut self, view: u64) -> &mut [InstanceSet] {
        assert!(view <= MAX_SCRIPTED_VIEW, "links are scripted up to view {MAX_SCRIPTED_VIEW}, not in {view}");
        let (at, end) = (view as usize * self.instances, (view as usize + 1) * self.instances);
        if self.reach.len() < end {
            self.reach.resize(end, self.everybody);
        }
        &mut self.reach[at..end]
    }

    /// Restricts messages of a view to groups. An instance in no group is isolated.
    pub fn partition(&mut self, view: u64, groups: impl IntoIterator<Item = InstanceSet>) {
        let reach = self.view(view);
        for (instance, reached) in reach.iter_mut().enumerate() {
            *reached = 1 << instance;
        }
        for group in groups {
            for (instance, reached) in reach.iter_mut().enumerate() {
                if group >> instance & 1 == 1 {
                    *reached |= group;
                }
            }
        }
    }

    /// Opens the links from one group to another for a view.
    pub fn pass(&mut self, view: u64, from: InstanceSet, to: InstanceSet) {
        for (instance, reached) in self.view(view).iter_mut().enumerate() {
            if from >> instance & 1 == 1 {
                *reached |= to;
            }
        }
    }

    /// Describes the links of a view: the groups, if each instance reaches exactly its own group; otherwise the
    /// instances reached by each one.
    pub fn describe(&self, view: View, participants: &Participants) -> String {
        let reach = |instance: InstanceId| self.reach(view, instance) | 1 << instance.0;
        if participants.instances().all(|instance| reach(instance) == self.everybody) {
            return "all connected".into();
        }
        let alike = |instance: InstanceId| {
            participants.instances().all(|other| reach(instance) >> other.0 & 1 == 0 || reach(other) == reach(instance))
        };
        if participants.instances().all(alike) {
            let is_first = |instance: &InstanceId| reach(*instance).trailing_zeros() as usize == instance.0;
            let groups = participants
                .instances()
                .filter(is_first)
                .map(|instance| format!("{{{}}}", participants.names(reach(instance))));
            return groups.collect::<Vec<_>>().join(" ");
        }
        let lines = participants.instances().map(|instance| {
            let others = reach(instance) & !(1 << instance.0);
            let others = if others == 0 { "nobody".to_owned() } else { participants.names(others) };
            format!("{} reaches {others}", participants.name(instance))
        });
        lines.collect::<Vec<_>>().join(", ")
    }
}
