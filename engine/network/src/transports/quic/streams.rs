//! Writing to and reading from the library's streams.

use crate::channels::Loss;
use crate::transports::lanes::SendLane;
use quinn_proto::{Connection, ReadError, ReadableError, StreamId, WriteError};

/// Writes as much to a stream as it accepts. Returns the number of bytes.
pub fn write(connection: &mut Connection, stream: StreamId, lane: &mut SendLane) -> Result<usize, Loss> {
    let mut written = 0;
    while lane.bytes() > 0 {
        match connection.send_stream(stream).write_chunks(lane.pieces()) {
            Ok(taken) => {
                lane.taken(taken.chunks, taken.bytes);
                written += taken.bytes;
            }
            Err(WriteError::Blocked) => break,
            Err(_) => return Err(Loss::Violation("it stopped one of its streams")),
        }
    }
    Ok(written)
}

/// Passes the received bytes of a stream to `take`, in order.
pub fn read(
    connection: &mut Connection,
    stream: StreamId,
    mut take: impl FnMut(&[u8]) -> Result<(), Loss>,
) -> Result<(), Loss> {
    let mut stream = connection.recv_stream(stream);
    let mut chunks = match stream.read(true) {
        Ok(chunks) => chunks,
        Err(ReadableError::ClosedStream | ReadableError::IllegalOrderedRead) => return Ok(()),
    };
    let outcome = loop {
        match chunks.next(usize::MAX) {
            Ok(Some(chunk)) => {
                if let Err(why) = take(&chunk.bytes) {
                    break Err(why);
                }
            }
            Err(ReadError::Blocked) => break Ok(()),
            Ok(None) | Err(ReadError::Reset(_)) => break Err(Loss::Violation("it ended one of its streams")),
        }
    };
    // The result is not needed: each step checks for pending data anyway.
    let _ = chunks.finalize();
    outcome
}
