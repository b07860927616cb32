//! The frame splitter and the write queue with random bytes, splits and partial writes.

use bytes::Bytes;
use proptest::prelude::*;
use quorate_network::transports::framing::{FrameBuffer, header};
use quorate_network::transports::{STAGED_BYTES, WriteQueue};
use std::io::IoSlice;

/// Feeds bytes as a socket would: into the buffer's free space, at most `cut` at a time.
fn feed(buffer: &mut FrameBuffer, mut bytes: &[u8], cuts: &[usize]) -> Result<Vec<Bytes>, usize> {
    let mut frames = Vec::new();
    let mut cuts = cuts.iter().cycle();
    while !bytes.is_empty() {
        let room = buffer.spare();
        let count = bytes.len().min(room.len()).min(*cuts.next().expect("a cycle"));
        room[..count].iter_mut().zip(bytes).for_each(|(place, byte)| {
            place.write(*byte);
        });
        // SAFETY: the loop above wrote `count` bytes.
        unsafe { buffer.filled(count) };
        bytes = &bytes[count..];
        while let Some(frame) = buffer.next_frame().map_err(|error| error.bytes)? {
            frames.push(frame);
        }
    }
    Ok(frames)
}

fn frames() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let size = prop_oneof![6 => 0..300usize, 2 => 1_000..5_000usize, 1 => 60_000..200_000usize];
    proptest::collection::vec((size, any::<u8>()).prop_map(|(size, byte)| vec![byte; size]), 1..40)
}

/// Sizes of successive reads or writes; a large one among them keeps the number of calls small.
fn cuts() -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(prop_oneof![1..8usize, 1..2_000usize, 1..300_000usize], 1..20).prop_map(|mut cuts| {
        cuts.push(50_000);
        cuts
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..4_000), cuts in cuts()) {
        let _ = feed(&mut FrameBuffer::new(), &bytes, &cuts);
    }

    #[test]
    fn queued_frames_are_split_unchanged(frames in frames(), reads in cuts(), writes in cuts()) {
        let mut queue = WriteQueue::new();
        let mut stream = Vec::new();
        let mut writes = writes.iter().cycle();
        let mut ended = 0;
        let mut write = |queue: &mut WriteQueue, stream: &mut Vec<u8>| {
            let mut slices = [IoSlice::new(&[]); 3];
            let (count, total) = queue.slices(&mut slices);
            let piece: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
            assert_eq!(piece.len(), total);
            assert!(queue.only_slice().is_none_or(|only| only == piece));
            let taken = total.min(*writes.next().expect("a cycle"));
            stream.extend_from_slice(&piece[..taken]);
            ended += queue.consume(taken);
        };
        for frame in &frames {
            queue.push(Bytes::from(frame.clone()));
            write(&mut queue, &mut stream);
        }
        while !queue.is_empty() {
            write(&mut queue, &mut stream);
        }
        prop_assert_eq!(ended, frames.len() as u64);
        let received = feed(&mut FrameBuffer::new(), &stream, &reads).expect("no frame is over the limit");
        prop_assert!(received == frames);
    }
}

/// Writes all frames that are ready.
fn drain(queue: &mut WriteQueue) -> Vec<u8> {
    let mut slices = [IoSlice::new(&[]); 64];
    let (count, total) = queue.slices(&mut slices);
    let piece: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
    queue.consume(total);
    piece
}

#[test]
fn other_frames_overtake_the_bulk_that_is_not_staged() {
    const BULK_BYTES: usize = 30_000;
    let mut queue = WriteQueue::new();
    (0..10).for_each(|number| queue.push_bulk(vec![number; BULK_BYTES].into()));
    assert_eq!(queue.ahead_bytes(), 0, "nothing is ahead of an urgent frame");
    queue.stage();
    assert!((STAGED_BYTES..STAGED_BYTES + BULK_BYTES + 4).contains(&queue.ahead_bytes()));
    queue.push(Bytes::from_static(b"vote"));
    queue.stage();
    let mut stream = Vec::new();
    while !queue.is_empty() {
        stream.extend(drain(&mut queue));
        queue.stage();
    }
    let frames = feed(&mut FrameBuffer::new(), &stream, &[1_000]).expect("no frame is over the limit");
    let firsts: Vec<u8> = frames.iter().map(|frame| frame[0]).collect();
    assert_eq!(firsts, [0, 1, 2, b'v', 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(queue.bytes(), 0);
}

#[test]
fn an_announced_length_costs_no_memory() {
    let mut buffer = FrameBuffer::new();
    let none = feed(&mut buffer, &header(60 << 20), &[4]).expect("within the limit");
    assert!(none.is_empty());
    assert!(buffer.spare().len() <= 256 << 10);
}

#[test]
fn an_oversized_frame_panics_with_the_limit() {
    let over = (quorate_types::limits::MAX_FRAME_BYTES as u32 + 1).to_le_bytes();
    assert_eq!(feed(&mut FrameBuffer::new(), &over, &[4]), Err(over_limit()));
}

fn over_limit() -> usize {
    quorate_types::limits::MAX_FRAME_BYTES + 1
}
