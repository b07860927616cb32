//! Reads and writes of commands, which determine the commands that can be prepared concurrently.

use std::any::Any;
use std::collections::BTreeSet;
use std::ops::Bound;

/// Part of an application's state that a command touches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Touched<'a> {
    Nothing,
    Key(&'a [u8]),
    Keys(Vec<&'a [u8]>),
    /// Keys from `from` (inclusive) to `to` (exclusive), or to the end.
    Range {
        from: &'a [u8],
        to: Option<&'a [u8]>,
    },
    Everything,
}

/// Parts of the state that a command may read and write. It may name more than the command touches, but never less:
/// otherwise results would depend on threads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Footprint<'a> {
    pub reads: Touched<'a>,
    pub writes: Touched<'a>,
    /// Estimate of the time to prepare the command, in nanoseconds. It decides whether other threads are worth their
    /// cost, and does not affect results.
    pub effort_ns: u64,
}

impl Footprint<'_> {
    /// Returns the footprint of a command about which nothing is known.
    pub fn everything() -> Footprint<'static> {
        Footprint { reads: Touched::Everything, writes: Touched::Everything, effort_ns: 0 }
    }
}

/// Changes to the state, in the application's own representation.
pub type Changes = Box<dyn Any + Send>;

/// The remaining work of a command whose result is known.
pub enum Rest {
    Nothing,
    /// Changes to write.
    Write(Changes),
}

/// All writes of the commands of a wave.
#[derive(Default)]
pub(crate) struct Written<'a> {
    keys: BTreeSet<&'a [u8]>,
    ranges: Vec<(&'a [u8], Option<&'a [u8]>)>,
    everything: bool,
}

impl<'a> Written<'a> {
    pub fn add(&mut self, writes: Touched<'a>) {
        match writes {
            Touched::Nothing => {}
            Touched::Key(key) => drop(self.keys.insert(key)),
            Touched::Keys(keys) => self.keys.extend(keys),
            Touched::Range { from, to } => self.ranges.push((from, to)),
            Touched::Everything => self.everything = true,
        }
    }

    /// Returns whether it may contain a key that a command reads.
    pub fn concerns(&self, reads: &Touched<'_>) -> bool {
        match reads {
            Touched::Nothing => false,
            Touched::Key(key) => self.has(key),
            Touched::Keys(keys) => self.everything || keys.iter().any(|key| self.has(key)),
            Touched::Range { from, to } => {
                // A range that ends before it begins contains no keys, and `BTreeSet::range` panics on it.
                let holds_keys = to.is_none_or(|to| *from < to);
                let end = to.map_or(Bound::Unbounded, Bound::Excluded);
                let has_key = holds_keys && self.keys.range::<[u8], _>((Bound::Included(*from), end)).next().is_some();
                let overlaps = |(other_from, other_to): &(&[u8], Option<&[u8]>)| {
                    other_to.is_none_or(|other_to| *from < other_to) && to.is_none_or(|to| *other_from < to)
                };
                self.everything || has_key || self.ranges.iter().any(overlaps)
            }
            Touched::Everything => self.everything || !self.keys.is_empty() || !self.ranges.is_empty(),
        }
    }

    fn has(&self, key: &[u8]) -> bool {
        let contains = |(from, to): &(&[u8], Option<&[u8]>)| *from <= key && to.is_none_or(|to| key < to);
        self.everything || self.keys.contains(key) || self.ranges.iter().any(contains)
    }
}
