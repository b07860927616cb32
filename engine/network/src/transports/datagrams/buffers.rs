//! Memory for received packets. Long ones stay in the buffer that the kernel filled; short ones are copied.

use bytes::Bytes;
use quinn_udp::{BATCH_SIZE, RecvMeta};
use std::io::IoSliceMut;
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum payload of one packet, or of several that the kernel has coalesced, in bytes.
const MAX_READ_BYTES: usize = 64 << 10;
/// Minimum bytes of a read that stay in their buffer: a shorter one would occupy more than twice its size.
const MIN_KEPT_BYTES: usize = MAX_READ_BYTES / 2;
/// Maximum number of unused buffers.
const MAX_SPARE: usize = 2 * BATCH_SIZE;

/// Unused buffers, shared with the packets that will return theirs.
type Spare = Arc<Mutex<Vec<Box<[u8]>>>>;

/// Memory for one batch of received packets.
pub struct Buffers {
    rows: Vec<Box<[u8]>>,
    pub metas: Vec<RecvMeta>,
    spare: Spare,
}

impl Default for Buffers {
    fn default() -> Buffers {
        Buffers {
            rows: (0..BATCH_SIZE).map(|_| new_row()).collect(),
            metas: vec![RecvMeta::default(); BATCH_SIZE],
            spare: Spare::default(),
        }
    }
}

impl Buffers {
    /// Returns a buffer for each packet of a batch, and the slots for their metadata.
    pub fn places(&mut self) -> ([IoSliceMut<'_>; BATCH_SIZE], &mut [RecvMeta]) {
        let mut rows = self.rows.iter_mut();
        let places = std::array::from_fn(|_| IoSliceMut::new(rows.next().expect("there is a buffer for each packet")));
        (places, &mut self.metas)
    }

    /// Returns the bytes received in a buffer.
    pub fn take(&mut self, place: usize) -> Bytes {
        let bytes = self.metas[place].len;
        if bytes < MIN_KEPT_BYTES {
            return Bytes::copy_from_slice(&self.rows[place][..bytes]);
        }
        let fresh = unused(&self.spare).pop().unwrap_or_else(new_row);
        let row = Some(std::mem::replace(&mut self.rows[place], fresh));
        Bytes::from_owner(Kept { row, bytes, spare: self.spare.clone() })
    }
}

fn new_row() -> Box<[u8]> {
    vec![0; MAX_READ_BYTES].into()
}

fn unused(spare: &Spare) -> std::sync::MutexGuard<'_, Vec<Box<[u8]>>> {
    spare.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A buffer that holds a packet; returned to the spare ones on drop.
struct Kept {
    /// `None` once it was returned.
    row: Option<Box<[u8]>>,
    bytes: usize,
    spare: Spare,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        self.row.as_ref().map_or(&[], |row| &row[..self.bytes])
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let mut spare = unused(&self.spare);
        if spare.len() < MAX_SPARE {
            spare.extend(self.row.take());
        }
    }
}
