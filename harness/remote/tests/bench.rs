//! A remote on the host's loopback, without a packet socket, and a client that writes bytes.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::journal::{Event, Journal, Secrets, Session};
use crate::remote::{Authority, Hold, Inlet, Issued, Remote};
use crate::spec;

/// Longer than any test waits for an event that comes.
const PATIENCE: Duration = Duration::from_secs(10);

pub struct Bench {
    pub remote: Remote,
    pub journal: Journal,
    pub authority: Authority,
    pub run_a: Issued,
    pub port: u16,
    _folder: tempfile::TempDir,
}

pub struct Response {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Response {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{}", self.body))
    }
}

/// An inlet as the fallback cell makes it.
pub fn inlet() -> Inlet {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    Inlet {
        listener,
        port,
        packets: None,
        sockets: Arc::new(plain_socket),
        connecting: Arc::new(move || connecting(port)),
    }
}

fn plain_socket() -> io::Result<OwnedFd> {
    Ok(socket(
        AddressFamily::Inet,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?)
}

/// Reads `/proc/net/tcp` (proc(5)): local address, remote address, state; `02` is `SYN_SENT`.
fn connecting(port: u16) -> io::Result<Vec<u16>> {
    let wanted = format!("0100007F:{port:04X}");
    let table = std::fs::read_to_string("/proc/self/net/tcp")?;
    Ok(table
        .lines()
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let local = u16::from_str_radix(fields.get(1)?.split_once(':')?.1, 16).ok()?;
            (*fields.get(2)? == wanted && *fields.get(3)? == "02").then_some(local)
        })
        .collect())
}

fn surroundings(port: u16) -> Map<String, Value> {
    let remote = json!({ "url": format!("http://127.0.0.1:{port}") });
    Map::from_iter([("remote".to_owned(), remote)])
}

impl Bench {
    pub async fn new(drill: &str) -> Self {
        #[derive(serde::Deserialize)]
        struct Part {
            routes: Vec<spec::Route>,
            authority: Option<spec::Authority>,
        }
        // By way of JSON: for YAML, the crate wants an enum written as a tag.
        let drill: Value = serde_yaml::from_str(drill).unwrap();
        let drill: Part = serde_json::from_value(drill).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let secrets = Secrets::default();
        let journal = Journal::create(&folder.path().join("journal"), secrets.clone()).unwrap();
        let inlet = inlet();
        let port = inlet.port;
        let url = format!("http://127.0.0.1:{port}");
        let authority = Authority::new(drill.authority.as_ref(), secrets, &url);
        let run_a = authority.mint(Session::A).unwrap();
        let routes = drill.routes;
        let remote = Remote::start(
            &spec::Remote { routes },
            authority.clone(),
            inlet,
            journal.clone(),
            surroundings(port),
        )
        .await
        .unwrap();
        Self {
            remote,
            journal,
            authority,
            run_a,
            port,
            _folder: folder,
        }
    }

    /// Sends a request and reads the reply to its end.
    pub async fn ask(&self, line: &str, headers: &[&str], body: &str) -> Response {
        let port = self.port;
        let request = request(line, headers, body);
        tokio::task::spawn_blocking(move || {
            let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
            client.write_all(&request).unwrap();
            read(&mut client)
        })
        .await
        .unwrap()
    }

    /// With run A's token.
    pub async fn ask_as(&self, token: &str, line: &str, body: &str) -> Response {
        let header = format!("Authorization: Bearer {token}");
        self.ask(line, &[&header], body).await
    }

    /// Sends a request and leaves the reply where it is.
    pub fn send(&self, line: &str, headers: &[&str], body: &str) -> TcpStream {
        self.send_bytes(&request(line, headers, body))
    }

    pub fn send_bytes(&self, bytes: &[u8]) -> TcpStream {
        let mut client = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        client.write_all(bytes).unwrap();
        client
    }

    pub async fn arm(&self, hold: Hold) {
        self.remote.arm(hold, None).await.unwrap();
    }

    /// Waits for an event; panics with the journal where it does not come.
    pub async fn until<T>(&self, mut pick: impl FnMut(&Event) -> Option<T>) -> T {
        let found = self
            .journal
            .watch()
            .until(Instant::now() + PATIENCE, |entry| pick(&entry.event))
            .await;
        found.unwrap_or_else(|| panic!("it never came: {:#?}", self.kinds()))
    }

    /// The kinds of all events so far.
    pub fn kinds(&self) -> Vec<String> {
        self.journal.collect(|entry| {
            let event = serde_json::to_value(&*entry.event).unwrap();
            Some(event["kind"].as_str().unwrap().to_owned())
        })
    }

    pub fn count(&self, kind: &str) -> usize {
        self.kinds().iter().filter(|known| *known == kind).count()
    }
}

fn request(line: &str, headers: &[&str], body: &str) -> Vec<u8> {
    let headers: String = headers
        .iter()
        .map(|header| [header, "\r\n"].concat())
        .collect();
    let length = body.len();
    let text = format!(
        "{line} HTTP/1.1\r\nHost: remote\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
    );
    text.into_bytes()
}

pub fn read(client: &mut TcpStream) -> Response {
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut text = Vec::new();
    client.read_to_end(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let (head, body) = text
        .split_once("\r\n\r\n")
        .unwrap_or_else(|| panic!("{text}"));
    Response {
        status: head[9..12].parse().unwrap(),
        head: head.to_ascii_lowercase(),
        body: body.to_owned(),
    }
}
