//! The table of links: found by index in constant time, never confused with an earlier link of the same index.

use super::link::Link;
use crate::LinkId;

#[derive(Default)]
struct Slot {
    generation: u32,
    link: Option<Box<Link>>,
    /// A link lives here, though it may be taken out at the moment.
    occupied: bool,
}

/// All links of a transport.
#[derive(Default)]
pub struct Links {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

/// The position of a link in the table.
pub fn index(id: LinkId) -> usize {
    id.0 as u32 as usize
}

impl Links {
    /// Sets a place aside and names the link that is to come there by [`Links::put`], or leave it by [`Links::release`].
    pub fn reserve(&mut self) -> LinkId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        assert!(!slot.occupied, "a free place is empty");
        slot.occupied = true;
        LinkId(u64::from(slot.generation) << 32 | u64::from(index))
    }

    /// Puts a link in its place.
    pub fn put(&mut self, link: Box<Link>) {
        let slot = &mut self.slots[index(link.id)];
        assert!(slot.occupied && slot.link.is_none(), "a link returns to the place set aside for it");
        slot.link = Some(link);
    }

    /// Takes out the link at an index to work on it; [`Links::put`] it back or [`Links::release`] its place.
    pub fn take(&mut self, index: usize) -> Option<Box<Link>> {
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
    pub fn get(&self, id: LinkId) -> Option<&Link> {
        self.slots.get(index(id))?.link.as_deref().filter(|link| link.id == id)
    }

    /// The link of that name, if it lives, to be changed.
    #[inline]
    pub fn get_mut(&mut self, id: LinkId) -> Option<&mut Link> {
        self.slots.get_mut(index(id))?.link.as_deref_mut().filter(|link| link.id == id)
    }

    /// The link at an index, to be changed.
    pub fn at_mut(&mut self, index: usize) -> Option<&mut Link> {
        self.slots.get_mut(index)?.link.as_deref_mut()
    }

    /// Every link.
    pub fn iter(&self) -> impl Iterator<Item = &Link> {
        self.slots.iter().filter_map(|slot| slot.link.as_deref())
    }

    /// Every link, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Link> {
        self.slots.iter_mut().filter_map(|slot| slot.link.as_deref_mut())
    }
}
