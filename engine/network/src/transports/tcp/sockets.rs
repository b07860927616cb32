//! Socket options for the transport: non-blocking, without Nagle's algorithm, and with detection of silent remotes.

use super::sctp_sockets as sctp;
use crate::transports::config::TcpConfig;
use crate::transports::retransmission::Bounds;
use mio::net::{TcpListener, TcpStream};
use socket2::{Domain, SockAddr, SockRef, Socket, TcpKeepalive, Type};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Maximum number of connections pending to be accepted: a whole committee and a burst of clients.
const BACKLOG: libc::c_int = 1_024;
/// Keep-alive probes sent within `silent_remote_ms`.
const PROBES: u64 = 4;

/// Maximum unsent bytes that the kernel accepts on a link with bulk frames.
pub const UNSENT_BYTES: usize = 64 << 10;

/// Longest message passed to SCTP at once. The kernel accepts a message entirely or not at all.
pub const SCTP_MESSAGE_BYTES: usize = 64 << 10;

/// Kernel protocol below the streams.
#[derive(Clone, Copy, Debug)]
pub enum Protocol {
    Tcp,
    /// With these retransmission times.
    Sctp(Bounds),
}

impl Protocol {
    /// Returns the maximum bytes of one write; `None` if the kernel accepts partial writes of any size.
    pub fn message_bytes(&self) -> Option<usize> {
        match self {
            Protocol::Tcp => None,
            Protocol::Sctp(_) => Some(SCTP_MESSAGE_BYTES),
        }
    }

    /// Returns whether sent data must be retransmitted or, over SCTP, is unacknowledged; and a number that grows with
    /// acknowledgements.
    pub fn trouble(&self, stream: &TcpStream) -> (bool, u64) {
        match self {
            Protocol::Tcp => (is_repeating(stream), 0),
            Protocol::Sctp(_) => sctp::waits(stream),
        }
    }

    /// Makes the kernel refuse more data while it holds [`UNSENT_BYTES`] unsent, so that urgent frames overtake others
    /// in the link's own queue. Without that option, as over SCTP, or if it fails, urgent frames only wait longer.
    pub fn limit_unsent(&self, stream: &TcpStream) {
        if let Protocol::Tcp = self {
            limit_unsent(stream);
        }
    }

    /// Returns the kernel's smoothed round-trip time.
    pub fn round_trip(&self, stream: &TcpStream) -> Option<Duration> {
        match self {
            Protocol::Tcp => round_trip(stream),
            Protocol::Sctp(_) => sctp::round_trip(stream),
        }
    }
}

/// Takes over a bound listener, with a longer backlog than the standard library's. Accepted streams inherit its buffer
/// sizes.
pub fn adopt(listener: std::net::TcpListener, config: &TcpConfig, protocol: &Protocol) -> io::Result<TcpListener> {
    listener.set_nonblocking(true)?;
    let socket = SockRef::from(&listener);
    set_buffers(&socket, config)?;
    if let Protocol::Sctp(bounds) = protocol {
        sctp::set_options(listener.as_raw_fd(), bounds)?;
    }
    socket.listen(BACKLOG)?;
    Ok(TcpListener::from_std(listener))
}

/// Starts to connect; an event on the stream reports the result.
pub fn dial(address: SocketAddr, config: &TcpConfig, protocol: &Protocol) -> io::Result<TcpStream> {
    let domain = Domain::for_address(address);
    let socket = match protocol {
        Protocol::Tcp => Socket::new(domain, Type::STREAM, Some(socket2::Protocol::TCP))?,
        Protocol::Sctp(_) => sctp::socket(domain)?,
    };
    socket.set_nonblocking(true)?;
    set_buffers(&SockRef::from(&socket), config)?;
    if let Protocol::Sctp(bounds) = protocol {
        sctp::set_options(socket.as_raw_fd(), bounds)?;
    }
    match socket.connect(&SockAddr::from(address)) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
        Err(error) => return Err(error),
    }
    let stream = TcpStream::from_std(socket.into());
    set_stream(&stream, config, protocol)?;
    Ok(stream)
}

/// Sets the options that every stream needs. An SCTP stream inherits them from its listener, and SCTP has its own
/// heartbeats.
pub fn set_stream(stream: &TcpStream, config: &TcpConfig, protocol: &Protocol) -> io::Result<()> {
    let Protocol::Tcp = protocol else { return Ok(()) };
    let socket = SockRef::from(stream);
    socket.set_tcp_nodelay(true)?;
    let silent = Duration::from_millis(config.silent_remote_ms);
    let probe = Duration::from_millis(config.silent_remote_ms / PROBES).max(Duration::from_secs(1));
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(probe).with_interval(probe))?;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    socket.set_tcp_user_timeout(Some(silent))?;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let _ = silent;
    Ok(())
}

fn set_buffers(socket: &SockRef<'_>, config: &TcpConfig) -> io::Result<()> {
    if config.send_buffer_bytes > 0 {
        socket.set_send_buffer_size(config.send_buffer_bytes)?;
    }
    if config.receive_buffer_bytes > 0 {
        socket.set_recv_buffer_size(config.receive_buffer_bytes)?;
    }
    Ok(())
}

fn limit_unsent(stream: &TcpStream) {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let _ = SockRef::from(stream).set_tcp_notsent_lowat(UNSENT_BYTES as u32);
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let _ = stream;
}

/// Returns whether sent data is unacknowledged after at least one retransmission. A live remote with a full receive
/// window acknowledges the window probes, so it does not count.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn is_repeating(stream: &TcpStream) -> bool {
    info(stream).is_some_and(|info| info.tcpi_retransmits > 0)
}

/// Returns the kernel's smoothed round-trip time.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn round_trip(stream: &TcpStream) -> Option<Duration> {
    let smoothed_us = info(stream)?.tcpi_rtt;
    (smoothed_us > 0).then(|| Duration::from_micros(smoothed_us.into()))
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn info(stream: &TcpStream) -> Option<libc::tcp_info> {
    // SAFETY: `tcp_info` consists of integers, so all zeros is a valid value.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of_val(&info) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, the size of `info`.
    let status = unsafe {
        libc::getsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, (&raw mut info).cast(), &raw mut length)
    };
    (status == 0).then_some(info)
}

/// Other kernels do not report retransmissions; there, only `silent_remote_ms` applies.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn is_repeating(_: &TcpStream) -> bool {
    false
}

/// Other kernels report it through other interfaces.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn round_trip(_: &TcpStream) -> Option<Duration> {
    None
}
