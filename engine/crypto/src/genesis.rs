//! Diagnosis of clusters with different ids.

use crate::profile::AuthProfile;
use crate::scheme::SchemeKind;
use quorate_types::genesis::Candidates;
use quorate_types::{Choice, Difference, EpochId, Genesis};

/// Determines the configuration keys in which another genesis differs from one with the configured `mac_scheme`. Empty
/// if the known names of `protocols`, schemes and profiles do not explain the difference.
pub fn genesis_differences(
    genesis: &Genesis<'_>,
    mac_scheme: SchemeKind,
    protocols: &[&str],
    other: &EpochId,
) -> Vec<Difference> {
    let macs = SchemeKind::ALL.iter().filter(|kind| !kind.profile().has_public_keys_only()).map(|kind| kind.name());
    let macs: Vec<&str> = macs.collect();
    let with_macs = |profile: &AuthProfile| -> Vec<(&str, Option<&str>)> {
        match profile.votes_by_mac() {
            true => macs.iter().map(|mac| (profile.name(), Some(*mac))).collect(),
            false => vec![(profile.name(), None)],
        }
    };
    let profiles: Vec<(&str, Option<&str>)> = AuthProfile::ALL.iter().flat_map(with_macs).collect();
    let (schemes, mac_scheme) = (SchemeKind::names(), mac_scheme.name());
    genesis.differences(other, &Candidates { protocols, schemes: &schemes, profiles: &profiles, mac_scheme })
}
