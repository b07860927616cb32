//! Cells of the instrument `real` that run another system instead of quorate: `quorate peer run`.

use crate::flags::{self, Flags};
use clap::{Args, Command, FromArgMatches};
use quorate_lab::experiments::{Cell, Plan};
use quorate_lab::figures::vocabulary;
use quorate_lab::peers::{PeerLoad, Recipe, revision};
use quorate_types::Fault;
use std::path::Path;

/// Key that names another system.
pub(crate) const SYSTEM: &str = "system";
/// Value of that key for quorate itself.
const QUORATE: &str = "quorate";

const PEER: Flags = Flags { command: flags_of_peer, help: "see `quorate peer run --help`" };

fn flags_of_peer() -> Command {
    let flags = PeerLoad::augment_args(Command::new("peer").no_binary_name(true));
    // Each key is checked alone, too.
    flags.mut_arg(SYSTEM, |system| system.required(false))
}

/// A call of `quorate peer run`.
#[derive(Clone, Debug)]
pub struct Peer(pub PeerLoad);

impl Peer {
    /// Returns the call for a cell, checked like the flags of the command; `None` for a cell of quorate.
    ///
    /// # Errors
    /// The place in the experiment file, the problem and the remedy.
    pub(crate) fn of(plan: &Plan, cell: &Cell) -> Result<Option<Peer>, Fault> {
        if cell.specification.get(SYSTEM).is_none_or(|system| system.as_str() == Some(QUORATE)) {
            return Ok(None);
        }
        // Other keys describe quorate.
        let known = flags::keys_of(&flags_of_peer());
        let mut table = cell.specification.clone();
        table.retain(|key, _| known.iter().any(|own| own == key));
        let (_, parsed) = PEER.words_of(plan, cell, &table)?;
        let wrong = |error| PEER.refused(&plan.experiment.file, &error);
        let load = PeerLoad::from_arg_matches(&parsed).map_err(wrong)?;
        let place = |key: &str| plan.experiment.place_of(plan.profile, cell.instrument, key);
        let recipe = Recipe::named(&load.system, &vocabulary()).map_err(|fault| fault.at(|_| place(SYSTEM)))?;
        let fit = load.fit(&recipe);
        fit.map_err(|fault| fault.at(|at| format!("{}: {}: {at}", plan.experiment.file, cell.title())))?;
        Ok(Some(Peer(load)))
    }

    /// Returns the arguments after `quorate`.
    pub(crate) fn arguments(&self) -> Vec<String> {
        [vec!["peer".to_owned(), "run".to_owned()], self.0.arguments()].concat()
    }

    /// Returns the reason why this machine cannot run the call; `None` if it can.
    pub(crate) fn obstacle(&self) -> Option<String> {
        revision(&self.0, &self.0.source(None)).err().map(|fault| fault.to_string())
    }

    /// Returns the file of the recipe; `None` for a recipe of the repository.
    pub(crate) fn recipe(&self) -> Option<&Path> {
        self.0.is_file().then(|| Path::new(&self.0.system))
    }

    /// Describes the program that is measured.
    pub(crate) fn build(&self) -> String {
        let revision = revision(&self.0, &self.0.source(None));
        format!("{} {}", self.0.name(), revision.unwrap_or_default())
    }
}

/// Returns the keys that choose and load another system, besides the keys of `bench`.
pub(crate) fn keys() -> Vec<String> {
    let mut keys = flags::keys_of(&flags_of_peer());
    keys.retain(|key| key == SYSTEM);
    keys
}
