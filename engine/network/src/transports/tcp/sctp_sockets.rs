//! Sockets of the kernel's SCTP: options, and the state of an association as defined in `linux/sctp.h`.

use crate::transports::retransmission::Bounds;
use socket2::{Domain, Socket, Type};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

/// IP protocol number of SCTP.
const IPPROTO_SCTP: libc::c_int = 132;
const SCTP_RTOINFO: libc::c_int = 0;
const SCTP_NODELAY: libc::c_int = 3;
const SCTP_STATUS: libc::c_int = 14;
const SCTP_DELAYED_SACK: libc::c_int = 16;
const SCTP_GET_ASSOC_STATS: libc::c_int = 112;
/// Minimum timeout of the profile `auto`, in milliseconds: the kernel does not track the smallest round trip.
const AUTO_RTO_MIN_MS: u32 = 5;
/// Every second packet is acknowledged, unless the delay ends first (RFC 9260, section 6.2).
const PACKETS_PER_ACKNOWLEDGEMENT: u32 = 2;

/// Creates a one-to-one socket of the kernel's SCTP.
///
/// # Errors
/// If the kernel does not support SCTP; the error names an alternative transport.
pub fn socket(domain: Domain) -> io::Result<Socket> {
    Socket::new(domain, Type::STREAM, Some(IPPROTO_SCTP.into())).map_err(|error| match error.raw_os_error() {
        Some(libc::EPROTONOSUPPORT | libc::ESOCKTNOSUPPORT | libc::EAFNOSUPPORT) => io::Error::new(
            io::ErrorKind::Unsupported,
            "this kernel has no SCTP; help: load its module `sctp`, or set the transport `sctp`, which runs in user \
             space",
        ),
        _ => error,
    })
}

/// Sets the bounds of the timeout and the acknowledgement delay, and disables Nagle's algorithm.
pub fn set_options(socket: RawFd, bounds: &Bounds) -> io::Result<()> {
    let ms = |ms: u64| u32::try_from(ms).unwrap_or(u32::MAX);
    let rto_min = bounds.rto_min_ms.map_or(AUTO_RTO_MIN_MS, ms);
    // For all associations of this socket (0); initial, maximum and minimum timeout.
    set(socket, SCTP_RTOINFO, [0, ms(bounds.rto_initial_ms), ms(bounds.rto_max_ms), rto_min])?;
    set(socket, SCTP_DELAYED_SACK, [0, ms(bounds.ack_delay_ms), PACKETS_PER_ACKNOWLEDGEMENT])?;
    set(socket, SCTP_NODELAY, [1])
}

fn set<const N: usize>(socket: RawFd, option: libc::c_int, value: [u32; N]) -> io::Result<()> {
    let length = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the kernel copies live numbers of this length.
    let set = unsafe { libc::setsockopt(socket, IPPROTO_SCTP, option, value.as_ptr().cast(), length) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Space for the kernel's answers about an association.
#[repr(align(8))]
struct Answer([u8; 256]);

impl Answer {
    fn of(socket: &impl AsRawFd, option: libc::c_int, length: usize) -> Option<Answer> {
        let (mut answer, mut length) = (Answer([0; 256]), length as libc::socklen_t);
        let to = answer.0.as_mut_ptr().cast();
        // SAFETY: the kernel writes at most as many bytes as the buffer has.
        let got = unsafe { libc::getsockopt(socket.as_raw_fd(), IPPROTO_SCTP, option, to, &raw mut length) };
        (got == 0).then_some(answer)
    }

    fn at<const N: usize>(&self, at: usize) -> [u8; N] {
        self.0[at..at + N].try_into().expect("the offsets are inside")
    }
}

/// Length of `sctp_status`, and offsets of two fields: the unacknowledged chunks, and the smoothed round-trip time of
/// the primary path in milliseconds.
const STATUS_BYTES: usize = 176;
const UNACKNOWLEDGED: usize = 12;
const ROUND_TRIP: usize = 164;
/// Length of `sctp_assoc_stats`, and offset of the number of acknowledgements received.
const STATISTICS_BYTES: usize = 256;
const ACKNOWLEDGEMENTS: usize = 144;

/// Returns whether sent data is unacknowledged, and the number of acknowledgements received.
pub fn waits(socket: &impl AsRawFd) -> (bool, u64) {
    let status = Answer::of(socket, SCTP_STATUS, STATUS_BYTES);
    let waits = status.is_some_and(|status| u16::from_ne_bytes(status.at(UNACKNOWLEDGED)) > 0);
    let statistics = Answer::of(socket, SCTP_GET_ASSOC_STATS, STATISTICS_BYTES);
    (waits, statistics.map_or(0, |statistics| u64::from_ne_bytes(statistics.at(ACKNOWLEDGEMENTS))))
}

/// Returns the kernel's smoothed round-trip time, in whole milliseconds.
pub fn round_trip(socket: &impl AsRawFd) -> Option<Duration> {
    let ms = u32::from_ne_bytes(Answer::of(socket, SCTP_STATUS, STATUS_BYTES)?.at(ROUND_TRIP));
    (ms > 0).then(|| Duration::from_millis(ms.into()))
}
