//! HTTP/1.1 as far as a monitor needs it: one GET or HEAD per connection, without a body.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// Maximum length of a request's line and headers, in bytes.
pub const MAX_REQUEST_BYTES: usize = 8 << 10;
/// Maximum number of headers.
pub const MAX_HEADERS: usize = 64;
/// Time for a request to arrive, and for its response to be accepted.
pub const TRANSFER_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for which a refused request is read on, so that the response is not lost by a reset.
const LINGER: Duration = Duration::from_millis(500);

/// A request for a resource.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// Path, without the query.
    pub path: String,
    /// Whether only the head of the response is wanted.
    pub is_head: bool,
    /// Accepted media types.
    pub accept: String,
}

/// Answer to an HTTP request, written whole before the connection is closed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response {
    pub status: u16,
    pub content_type: &'static str,
    pub body: Vec<u8>,
}

/// Media type of plain text.
pub const TEXT: &str = "text/plain; charset=utf-8";

impl Response {
    /// Returns a response with a line of text.
    pub fn line(status: u16, text: &str) -> Response {
        Response { status, content_type: TEXT, body: format!("{text}\n").into_bytes() }
    }

    fn reason(&self) -> &'static str {
        match self.status {
            200 => "OK",
            400 => "Bad Request",
            404 => "Not Found",
            405 => "Method Not Allowed",
            408 => "Request Timeout",
            413 => "Content Too Large",
            431 => "Request Header Fields Too Large",
            503 => "Service Unavailable",
            505 => "HTTP Version Not Supported",
            _ => "Error",
        }
    }

    /// Returns the bytes of the response; without the body if `is_head`.
    pub fn encode(&self, is_head: bool) -> Vec<u8> {
        let allow = if self.status == 405 { "allow: GET, HEAD\r\n" } else { "" };
        let head = format!(
            "HTTP/1.1 {} {}\r\ncontent-type: {}\r\ncontent-length: {}\r\ncache-control: no-store\r\n\
             x-content-type-options: nosniff\r\n{allow}connection: close\r\n\r\n",
            self.status,
            self.reason(),
            self.content_type,
            self.body.len()
        );
        [head.as_bytes(), if is_head { &[] } else { &self.body }].concat()
    }
}

/// Parses the beginning of a request; `None` if more bytes are needed.
///
/// # Errors
/// The response to an invalid request.
pub fn parse(bytes: &[u8]) -> Result<Option<Request>, Response> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) if bytes.len() < MAX_REQUEST_BYTES => return Ok(None),
        Ok(httparse::Status::Partial) => {
            return Err(Response::line(431, &format!("the request is longer than {MAX_REQUEST_BYTES} bytes")));
        }
        Err(httparse::Error::TooManyHeaders) => {
            return Err(Response::line(431, &format!("the request has more than {MAX_HEADERS} headers")));
        }
        Err(httparse::Error::Version) => return Err(Response::line(505, "only HTTP/1.0 and HTTP/1.1 are spoken here")),
        Err(error) => return Err(Response::line(400, &format!("the request is invalid: {error}"))),
    }
    let values = |name: &'static str| {
        let named = request.headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
        named.map(|header| String::from_utf8_lossy(header.value))
    };
    let is_head = match request.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Err(Response::line(405, "only GET and HEAD are allowed")),
    };
    if request.version == Some(1) && values("host").count() != 1 {
        return Err(Response::line(400, "the request needs one header `host`"));
    }
    let has_body = values("content-length").any(|length| length.trim() != "0");
    if has_body || values("transfer-encoding").next().is_some() {
        return Err(Response::line(413, "the request has a body, but none is accepted"));
    }
    let target = request.path.unwrap_or_default();
    let path = target.split(['?', '#']).next().unwrap_or_default().to_owned();
    let accept = values("accept").collect::<Vec<_>>().join(",");
    Ok(Some(Request { path, is_head, accept }))
}

/// Serves one request of a connection: reads it, answers it with `respond`, and closes the connection. The connection
/// takes at most twice [`TRANSFER_TIMEOUT`], besides the time of `respond`.
///
/// # Errors
/// If the connection fails, or its other end does not accept the response in time.
pub fn serve(mut stream: TcpStream, respond: impl FnOnce(&Request) -> Response) -> io::Result<()> {
    let request = match receive(&mut stream)? {
        Received::Request(request) => request,
        Received::Nothing => return Ok(()),
        Received::Invalid(response) => return refuse(stream, &response),
    };
    send(&mut stream, &respond(&request).encode(request.is_head))?;
    stream.shutdown(Shutdown::Write)
}

/// Sends a response that does not depend on the request, which may be incomplete.
///
/// # Errors
/// If the connection fails.
pub fn refuse(mut stream: TcpStream, response: &Response) -> io::Result<()> {
    send(&mut stream, &response.encode(false))?;
    stream.shutdown(Shutdown::Write)?;
    let deadline = Instant::now() + LINGER;
    let mut rest = [0; 1024];
    for _ in 0..MAX_REQUEST_BYTES / rest.len() {
        match read_by(&mut stream, &mut rest, deadline) {
            Ok(1..) => {}
            _ => break,
        }
    }
    Ok(())
}

enum Received {
    Request(Request),
    /// The other end closed the connection without a request.
    Nothing,
    Invalid(Response),
}

fn receive(stream: &mut TcpStream) -> io::Result<Received> {
    let deadline = Instant::now() + TRANSFER_TIMEOUT;
    let (mut bytes, mut length) = ([0; MAX_REQUEST_BYTES], 0);
    loop {
        match read_by(stream, &mut bytes[length..], deadline) {
            Ok(0) if length == 0 => return Ok(Received::Nothing),
            Ok(0) => return Ok(Received::Invalid(Response::line(400, "the request is incomplete"))),
            Ok(more) => length += more,
            Err(error) if is_timeout(&error) => {
                let seconds = TRANSFER_TIMEOUT.as_secs();
                let text = format!("the request did not arrive within {seconds} s");
                return Ok(Received::Invalid(Response::line(408, &text)));
            }
            Err(error) => return Err(error),
        }
        match parse(&bytes[..length]) {
            Ok(Some(request)) => return Ok(Received::Request(request)),
            Ok(None) => {}
            Err(response) => return Ok(Received::Invalid(response)),
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Returns the time up to a deadline.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

fn read_by(stream: &mut TcpStream, into: &mut [u8], deadline: Instant) -> io::Result<usize> {
    loop {
        stream.set_read_timeout(Some(left(deadline)?))?;
        match stream.read(into) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

fn send(stream: &mut TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    let deadline = Instant::now() + TRANSFER_TIMEOUT;
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left(deadline)?))?;
        match stream.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
