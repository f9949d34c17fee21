//! A connection held pending and let go at once, in a network namespace with a packet socket.
//!
//! The tests need a network namespace of their own: each of them starts this program once more under `unshare --net`.
//! Where that is not allowed they are ignored, with a hint.

#[path = "outside/needs.rs"]
mod needs;

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cargo_drill::journal::{Event, Journal, Secrets, Stamp};
use cargo_drill::remote::{AtDispatch, Authority, Hold, Inlet, Remote};
use cargo_drill::spec;
use needs::test;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, connect, recv, socket,
};
use serde_json::json;

/// A line of the list below: a test that is run inside of a network namespace.
macro_rules! in_namespace {
    ($name:ident) => {{
        fn outer() {
            inside(stringify!($name), $name());
        }
        test!(outer as stringify!($name), "network")
    }};
}

fn main() -> ExitCode {
    needs::main(
        file!(),
        vec![
            in_namespace!(a_held_connection_is_seen_and_released_at_once),
            in_namespace!(what_is_let_through_costs_no_second_of_the_kernels),
            in_namespace!(
                the_second_connection_is_held_the_first_and_those_after_the_release_are_not
            ),
            in_namespace!(a_server_that_gave_up_while_it_was_held_keeps_nobody_waiting),
            in_namespace!(a_server_that_gave_up_before_it_was_let_through_keeps_nobody_waiting),
            in_namespace!(many_at_once_all_get_in_and_each_is_sought_once),
        ],
    )
}

/// Set in the run inside the namespace.
const INSIDE: &str = "DRILL_TEST_IN_NAMESPACE";

/// Longer than any test waits for an event that comes.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a held connection may take from its release to its acceptance, on a machine that is busy: well below the
/// second after which the kernel would repeat the SYN by itself.
const AT_ONCE: Duration = Duration::from_millis(500);

/// Runs this test inside of a network namespace: this program once more, with the test's name.
fn inside(name: &str, test: impl Future<Output = ()>) {
    if std::env::var_os(INSIDE).is_some() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build();
        return runtime.unwrap().block_on(test);
    }
    let output = Command::new("sh")
        .args(["-c", needs::NETWORK, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "inside the namespace:\n{}{}",
        said(&output.stdout),
        said(&output.stderr)
    );
}

struct Bench {
    remote: Remote,
    journal: Journal,
    port: u16,
    _folder: tempfile::TempDir,
}

/// An `AF_PACKET` socket, bound to `lo`. There is no safe constructor for its address, and none is needed: in a namespace
/// whose only device is `lo`, an unbound socket sees no other. Sending needs the device, so it is bound by asking the
/// kernel for the address of a frame that it received.
fn packets() -> OwnedFd {
    let socket = socket(
        AddressFamily::Packet,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
        SockProtocol::EthAll,
    )
    .unwrap();
    let poke = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    poke.send_to(b"x", poke.local_addr().unwrap()).unwrap();
    let mut frame = [0; 128];
    let (_, from) =
        nix::sys::socket::recvfrom::<nix::sys::socket::LinkAddr>(socket.as_raw_fd(), &mut frame)
            .unwrap();
    nix::sys::socket::bind(socket.as_raw_fd(), &from.unwrap()).unwrap();
    while recv(socket.as_raw_fd(), &mut frame, MsgFlags::MSG_DONTWAIT).is_ok() {}
    socket
}

impl Bench {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let secrets = Secrets::default();
        let journal = Journal::create(&folder.path().join("journal"), secrets.clone()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let inlet = Inlet {
            listener,
            port,
            packets: Some(packets()),
            sockets: Arc::new(|| Ok(plain_socket(SockFlag::SOCK_CLOEXEC))),
            connecting: Arc::new(|| Err(io::Error::other("not asked where packets are seen"))),
        };
        let spec: spec::Remote = serde_json::from_value(json!({ "routes": [
            { "on": "POST /builds", "effect": "build", "reply": { "json": { "id": "{{ effect.id }}" } } }
        ]}))
        .unwrap();
        let remote = Remote::start(
            &spec,
            Authority::new(None, secrets, "http://127.0.0.1"),
            inlet,
            journal.clone(),
            serde_json::Map::new(),
        )
        .await
        .unwrap();
        Self {
            remote,
            journal,
            port,
            _folder: folder,
        }
    }

    /// When the event came.
    async fn until(&self, pick: impl Fn(&Event) -> bool) -> Stamp {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        let mut watch = self.journal.watch();
        watch
            .until(deadline, |entry| pick(&entry.event).then_some(entry.at))
            .await
            .unwrap_or_else(|| panic!("it never came: {:#?}", self.kinds()))
    }

    fn kinds(&self) -> Vec<String> {
        self.journal.collect(|entry| {
            let event = serde_json::to_value(&*entry.event).unwrap();
            Some(event["kind"].as_str().unwrap().to_owned())
        })
    }

    fn ask(&self) -> std::thread::JoinHandle<(String, Duration)> {
        let port = self.port;
        std::thread::spawn(move || {
            let start = Instant::now();
            let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let head = b"POST /builds HTTP/1.1\r\nHost: r\r\nContent-Length: 2\r\n\r\n{}";
            client.write_all(head).unwrap();
            client.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut reply = String::new();
            client.read_to_string(&mut reply).unwrap();
            (reply, start.elapsed())
        })
    }

    /// A connection attempt that does not wait for its outcome, as an event loop makes it.
    fn reach(&self) -> OwnedFd {
        let socket = plain_socket(SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK);
        let address = SocketAddrV4::new([127, 0, 0, 1].into(), self.port);
        let reached = connect(socket.as_raw_fd(), &SockaddrIn::from(address));
        assert_eq!(reached, Err(nix::errno::Errno::EINPROGRESS));
        socket
    }
}

fn plain_socket(flags: SockFlag) -> OwnedFd {
    socket(AddressFamily::Inet, SockType::Stream, flags, None).unwrap()
}

async fn join(asked: std::thread::JoinHandle<(String, Duration)>) -> Duration {
    let (reply, took) = tokio::task::spawn_blocking(|| asked.join().unwrap())
        .await
        .unwrap();
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    took
}

fn held(n: u32) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::ConnectionHeld { connection } if *connection == n)
}

fn accepted(n: u32) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::ConnectionAccepted { connection } if *connection == n)
}

async fn a_held_connection_is_seen_and_released_at_once() {
    let bench = Bench::new().await;
    for n in 1..=3 {
        bench
            .remote
            .arm(Hold::Connection { nth: 1 }, None)
            .await
            .unwrap();
        let reached = Stamp::now();
        let asked = bench.ask();
        let seen = bench.until(held(n)).await;
        let released = Stamp::now();
        bench.remote.release().await;
        let got_in = bench.until(accepted(n)).await;
        join(asked).await;
        println!(
            "asked to held {} us, release to accepted {} us",
            seen.since(reached) / 1000,
            got_in.since(released) / 1000
        );
        assert!(Duration::from_nanos(got_in.since(released)) < AT_ONCE);
    }
    assert_eq!(bench.remote.effects().len(), 3);
}

async fn what_is_let_through_costs_no_second_of_the_kernels() {
    let bench = Bench::new().await;
    let look: AtDispatch = Arc::new(|_| {});
    bench.remote.arm(Hold::Nothing, Some(look)).await.unwrap();
    for n in 1..=10 {
        let took = join(bench.ask()).await;
        println!("let through, request and reply: {} us", took.as_micros());
        assert!(took < AT_ONCE, "{took:?}");
        assert!(
            bench
                .kinds()
                .iter()
                .filter(|kind| *kind == "connection-sought")
                .count()
                == n
        );
    }
}

async fn the_second_connection_is_held_the_first_and_those_after_the_release_are_not() {
    let bench = Bench::new().await;
    bench
        .remote
        .arm(Hold::Connection { nth: 2 }, None)
        .await
        .unwrap();
    join(bench.ask()).await;
    let second = bench.ask();
    bench.until(held(2)).await;
    let third = bench.ask();
    bench.until(held(3)).await;
    assert_eq!(bench.remote.effects().len(), 1);
    bench.remote.release().await;
    join(second).await;
    join(third).await;
    let took = join(bench.ask()).await;
    assert!(took < AT_ONCE, "{took:?}");
    assert_eq!(bench.remote.effects().len(), 4);
}

async fn a_server_that_gave_up_while_it_was_held_keeps_nobody_waiting() {
    let bench = Bench::new().await;
    bench
        .remote
        .arm(Hold::Connection { nth: 1 }, None)
        .await
        .unwrap();
    let reached = Stamp::now();
    let socket = bench.reach();
    let seen = bench.until(held(1)).await;
    println!("connect to held {} us", seen.since(reached) / 1000);
    drop(socket);
    bench.remote.release().await;
    let took = join(bench.ask()).await;
    assert!(took < AT_ONCE, "{took:?}");
    assert_eq!(bench.remote.effects().len(), 1);
}

async fn a_server_that_gave_up_before_it_was_let_through_keeps_nobody_waiting() {
    let bench = Bench::new().await;
    let (gone, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    // The look takes as long as the server takes to give up.
    let look: AtDispatch = Arc::new(move |connection| {
        if connection == 1 {
            let _ = wait.lock().unwrap().recv();
        }
    });
    bench.remote.arm(Hold::Nothing, Some(look)).await.unwrap();
    let socket = bench.reach();
    bench
        .until(|event| matches!(event, Event::ConnectionSought { .. }))
        .await;
    drop(socket);
    drop(gone);
    let took = join(bench.ask()).await;
    assert!(took < AT_ONCE, "{took:?}");
}

async fn many_at_once_all_get_in_and_each_is_sought_once() {
    let bench = Bench::new().await;
    let look: AtDispatch = Arc::new(|_| {});
    bench.remote.arm(Hold::Nothing, Some(look)).await.unwrap();
    let asked: Vec<_> = (0..20).map(|_| bench.ask()).collect();
    for asked in asked {
        let took = join(asked).await;
        println!("one of many: {} us", took.as_micros());
    }
    for kind in ["connection-sought", "connection-accepted"] {
        let seen = bench.kinds().iter().filter(|known| *known == kind).count();
        assert_eq!(seen, 20, "{kind}");
    }
    let ports = bench.journal.collect(|entry| match *entry.event {
        Event::ConnectionSought { port, .. } => Some(SocketAddr::from(([127, 0, 0, 1], port))),
        _ => None,
    });
    let own = bench.remote.own_ports();
    assert!(ports.iter().all(|port| !own.contains(&port.port())));
}
