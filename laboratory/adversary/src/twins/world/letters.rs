//! Storage for messages in transit. Queues hold an index instead of the message, which is an order of magnitude larger.
//! Indices are reused, even by the next scenario.

use quorate_consensus::seam::Envelope;

/// Index of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place(u32);

/// Messages in transit.
pub(super) struct Letters<M> {
    places: Vec<Option<Envelope<M>>>,
    free: Vec<Place>,
}

impl<M> Letters<M> {
    pub fn new() -> Letters<M> {
        Letters { places: Vec::new(), free: Vec::new() }
    }

    /// Stores a message until it is taken.
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

    /// Removes and returns the message at an index.
    #[inline(always)]
    pub fn take(&mut self, place: Place) -> Envelope<M> {
        self.free.push(place);
        self.places[place.0 as usize].take().expect("a parcel is delivered once")
    }

    pub fn clear(&mut self) {
        self.places.clear();
        self.free.clear();
    }
}
