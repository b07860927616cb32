//! The pairs of the store, which can be held fast as they are while they go on changing.
//!
//! While nobody holds them they are a hash table and nothing else. From the moment when they are frozen the table stays as it is, and what
//! is written goes to a layer above it; freezing again begins another layer. When nobody holds the table any more, each command moves a
//! few of the changes from the oldest layer down to it, until none are left: to freeze costs nothing that grows with the number of pairs,
//! and no command pays for more than a few.
//!
//! The first scan sorts the keys once; from then on they are kept sorted. A store that is never scanned pays nothing for that.

use bytes::Bytes;
use quorate_types::Encoder;
use std::collections::BTreeSet;
use std::collections::HashMap;
use std::collections::btree_map::{BTreeMap, Entry};
use std::mem;
use std::ops::Bound;
use std::sync::Arc;

/// Changes that a command moves down: more than it can make, so that a layer that nobody holds comes to its end.
const CHANGES_MOVED_AT_ONCE: usize = 4;

const NOBODY_HOLDS_IT: &str = "a layer that nobody holds is frozen by an exclusive reference only";

type Table = HashMap<Box<[u8]>, Box<[u8]>>;
/// What was written, by key. A tree, since a few changes after the others can be taken out of it, each at a small cost.
type Layer = BTreeMap<Box<[u8]>, Option<Box<[u8]>>>;
/// The value of a key, or that it has none.
type Change<'a> = Option<&'a [u8]>;

enum Base {
    Own(Table),
    /// Somebody holds it, or did.
    Shared(Arc<Table>),
}

/// Byte strings by byte strings.
pub(super) struct Pairs {
    base: Base,
    /// What was written above the base, oldest first.
    layers: Vec<Arc<Layer>>,
    count: usize,
    /// All keys, once there was a scan.
    sorted: Option<BTreeSet<Box<[u8]>>>,
}

impl Pairs {
    pub fn with_capacity(count: usize) -> Pairs {
        Pairs { base: Base::Own(HashMap::with_capacity(count)), layers: Vec::new(), count: 0, sorted: None }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        find(&self.base, &self.layers, key)
    }

    /// The value of a key, to be written to.
    #[inline]
    pub fn get_mut(&mut self, key: &[u8]) -> Option<&mut Box<[u8]>> {
        match self.is_plain() {
            true => self.base.own()?.get_mut(key),
            false => self.get_mut_above(key),
        }
    }

    fn get_mut_above(&mut self, key: &[u8]) -> Option<&mut Box<[u8]>> {
        self.begin_layer();
        let (top, below) = self.layers.split_last_mut().expect("one was begun");
        match Arc::get_mut(top).expect(NOBODY_HOLDS_IT).entry(key.into()) {
            Entry::Occupied(change) => change.into_mut().as_mut(),
            Entry::Vacant(place) => {
                let value = find(&self.base, below, key)?;
                place.insert(Some(value.into())).as_mut()
            }
        }
    }

    /// Adds a pair whose key is not there.
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        self.count += 1;
        let before = match self.plain() {
            Some(table) => table.insert(key.into(), value.into()),
            None => self.change(key, Some(value.into())).flatten(),
        };
        assert!(before.is_none(), "the key was not there");
        if let Some(sorted) = &mut self.sorted {
            sorted.insert(key.into());
        }
    }

    /// Removes a pair, and returns how many bytes its value had.
    pub fn remove(&mut self, key: &[u8]) -> Option<usize> {
        let bytes = match self.plain() {
            Some(table) => table.remove(key)?.len(),
            None => {
                let bytes = self.get(key)?.len();
                self.change(key, None);
                bytes
            }
        };
        self.count -= 1;
        if let Some(sorted) = &mut self.sorted {
            assert!(sorted.remove(key), "the key was there");
        }
        Some(bytes)
    }

    /// The pairs whose keys are at least `from` and below `to`, ascending.
    pub fn range(&mut self, from: &[u8], to: Option<&[u8]>) -> impl Iterator<Item = (&[u8], &[u8])> {
        if self.sorted.is_none() {
            self.sorted = Some(self.keys().map(Into::into).collect());
        }
        let Pairs { base, layers, sorted, .. } = self;
        let end = to.map_or(Bound::Unbounded, Bound::Excluded);
        // A tree refuses a range that ends before it begins.
        let is_empty = to.is_some_and(|to| to <= from);
        let keys =
            sorted.as_ref().filter(|_| !is_empty).map(|keys| keys.range::<[u8], _>((Bound::Included(from), end)));
        keys.into_iter().flatten().map(|key| (&**key, find(base, layers, key).expect("a sorted key has a value")))
    }

    /// Every key once, in no order.
    fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let written = self.layers.iter().flat_map(|layer| layer.keys());
        let keys: BTreeSet<&[u8]> = self.base.table().keys().chain(written).map(AsRef::as_ref).collect();
        keys.into_iter().filter(|key| self.get(key).is_some())
    }

    /// Moves a few changes down, if nobody holds what they go to.
    #[inline]
    pub fn settle(&mut self) {
        if !self.layers.is_empty() {
            self.move_down();
        }
    }

    fn move_down(&mut self) {
        let Some(table) = self.base.own() else { return };
        let Some(oldest) = self.layers.first_mut().and_then(Arc::get_mut) else { return };
        for _ in 0..CHANGES_MOVED_AT_ONCE {
            match oldest.pop_first() {
                Some((key, Some(value))) => drop(table.insert(key, value)),
                Some((key, None)) => drop(table.remove(&key)),
                None => {
                    self.layers.remove(0);
                    return;
                }
            }
        }
    }

    /// The table, if it is all there is and nobody holds it.
    #[inline]
    fn plain(&mut self) -> Option<&mut Table> {
        match self.layers.is_empty() {
            true => self.base.own(),
            false => None,
        }
    }

    fn is_plain(&mut self) -> bool {
        self.plain().is_some()
    }

    /// Has the last layer be one that nobody holds.
    fn begin_layer(&mut self) {
        if self.layers.last_mut().is_none_or(|top| Arc::get_mut(top).is_none()) {
            self.layers.push(Arc::default());
        }
    }

    /// Writes a change of a key above the table, and returns the one that was there.
    fn change(&mut self, key: &[u8], value: Option<Box<[u8]>>) -> Option<Option<Box<[u8]>>> {
        self.begin_layer();
        let top = self.layers.last_mut().expect("one was begun");
        Arc::get_mut(top).expect(NOBODY_HOLDS_IT).insert(key.into(), value)
    }

    /// The pairs as they are now, whatever is written afterwards.
    pub fn freeze(&mut self) -> FrozenPairs {
        FrozenPairs { base: self.base.share(), layers: self.layers.clone(), count: self.count }
    }
}

#[inline]
fn find<'a>(base: &'a Base, layers: &'a [Arc<Layer>], key: &[u8]) -> Option<&'a [u8]> {
    match layers.iter().rev().find_map(|layer| layer.get(key)) {
        Some(change) => change.as_deref(),
        None => base.table().get(key).map(AsRef::as_ref),
    }
}

impl Base {
    #[inline]
    fn table(&self) -> &Table {
        match self {
            Base::Own(table) => table,
            Base::Shared(table) => table,
        }
    }

    /// The table, if nobody else holds it.
    #[inline]
    fn own(&mut self) -> Option<&mut Table> {
        if let Base::Shared(shared) = self {
            let table = mem::take(Arc::get_mut(shared)?);
            *self = Base::Own(table);
        }
        match self {
            Base::Own(table) => Some(table),
            Base::Shared(_) => None,
        }
    }

    fn share(&mut self) -> Arc<Table> {
        if let Base::Own(table) = self {
            *self = Base::Shared(Arc::new(mem::take(table)));
        }
        match self {
            Base::Shared(shared) => shared.clone(),
            Base::Own(_) => unreachable!("it was shared just now"),
        }
    }
}

/// The pairs at some moment.
pub(super) struct FrozenPairs {
    base: Arc<Table>,
    layers: Vec<Arc<Layer>>,
    count: usize,
}

impl FrozenPairs {
    /// A count and the pairs, ascending by key; `bytes` is about how many that are.
    pub fn encode(&self, bytes: usize) -> Bytes {
        let mut pairs: Vec<(&[u8], usize, Change<'_>)> = Vec::with_capacity(self.base.len());
        for (age, layer) in (0..).zip(self.layers.iter().rev()) {
            pairs.extend(layer.iter().map(|(key, value)| (&**key, age, value.as_deref())));
        }
        let age = self.layers.len();
        pairs.extend(self.base.iter().map(|(key, value)| (&**key, age, Some(&**value))));
        // Of what is said of a key the newest comes first, and counts.
        pairs.sort_unstable_by_key(|(key, age, _)| (*key, *age));
        pairs.dedup_by_key(|(key, ..)| *key);
        let mut out = Encoder::with_capacity(8 + bytes);
        out.put_count(self.count);
        let mut left = self.count;
        for (key, _, value) in pairs {
            let Some(value) = value else { continue };
            out.put_bytes(key);
            out.put_bytes(value);
            left -= 1;
        }
        assert_eq!(left, 0, "the pairs are as many as were counted");
        out.finish()
    }
}
