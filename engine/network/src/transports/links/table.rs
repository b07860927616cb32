//! Table of links: constant-time lookup by index; generations distinguish links that reuse an index.

use crate::transports::LinkId;

struct Slot<L> {
    generation: u32,
    link: Option<Box<L>>,
    /// Whether a link has this slot, even if it is taken out at the moment.
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

/// Returns the index of a link in the table.
pub fn index(id: LinkId) -> usize {
    id.0 as u32 as usize
}

fn generation(id: LinkId) -> u32 {
    (id.0 >> 32) as u32
}

impl<L> Table<L> {
    /// Reserves a slot and returns the id of its link. Fill it with [`Table::put`], or free it with [`Table::release`].
    pub fn reserve(&mut self) -> LinkId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, link: None, occupied: false });
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        assert!(!slot.occupied, "a free slot is empty");
        slot.occupied = true;
        LinkId(u64::from(slot.generation) << 32 | u64::from(index))
    }

    /// Puts a link in its slot.
    pub fn put(&mut self, id: LinkId, link: Box<L>) {
        let slot = &mut self.slots[index(id)];
        assert!(slot.occupied && slot.link.is_none(), "a link returns to its reserved slot");
        slot.link = Some(link);
    }

    /// Takes out the link at an index to work on it. Afterwards, [`Table::put`] it back or [`Table::release`] its slot.
    pub fn take(&mut self, index: usize) -> Option<Box<L>> {
        self.slots.get_mut(index)?.link.take()
    }

    /// Frees a slot; its next link will have another id.
    pub fn release(&mut self, id: LinkId) {
        let slot = &mut self.slots[index(id)];
        assert!(slot.occupied && slot.link.is_none(), "a slot is released once, after its link was taken out");
        slot.occupied = false;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index(id) as u32);
    }

    /// Returns the link with this id, if it exists.
    pub fn get(&self, id: LinkId) -> Option<&L> {
        self.slots.get(index(id)).filter(|slot| slot.generation == generation(id))?.link.as_deref()
    }

    #[inline]
    pub fn get_mut(&mut self, id: LinkId) -> Option<&mut L> {
        self.slots.get_mut(index(id)).filter(|slot| slot.generation == generation(id))?.link.as_deref_mut()
    }

    pub fn at_mut(&mut self, index: usize) -> Option<&mut L> {
        self.slots.get_mut(index)?.link.as_deref_mut()
    }

    pub fn iter(&self) -> impl Iterator<Item = &L> {
        self.slots.iter().filter_map(|slot| slot.link.as_deref())
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut L> {
        self.slots.iter_mut().filter_map(|slot| slot.link.as_deref_mut())
    }
}
