//! Messages under way, each in a place of its own: parcels that are moved from queue to queue carry the place and not the message,
//! which is an order of magnitude larger. Places are used again, in this scenario and the next.

use quorate_consensus::seam::Envelope;

/// Where a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place(u32);

/// The messages under way.
pub(super) struct Letters<M> {
    places: Vec<Option<Envelope<M>>>,
    free: Vec<Place>,
}

impl<M> Letters<M> {
    pub fn new() -> Letters<M> {
        Letters { places: Vec::new(), free: Vec::new() }
    }

    /// Keeps a message until it is taken.
    #[inline(always)]
    pub fn keep(&mut self, message: Envelope<M>) -> Place {
        match self.free.pop() {
            Some(place) => {
                self.places[place.0 as usize] = Some(message);
                place
            }
            None => {
                self.places.push(Some(message));
                Place(u32::try_from(self.places.len() - 1).expect("a view has fewer deliveries"))
            }
        }
    }

    /// The message at a place, which is free from now on.
    #[inline(always)]
    pub fn take(&mut self, place: Place) -> Envelope<M> {
        self.free.push(place);
        self.places[place.0 as usize].take().expect("a parcel is delivered once")
    }

    /// Nothing is under way.
    pub fn clear(&mut self) {
        self.places.clear();
        self.free.clear();
    }
}
