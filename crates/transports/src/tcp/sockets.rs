//! Sockets as the transport wants them: non-blocking, without Nagle's algorithm, and aware of a remote that fell silent.

use crate::config::TcpConfig;
use mio::net::{TcpListener, TcpStream};
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, TcpKeepalive, Type};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Connections that wait to be accepted: a whole committee and a burst of clients.
const BACKLOG: libc::c_int = 1_024;
/// Keep-alive probes sent within `silent_remote_ms`.
const PROBES: u64 = 4;

/// Takes over a listener that is bound already, and has more connections wait on it than the standard library asks for.
/// Accepted streams inherit its buffer sizes.
pub fn adopt(listener: std::net::TcpListener, config: &TcpConfig) -> io::Result<TcpListener> {
    listener.set_nonblocking(true)?;
    let socket = SockRef::from(&listener);
    set_buffers(&socket, config)?;
    socket.listen(BACKLOG)?;
    Ok(TcpListener::from_std(listener))
}

/// Begins to connect; the end of it is an event on the stream.
pub fn dial(address: SocketAddr, config: &TcpConfig) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    set_buffers(&SockRef::from(&socket), config)?;
    match socket.connect(&SockAddr::from(address)) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
        Err(error) => return Err(error),
    }
    let stream = TcpStream::from_std(socket.into());
    set_stream(&stream, config)?;
    Ok(stream)
}

/// Sets what every stream needs.
pub fn set_stream(stream: &TcpStream, config: &TcpConfig) -> io::Result<()> {
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

/// Whether what was sent is not acknowledged and was sent again at least once for that. A remote that takes no more but is there
/// acknowledges the probes of its window, and is none of those.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn is_repeating(stream: &TcpStream) -> bool {
    use std::os::fd::AsRawFd;
    // SAFETY: a `tcp_info` is numbers, for which zeros are a value.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of_val(&info) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to a place that has as many.
    let status = unsafe {
        libc::getsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, (&raw mut info).cast(), &raw mut length)
    };
    status == 0 && info.tcpi_retransmits > 0
}

/// Elsewhere the kernel does not tell; `silent_remote_ms` has to do.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn is_repeating(_: &TcpStream) -> bool {
    false
}
