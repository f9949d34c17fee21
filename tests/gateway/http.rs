//! A listener that plays an HTTP server, the upstream or whoever approves, and answers when the test says so.

use std::{
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, Shutdown, TcpListener, TcpStream},
    os::fd::{AsFd, AsRawFd},
    time::Duration,
};

use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, listen, socket},
};
use serde_json::{Value, json};

use crate::place::{LIMIT, eventually, text};

/// A listener that plays an HTTP server.
pub struct Http(TcpListener);

impl Http {
    pub fn listen() -> Self {
        Self(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap())
    }

    /// One whose queue is full: a connect stays in `SYN_SENT` until [`Self::release`].
    pub fn unreachable() -> (Self, TcpStream) {
        let kind = (AddressFamily::Inet, SockType::Stream);
        let fd = socket(kind.0, kind.1, SockFlag::SOCK_CLOEXEC, None).unwrap();
        bind(fd.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, 0)).unwrap();
        listen(&fd, Backlog::new(0).unwrap()).unwrap();
        let http = Self(fd.into());
        let filler = TcpStream::connect(http.0.local_addr().unwrap()).unwrap();
        (http, filler)
    }

    /// Waits until somebody's connect is pending. The kernel has no event for it.
    pub fn until_pending(&self) {
        let port = self.0.local_addr().unwrap().port();
        let pending = format!("0100007F:{port:04X} 02 ");
        eventually("a pending connect", || {
            let connections = fs::read_to_string("/proc/net/tcp").unwrap();
            connections.contains(&pending)
        });
    }

    /// Lets the pending connect through. The kernel tries again by itself, within about a second.
    pub fn release(&self) {
        drop(self.0.accept().unwrap());
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.0.local_addr().unwrap())
    }

    fn arrives_within(&self, limit: Duration) -> bool {
        let mut fds = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        let limit = PollTimeout::try_from(limit).unwrap();
        poll(&mut fds, limit).unwrap() == 1
    }

    pub fn connection(&self) -> TcpStream {
        assert!(self.arrives_within(LIMIT), "no connection");
        let (stream, _) = self.0.accept().unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream
    }

    /// The next request, read to its end.
    pub fn request(&self) -> Request {
        Request::read(self.connection())
    }

    /// The connections that wait now.
    pub fn waiting(&self) -> Vec<TcpStream> {
        std::iter::from_fn(|| {
            self.arrives_within(Duration::ZERO)
                .then(|| self.connection())
        })
        .collect()
    }

    /// Asserts that not a byte has come, on whatever connection. Whoever could send one must have given up.
    pub fn nothing_came(&self) {
        for mut stream in self.waiting() {
            let mut bytes = Vec::new();
            let read = stream.read_to_end(&mut bytes);
            assert!(bytes.is_empty(), "{}", text(&bytes));
            let reset = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionReset;
            assert!(
                read.as_ref().is_ok() || read.as_ref().is_err_and(reset),
                "{read:?}"
            );
        }
    }
}

/// A request that was read and not answered.
pub struct Request {
    stream: TcpStream,
    pub line: String,
    pub headers: String,
    pub body: Value,
}

impl Request {
    pub fn read(stream: TcpStream) -> Self {
        let mut lines = BufReader::new(stream.try_clone().unwrap());
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            lines.read_line(&mut line).unwrap();
            let line = line.trim_end().to_owned();
            if line.is_empty() {
                break;
            }
            head.push(line);
        }
        assert!(!head.is_empty(), "a connection without a request");
        let line = head.remove(0).trim_end_matches(" HTTP/1.1").to_owned();
        let length = head.iter().find_map(|header| {
            let (name, value) = header.split_once(": ")?;
            name.eq_ignore_ascii_case("content-length")
                .then(|| value.parse().unwrap())
        });
        let mut body = vec![0; length.unwrap_or(0)];
        lines.read_exact(&mut body).unwrap();
        Self {
            stream,
            line,
            headers: head.join("\n").to_ascii_lowercase(),
            body: serde_json::from_slice(&body).unwrap_or_default(),
        }
    }

    pub fn reply(mut self, status: u16, body: &Value) {
        let body = body.to_string();
        let head = format!(
            "HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        // The gateway may have given it up.
        let _ = self.stream.write_all(format!("{head}{body}").as_bytes());
    }

    pub fn accept(self) {
        self.reply(201, &json!({ "id": "b-1", "state": "queued" }));
    }

    pub fn approve(self) {
        self.reply(200, &json!({ "approved": true, "approval": "A-1" }));
    }

    /// Closes without an answer.
    pub fn lose(self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Waits until the other end has closed.
    pub fn until_given_up(mut self) {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).unwrap();
        assert!(rest.is_empty());
    }
}
