//! The table of links: found by index in constant time, never confused with an earlier link of the same index.

use crate::LinkId;

struct Slot<L> {
    generation: u32,
    link: Option<Box<L>>,
    /// A link lives here, though it may be taken out at the moment.
    occupied: bool,
}

/// All links of a transport.
pub struct Table<L> {
    slots: Vec<Slot<L>>,
    free: Vec<u32>,
}

impl<L> Default for Table<L> {
    fn default() -> Self {
        Table { slots: Vec::new(), free: Vec::new() }
    }
}

/// The position of a link in the table.
pub fn index(id: LinkId) -> usize {
    id.0 as u32 as usize
}

fn generation(id: LinkId) -> u32 {
    (id.0 >> 32) as u32
}

impl<L> Table<L> {
    /// Sets a place aside and names the link that is to come there by [`Table::put`], or leave it by
    /// [`Table::release`].
    pub fn reserve(&mut self) -> LinkId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, link: None, occupied: false });
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        assert!(!slot.occupied, "a free place is empty");
        slot.occupied = true;
        LinkId(u64::from(slot.generation) << 32 | u64::from(index))
    }

    /// Puts a link in its place.
    pub fn put(&mut self, id: LinkId, link: Box<L>) {
        let slot = &mut self.slots[index(id)];
        assert!(slot.occupied && slot.link.is_none(), "a link returns to the place set aside for it");
        slot.link = Some(link);
    }

    /// Takes out the link at an index to work on it; [`Table::put`] it back or [`Table::release`] its place.
    pub fn take(&mut self, index: usize) -> Option<Box<L>> {
        self.slots.get_mut(index)?.link.take()
    }

    /// Gives up a place; its next link has another name.
    pub fn release(&mut self, id: LinkId) {
        let slot = &mut self.slots[index(id)];
        assert!(slot.occupied && slot.link.is_none(), "a place is given up once, when its link is gone");
        slot.occupied = false;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index(id) as u32);
    }

    /// The link of that name, if it lives.
    pub fn get(&self, id: LinkId) -> Option<&L> {
        self.slots.get(index(id)).filter(|slot| slot.generation == generation(id))?.link.as_deref()
    }

    /// The link of that name, if it lives, to be changed.
    #[inline]
    pub fn get_mut(&mut self, id: LinkId) -> Option<&mut L> {
        self.slots.get_mut(index(id)).filter(|slot| slot.generation == generation(id))?.link.as_deref_mut()
    }

    /// The link at an index, to be changed.
    pub fn at_mut(&mut self, index: usize) -> Option<&mut L> {
        self.slots.get_mut(index)?.link.as_deref_mut()
    }

    /// Every link.
    pub fn iter(&self) -> impl Iterator<Item = &L> {
        self.slots.iter().filter_map(|slot| slot.link.as_deref())
    }

    /// Every link, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut L> {
        self.slots.iter_mut().filter_map(|slot| slot.link.as_deref_mut())
    }
}
