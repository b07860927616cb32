//! The pairs of the store, which can be frozen while they continue to change.
//!
//! Normally they are a plain hash table. Freezing leaves the table unchanged, and later writes go to a layer above it;
//! freezing again begins another layer. Once no frozen state uses the table, each command moves a few changes from the
//! oldest layer down to it, until no layer is left. So freezing takes constant time, and no command moves more than a
//! few changes.
//!
//! The first scan sorts the keys, and from then on they are kept sorted. A store that is never scanned avoids this
//! cost.

use bytes::Bytes;
use quorate_types::Encoder;
use std::collections::btree_map::{BTreeMap, Entry};
use std::collections::{BTreeSet, HashMap};
use std::mem;
use std::ops::Bound;
use std::sync::Arc;

/// Number of changes that a command moves down: more than a command can create, so that layers become empty.
const MAX_CHANGES_MOVED_AT_ONCE: usize = 4;

const NOT_SHARED: &str = "only `freeze` shares a layer, and it needs an exclusive reference";

type Table = HashMap<Box<[u8]>, Box<[u8]>>;
/// Changes by key; `None` deletes. A tree makes it cheap to remove a few changes at a time.
type Layer = BTreeMap<Box<[u8]>, Option<Box<[u8]>>>;
/// New value of a key; `None` if it was deleted.
type Change<'a> = Option<&'a [u8]>;

enum Base {
    Own(Table),
    /// A frozen state holds the table, or has held it.
    Shared(Arc<Table>),
}

/// Map from byte strings to byte strings that can be frozen.
pub(super) struct Pairs {
    base: Base,
    /// Changes above the base, oldest first.
    layers: Vec<Arc<Layer>>,
    count: usize,
    /// All keys, after the first scan.
    sorted: Option<BTreeSet<Box<[u8]>>>,
}

impl Pairs {
    pub fn with_capacity(count: usize) -> Pairs {
        Pairs { base: Base::Own(HashMap::with_capacity(count)), layers: Vec::new(), count: 0, sorted: None }
    }

    pub fn len(&self) -> usize {
        self.count
    }

    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        find(&self.base, &self.layers, key)
    }

    #[inline]
    pub fn get_mut(&mut self, key: &[u8]) -> Option<&mut Box<[u8]>> {
        if self.is_plain() { self.base.own()?.get_mut(key) } else { self.get_mut_above(key) }
    }

    fn get_mut_above(&mut self, key: &[u8]) -> Option<&mut Box<[u8]>> {
        self.begin_layer();
        let (top, below) = self.layers.split_last_mut().expect("there is a layer");
        match Arc::get_mut(top).expect(NOT_SHARED).entry(key.into()) {
            Entry::Occupied(change) => change.into_mut().as_mut(),
            Entry::Vacant(place) => {
                let value = find(&self.base, below, key)?;
                place.insert(Some(value.into())).as_mut()
            }
        }
    }

    /// Adds a pair with a new key.
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        self.count += 1;
        let before = match self.plain() {
            Some(table) => table.insert(key.into(), value.into()),
            None => self.change(key, Some(value.into())).flatten(),
        };
        assert!(before.is_none(), "the key is new");
        if let Some(sorted) = &mut self.sorted {
            sorted.insert(key.into());
        }
    }

    /// Removes a pair. Returns the length of its value.
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
            assert!(sorted.remove(key), "the sorted keys include every key");
        }
        Some(bytes)
    }

    /// Returns the pairs with keys from `from` (inclusive) to `to` (exclusive), ascending.
    pub fn range(&mut self, from: &[u8], to: Option<&[u8]>) -> impl Iterator<Item = (&[u8], &[u8])> {
        if self.sorted.is_none() {
            self.sorted = Some(self.keys().map(Into::into).collect());
        }
        self.sorted_range(from, to).expect("the keys were just sorted")
    }

    /// Returns the same if the keys are already sorted, which the first [`Pairs::range`] does.
    pub fn sorted_range(&self, from: &[u8], to: Option<&[u8]>) -> Option<impl Iterator<Item = (&[u8], &[u8])>> {
        let Pairs { base, layers, sorted, .. } = self;
        let end = to.map_or(Bound::Unbounded, Bound::Excluded);
        // `BTreeSet::range` panics if a range ends before it begins.
        let is_empty = to.is_some_and(|to| to <= from);
        let keys = (!is_empty).then_some(sorted.as_ref()?);
        let keys = keys.map(|keys| keys.range::<[u8], _>((Bound::Included(from), end)));
        Some(keys.into_iter().flatten().map(|key| (&**key, find(base, layers, key).expect("a sorted key has a value"))))
    }

    /// Returns every key once.
    fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let written = self.layers.iter().flat_map(|layer| layer.keys());
        let keys: BTreeSet<&[u8]> = self.base.table().keys().chain(written).map(AsRef::as_ref).collect();
        keys.into_iter().filter(|key| self.get(key).is_some())
    }

    /// Moves a few changes down to the table, if no frozen state holds it.
    #[inline]
    pub fn settle(&mut self) {
        if !self.layers.is_empty() {
            self.move_down();
        }
    }

    fn move_down(&mut self) {
        let Some(table) = self.base.own() else { return };
        let Some(oldest) = self.layers.first_mut().and_then(Arc::get_mut) else { return };
        for _ in 0..MAX_CHANGES_MOVED_AT_ONCE {
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

    /// Returns the table, if there are no layers and no frozen state holds it.
    #[inline]
    fn plain(&mut self) -> Option<&mut Table> {
        if self.layers.is_empty() { self.base.own() } else { None }
    }

    fn is_plain(&mut self) -> bool {
        self.plain().is_some()
    }

    /// Ensures that no frozen state holds the last layer.
    fn begin_layer(&mut self) {
        if self.layers.last_mut().is_none_or(|top| Arc::get_mut(top).is_none()) {
            self.layers.push(Arc::default());
        }
    }

    /// Writes a change to the last layer. Returns the change that it replaces.
    fn change(&mut self, key: &[u8], value: Option<Box<[u8]>>) -> Option<Option<Box<[u8]>>> {
        self.begin_layer();
        let top = self.layers.last_mut().expect("there is a layer");
        Arc::get_mut(top).expect(NOT_SHARED).insert(key.into(), value)
    }

    /// Freezes the current pairs; later writes do not change the result.
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

    /// Returns the table, if no frozen state holds it.
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
            Base::Own(_) => unreachable!("the table was just shared"),
        }
    }
}

/// The pairs at one height. The store shares its tables with them and continues.
pub(super) struct FrozenPairs {
    base: Arc<Table>,
    layers: Vec<Arc<Layer>>,
    count: usize,
}

impl FrozenPairs {
    /// Encodes a count and the pairs, ascending by key. `bytes` estimates the size.
    pub fn encode(&self, bytes: usize) -> Bytes {
        let mut pairs: Vec<(&[u8], usize, Change<'_>)> = Vec::with_capacity(self.base.len());
        for (age, layer) in (0..).zip(self.layers.iter().rev()) {
            pairs.extend(layer.iter().map(|(key, value)| (&**key, age, value.as_deref())));
        }
        let age = self.layers.len();
        pairs.extend(self.base.iter().map(|(key, value)| (&**key, age, Some(&**value))));
        // The newest change of a key comes first and takes precedence.
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
        assert_eq!(left, 0, "the count of pairs is wrong");
        out.finish()
    }
}
