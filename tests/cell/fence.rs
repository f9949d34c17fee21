//! Where the network is the host's, a server reaches the remote, and nothing else of it.

use std::fs;
use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::process::Command;

use crate::ground::Ground;
use crate::said::{Said, say};
use crate::server::{drill, node, python_that};
use crate::{assert_all_held, weakens};

const FORBIDDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/outside/forbidding.py");

/// A service of the host that no drill may reach.
struct Outside {
    tcp: TcpListener,
    udp: UdpSocket,
}

impl Outside {
    fn new() -> Self {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        tcp.set_nonblocking(true).unwrap();
        udp.set_nonblocking(true).unwrap();
        Self { tcp, udp }
    }

    fn ports(&self) -> [u16; 2] {
        [
            self.tcp.local_addr().unwrap().port(),
            self.udp.local_addr().unwrap().port(),
        ]
    }

    fn is_connected_to(&self) -> bool {
        came(self.tcp.accept())
    }

    fn has_received(&self) -> bool {
        came(self.udp.recv(&mut [0; 16]))
    }
}

/// Whether something is there, without waiting: whoever could send has ended.
fn came<T>(taken: std::io::Result<T>) -> bool {
    match taken {
        Ok(_) => true,
        Err(error) if error.kind() == ErrorKind::WouldBlock => false,
        Err(error) => panic!("{error}"),
    }
}

/// Tries each way out, here and in a child, and says on stderr what came of it.
const TRIES: &str = r#"
import ctypes, socket, subprocess
tcp, udp = ("127.0.0.1", int(os.environ["TCP"])), ("127.0.0.1", int(os.environ["UDP"]))

def tell(way, action):
    try:
        action()
        came = "went through"
    except OSError as error:
        came = error.strerror
    print(way + ":", came, file=sys.stderr, flush=True)

def connect(family=socket.AF_INET, protocol=0, address=tcp):
    with socket.socket(family, socket.SOCK_STREAM, protocol) as one:
        one.connect(address)

def fast_open():
    with socket.socket() as one:
        one.sendto(b"x", socket.MSG_FASTOPEN, tcp)

def datagram():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(b"x", udp)

def ring():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(425, 8, ctypes.create_string_buffer(256)) < 0:  # io_uring_setup
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))

if len(sys.argv) == 1:
    tell("connect", connect)
    tell("connect over IPv6", lambda: connect(socket.AF_INET6, 0, ("::ffff:127.0.0.1", tcp[1])))
    tell("multipath", lambda: connect(protocol=262))
    tell("fast open", fast_open)
    tell("datagram", datagram)
    tell("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).close())
    tell("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close())
    tell("virtual machine", lambda: socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).close())
    tell("ring", ring)
    tell("addresses", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).close())
    tell("unix", lambda: socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).close())
    tell("listen", lambda: socket.create_server(("127.0.0.1", 0)).close())
    subprocess.run([sys.executable, "-S", __file__, "child"], stdin=subprocess.DEVNULL, check=True)
else:
    tell("connect of a child", connect)
    sys.exit()
"#;

/// Runs the server that tries them in the subreaper cell.
fn tries(outside: &Outside, network: &str) -> (Ground, Said, String) {
    let ground = Ground::new();
    fs::write(ground.path().join("server.py"), python_that(TRIES)).unwrap();
    let [tcp, udp] = outside.ports();
    let command = format!(
        "[env, TCP={tcp}, UDP={udp}, python3, -S, \"{{{{ root }}}}/server.py\"]\n  network: {network}"
    );
    ground.drill("tries", &drill("tries", &command, "after-result"));
    let said = say(ground.command([]).env("CARGO_DRILL_CELL", "subreaper"));
    assert_all_held(&ground, &said);
    let stderr = ground.run().join("tries__after-result/stderr-a.txt");
    let stderr = fs::read_to_string(stderr).unwrap();
    (ground, said, stderr)
}

#[track_caller]
fn assert_came(stderr: &str, way: &str, expected: &str) {
    let line = format!("{way}: {expected}\n");
    assert!(stderr.contains(&line), "{line}in\n{stderr}");
}

pub fn below_a_subreaper_a_server_reaches_the_remote_alone() {
    let outside = Outside::new();
    let (ground, _, stderr) = tries(&outside, "closed");
    assert!(!outside.is_connected_to(), "{stderr}");
    assert!(!outside.has_received(), "{stderr}");
    for way in ["connect", "connect over IPv6", "connect of a child"] {
        assert_came(&stderr, way, "Permission denied");
    }
    for way in ["multipath", "datagram", "raw"] {
        assert_came(&stderr, way, "Protocol not supported");
    }
    for way in ["packet", "virtual machine"] {
        assert_came(&stderr, way, "Address family not supported by protocol");
    }
    assert_came(&stderr, "fast open", "Operation not supported");
    assert_came(&stderr, "ring", "Function not implemented");
    for way in ["addresses", "unix", "listen"] {
        assert_came(&stderr, way, "went through");
    }
    let weakens = weakens(&ground.run().join("tries__after-result")).join("\n");
    for words in ["the remote's port alone", "Unix sockets"] {
        assert!(weakens.contains(words), "{weakens}");
    }
}

pub fn a_drill_that_opens_the_network_gets_all_of_it_below_a_subreaper() {
    let outside = Outside::new();
    let (ground, _, stderr) = tries(&outside, "open");
    assert!(outside.is_connected_to(), "{stderr}");
    assert!(outside.has_received(), "{stderr}");
    assert_came(&stderr, "connect", "went through");
    let weakens = weakens(&ground.run().join("tries__after-result")).join("\n");
    assert!(weakens.contains("the drill opened"), "{weakens}");
}

/// `cargo-drill` below a subreaper, where the kernel refuses this system call.
fn without(call: &str, ground: &Ground) -> Said {
    let mut command = Command::new("python3");
    command
        .arg(FORBIDDING)
        .args([call, env!("CARGO_BIN_EXE_cargo-drill")])
        .current_dir(ground.path())
        .env("CARGO_DRILL_CELL", "subreaper")
        .env_remove("CI");
    say(&mut command)
}

pub fn without_namespaces_and_without_a_fence_a_trial_is_an_error_unless_the_drill_opens_the_network()
 {
    let closed = Ground::new();
    fs::write(closed.path().join("server.py"), python_that("")).unwrap();
    let command = "[python3, -S, \"{{ root }}/server.py\"]";
    closed.drill("closed", &drill("closed", command, "idle"));
    for (call, because) in [
        ("landlock_create_ruleset", "this kernel has no Landlock"),
        ("seccomp", "no filter of system calls can be installed"),
    ] {
        let said = without(call, &closed);
        assert_eq!(said.code, Some(2), "{said}");
        let words = said.out.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [because, "unprivileged_userns_clone=1", "network: open"] {
            assert!(words.contains(part), "{part}: {said}");
        }
    }

    let open = Ground::new();
    fs::write(open.path().join("server.py"), python_that("")).unwrap();
    let command = format!("{command}\n  network: open");
    open.drill("open", &drill("open", &command, "idle"));
    let said = without("landlock_create_ruleset", &open);
    assert_all_held(&open, &said);
}

pub fn good_servers_of_two_runtimes_work_behind_the_fence() {
    let ground = Ground::new();
    let crash = "before-dispatch, after-acceptance, { at: after-result, name: seen, gate: true }";
    fs::write(ground.path().join("server.py"), python_that("")).unwrap();
    let command = "[python3, -S, \"{{ root }}/server.py\"]";
    ground.drill("in-python", &drill("in-python", command, crash));
    let command = format!("[node, {:?}]", node("good"));
    ground.drill("in-node", &drill("in-node", &command, crash));
    let said = say(ground.command([]).env("CARGO_DRILL_CELL", "subreaper"));
    assert_all_held(&ground, &said);
}

/// It listens on a port of its own choice, and issues a credential to whoever asks there.
const GATEWAY: &str = r#"
import itertools, os, socket, sys
place = os.environ["HOME"] + "/port"
if sys.argv[1] == "serve":
    listener = socket.create_server(("127.0.0.1", 0))
    with open(place, "w") as file:
        print(listener.getsockname()[1], file=file)
    print("ready", flush=True)
    for n in itertools.count():
        asked, _ = listener.accept()
        asked.sendall(b"token-of-the-gateway-%d\n" % n)
        asked.close()
with socket.create_connection(("127.0.0.1", int(open(place).read()))) as asked:
    sys.stdout.write(asked.makefile().read())
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[2])))
except PermissionError:
    pass
else:
    sys.exit("it got out")
"#;

pub fn a_gateway_that_listens_in_the_cell_can_be_reached_and_reaches_nothing_else() {
    let ground = Ground::new();
    let outside = Outside::new();
    let [port, _] = outside.ports();
    fs::write(ground.path().join("gateway.py"), GATEWAY).unwrap();
    let asks = "
import socket
with socket.create_connection(('127.0.0.1', int(open(os.environ['HOME'] + '/port').read()))) as asked:
    assert asked.makefile().read().startswith('token-of-the-gateway')
";
    fs::write(ground.path().join("server.py"), python_that(asks)).unwrap();
    let command = "[python3, -S, \"{{ root }}/server.py\"]";
    let gateway =
        |verb: &str| format!("[python3, -S, \"{{{{ root }}}}/gateway.py\", {verb}, \"{port}\"]");
    let authority = format!(
        "authority: {{ command: {{ serve: {}, issue: {}, revoke: {} }} }}",
        gateway("serve"),
        gateway("issue"),
        gateway("revoke"),
    );
    let text = drill("asks", command, "after-result");
    let text = text.replace("authority: { bearer: Authorization }", &authority);
    assert!(text.contains("gateway.py"));
    ground.drill("asks", &text);
    let said = say(ground.command([]).env("CARGO_DRILL_CELL", "subreaper"));
    assert_all_held(&ground, &said);
    assert!(!outside.is_connected_to(), "{said}");
}
