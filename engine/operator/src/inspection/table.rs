//! Formats an inspection for a terminal.

use super::Fault;
use super::{InspectResult, JournalResult, Memory, Said, Verification};
use crate::report::Report;
use quorate_types::text::{count, escaped};
use std::fmt::{self, Write};

impl Report for InspectResult {
    fn to_table(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write(&mut text);
        text
    }

    /// Returns the problem found, or `None` if every check that ran passed.
    fn failure(&self) -> Option<String> {
        let whole = self.journal.damage.clone().or(self.journal.unreadable.as_ref().map(Fault::to_string));
        let unsound = self.verification.as_ref().filter(|verification| !verification.sound);
        whole.or_else(|| unsound.map(Verification::verdict))
    }
}

impl InspectResult {
    fn write(&self, text: &mut String) -> fmt::Result {
        writeln!(text, "directory     {}", escaped(&self.directory))?;
        let (replica, n, f) = (self.replica, self.replicas, self.faults);
        writeln!(text, "replica       {replica} of {n}, tolerating {f} faulty")?;
        writeln!(text, "cluster       {} ({})", escaped(&self.cluster), self.genesis_id)?;
        writeln!(
            text,
            "protocol      {}, signatures {}, application {}",
            self.protocol, self.scheme, self.application
        )?;
        writeln!(text, "memory        {}", self.memory())?;
        writeln!(text, "spoke in      view {}", count(self.spoke_in_view))?;
        for (at, said) in self.promises.iter().enumerate() {
            writeln!(text, "{}{said}", if at == 0 { "promised      " } else { "              " })?;
        }
        write_said(text, "locked on     ", self.lock.as_ref(), "nothing")?;
        write_said(text, "certificate   ", self.highest_certificate.as_ref(), "only genesis")?;
        writeln!(text, "committed     height {}  {}", count(self.committed_height), self.committed_digest)?;
        self.journal.write(text)?;
        for snapshot in &self.snapshots {
            let height = snapshot.height.map_or("unfinished".to_owned(), |height| format!("height {}", count(height)));
            writeln!(text, "snapshot      {height}, {} bytes, {}", count(snapshot.bytes), snapshot.file)?;
        }
        if let Some(repair) = &self.repair {
            let done = if repair.damage.is_some() { "truncated, and the rest saved" } else { "nothing to repair" };
            writeln!(text, "repair        {done}")?;
            repair.saved.iter().try_for_each(|file| writeln!(text, "              {file}"))?;
        }
        if let Some(verification) = &self.verification {
            verification.write(text)?;
        }
        if let Some(export) = &self.export {
            let (blocks, bytes, proven) = (count(export.blocks), count(export.bytes), count(export.proven_height));
            writeln!(
                text,
                "export        {blocks} blocks, proven up to height {proven}, {bytes} bytes, {}",
                export.file
            )?;
        }
        Ok(())
    }

    fn memory(&self) -> String {
        match (self.memory, self.abstains_up_to) {
            (Memory::New, _) => "new: the replica has never run".to_owned(),
            (Memory::Kept, _) => "kept: every promise of the replica".to_owned(),
            (Memory::Lost, None) => {
                "lost: the journal is gone or truncated; after a start the replica asks the others up to which view \
                 it may have signed"
                    .to_owned()
            }
            (Memory::Lost, Some(u64::MAX)) => {
                "lost: the replica abstains until it knows up to which view it may have signed".to_owned()
            }
            (Memory::Lost, Some(bound)) => {
                format!("lost: the replica abstains up to view {}, where it may have voted", count(bound))
            }
        }
    }
}

impl JournalResult {
    fn write(&self, text: &mut String) -> fmt::Result {
        writeln!(text, "journal       {}, {} records", self.directory, count(self.records))?;
        if let Some(process) = self.held_by_process {
            writeln!(
                text,
                "              process {process} is writing to it; this is a snapshot, and more may have followed"
            )?;
        }
        for kind in &self.kinds {
            writeln!(text, "  {:<12}{:>14} records{:>16} bytes", kind.kind, count(kind.records), count(kind.bytes))?;
        }
        for segment in &self.segments {
            let (used, bytes, records) = (count(segment.used_bytes), count(segment.bytes), count(segment.records));
            writeln!(text, "segment       {}: {used} of {bytes} bytes in use, {records} records", segment.file)?;
        }
        if let Some(torn) = &self.torn {
            let what = match self.held_by_process {
                Some(_) => "a write is in progress",
                None => {
                    "the remains of an interrupted write; nothing ever relied on them, and the next start removes them"
                }
            };
            writeln!(
                text,
                "tail          {what}: {} bytes at byte {} of {}",
                count(torn.bytes),
                torn.offset,
                torn.file
            )?;
        }
        if let Some(damage) = &self.damage {
            writeln!(text, "damage        {damage}")?;
        }
        self.unreadable.as_ref().map_or(Ok(()), |fault| writeln!(text, "unreadable    {fault}"))
    }
}

impl Verification {
    fn write(&self, text: &mut String) -> fmt::Result {
        let [blocks, bundles, certificates] = [self.blocks, self.bundles, self.certificates].map(count);
        writeln!(
            text,
            "checked       {blocks} blocks with {bundles} bundles, {certificates} certificates, {} promises",
            count(self.promises)
        )?;
        let [from, committed, proven] = [self.from_height, self.committed_height, self.proven_height].map(count);
        writeln!(text, "              committed from above height {from} up to {committed}, proven up to {proven}")?;
        if let Some(executed) = self.executed_height {
            writeln!(
                text,
                "              executed again up to height {}: {} states match a quorum's",
                count(executed),
                count(self.states)
            )?;
        }
        self.notes.iter().try_for_each(|note| writeln!(text, "note          {note}"))?;
        self.faults.iter().try_for_each(|fault| writeln!(text, "fault         {fault}"))?;
        let verdict = if self.sound { "sound" } else { "NOT sound" };
        writeln!(text, "verdict       {verdict}")
    }
}

fn write_said(text: &mut String, label: &str, said: Option<&Said>, none: &str) -> fmt::Result {
    match said {
        Some(said) => writeln!(text, "{label}{said}"),
        None => writeln!(text, "{label}{none}"),
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Said { kind, view, height, digest } = self;
        write!(f, "{kind:<11} view {:<9} height {:<9} {digest}", count(*view), count(*height))
    }
}
