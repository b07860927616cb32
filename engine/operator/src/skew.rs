//! Differences between the versions that the replicas of a cluster run, as `quorate status` shows them: normal during
//! an upgrade, and a mistake afterwards.

use quorate_types::text::escaped;
use quorate_types::{LevelStatus, Status};
use std::collections::{BTreeMap, BTreeSet};

/// Returns the differences between the versions of the replicas with these statuses, as sentences.
pub fn of_versions(answered: &[&Status]) -> Vec<String> {
    programs(answered).into_iter().chain(wires(answered)).collect()
}

/// Describes the feature levels that are active, supported and pending; empty if no replica knows any but 0.
pub fn of_levels(answered: &[&Status]) -> Vec<String> {
    let levels = answered.iter().filter_map(|status| Some((status.replica.0, status.host.as_ref()?.level?)));
    let levels: Vec<(u16, LevelStatus)> = levels.collect();
    if levels.iter().all(|(_, level)| *level == LevelStatus::default()) {
        return Vec::new();
    }
    let group = |text: &dyn Fn(&LevelStatus) -> Option<String>| {
        let mut groups: BTreeMap<String, Vec<u16>> = BTreeMap::new();
        for (replica, level) in &levels {
            text(level).into_iter().for_each(|text| groups.entry(text).or_default().push(*replica));
        }
        groups.into_iter().map(|(text, on)| format!("{text} on {}", replicas_of(&on))).collect::<Vec<_>>().join(", ")
    };
    let active = group(&|level| Some(format!("{} is active", level.active)));
    let supported = group(&|level| Some(format!("{} is supported", level.supported)));
    let pending = group(&|level| Some(format!("{} is pending", level.pending?)));
    [active, supported, pending].into_iter().filter(|text| !text.is_empty()).collect()
}

/// Describes the programs, if they differ. A replica that does not answer has the version that it sent to the others.
fn programs(answered: &[&Status]) -> Option<String> {
    let mut programs: BTreeMap<u16, &str> = BTreeMap::new();
    for host in answered.iter().filter_map(|status| status.host.as_ref()) {
        let told = host.wire.links.iter().filter_map(|link| Some((link.peer.0, link.program.as_deref()?)));
        programs.extend(told);
    }
    let own = answered.iter().filter_map(|status| Some((status.replica.0, status.host.as_ref()?.version.as_str())));
    programs.extend(own);
    let mut by_version: BTreeMap<&str, Vec<u16>> = BTreeMap::new();
    programs.into_iter().for_each(|(replica, version)| by_version.entry(version).or_default().push(replica));
    let list = by_version.iter().map(|(version, on)| format!("{} on {}", escaped(version), replicas_of(on)));
    (by_version.len() > 1).then(|| format!("programs differ: {}", list.collect::<Vec<_>>().join(", ")))
}

/// Describes the wire versions, if a link uses a lower one than some replica would.
fn wires(answered: &[&Status]) -> Option<String> {
    let wires = answered.iter().filter_map(|status| Some((status.replica.0, &status.host.as_ref()?.wire)));
    let wires: Vec<_> = wires.filter(|(_, wire)| wire.newest > 0).collect();
    let newest = wires.iter().map(|(_, wire)| wire.newest).max()?;
    let mut slow: BTreeMap<u8, BTreeSet<(u16, u16)>> = BTreeMap::new();
    for (replica, wire) in wires {
        for link in wire.links.iter().filter(|link| link.version < newest) {
            let ends = (replica.min(link.peer.0), replica.max(link.peer.0));
            slow.entry(link.version).or_default().insert(ends);
        }
    }
    let spell =
        |ends: &BTreeSet<(u16, u16)>| ends.iter().map(|(a, b)| format!("{a}-{b}")).collect::<Vec<_>>().join(" ");
    let list: Vec<String> = slow.iter().map(|(version, ends)| format!("{version} on {}", spell(ends))).collect();
    (!list.is_empty()).then(|| format!("links use a wire version below {newest}: {}", list.join(", ")))
}

fn replicas_of(replicas: &[u16]) -> String {
    let list: Vec<String> = replicas.iter().map(ToString::to_string).collect();
    format!("{} {}", if list.len() == 1 { "replica" } else { "replicas" }, list.join(" "))
}
