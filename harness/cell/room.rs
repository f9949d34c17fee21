//! Making the room: namespaces around the cell's init, or a plain subreaper.
//!
//! ```text
//!   harness ── socket ── outer ──fork── init (PID 1 of the cell)
//!                          │              ├─ client ── server ── …
//!                          │              └─ orphans
//!                          └ waits: when the socket closes it kills init, and the kernel ends all that is left
//! ```
//!
//! Runs in the cell's own process, which has one thread and has held no lock.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};

use super::bounds::Bounds;
use super::mounts::{Survey, TEMPORARY};
use super::network::Network;
use super::{network, resolver, sys};

/// The remote's port where the network is the cell's own: always the same, so that it can stand in a snapshot.
const PORT: u16 = 7411;

/// The ports of OTLP over HTTP and over gRPC, as the specification registers them.
const OTLP_PORTS: [u16; 2] = [4318, 4317];

/// Where Unix sockets of the host live (docker, systemd, the X server). Namespaces do not hide a socket that has a path.
const COVERED: [&str; 4] = ["/run", "/var/run", "/tmp/.X11-unix", "/tmp/.ICE-unix"];

/// What the room offers.
pub(super) struct Room {
    pub listener: TcpListener,
    pub packets: Option<OwnedFd>,
    pub port: u16,
    pub network: Network,
    /// What this room weakens, a sentence each.
    pub weakens: Vec<String>,
    /// For OTLP over HTTP and over gRPC, once they are asked for.
    pub otlp: Option<[TcpListener; 2]>,
    /// The folders of temporary files that stay the host's.
    pub shared: Vec<PathBuf>,
}

impl Room {
    /// Listens for OTLP as well: at its usual ports where the network is the cell's own, else at any that are free.
    pub fn with_otlp(mut self) -> io::Result<Self> {
        let [http, grpc] = if self.port == PORT {
            OTLP_PORTS
        } else {
            [0, 0]
        };
        let listen = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        self.otlp = Some([listen(http)?, listen(grpc)?]);
        Ok(self)
    }

    /// All that the harness listens on.
    pub fn ports(&self) -> Vec<u16> {
        let otlp = self.otlp.iter().flatten();
        let otlp = otlp.filter_map(|listener| Some(listener.local_addr().ok()?.port()));
        otlp.chain([self.port]).collect()
    }
}

/// Leaves the host's namespaces. The next child of this process is PID 1 of the new one. True where that took a user
/// namespace.
pub(super) fn leave_host(open_network: bool) -> io::Result<bool> {
    let mut rooms = CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWIPC;
    if !open_network {
        rooms |= CloneFlags::CLONE_NEWNET;
    }
    if geteuid().is_root() && unshare(rooms).is_ok() {
        return Ok(false);
    }
    let (user, group) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER | rooms)?;
    // The user stays who they are; user_namespaces(7) wants `setgroups` denied before a group map by an ordinary user.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    Ok(true)
}

/// Furnishes the namespaces; runs as their PID 1. `scratch` is a folder of the trial's own.
pub(super) fn furnish(
    open_network: bool,
    user_namespace: bool,
    bounds: Bounds,
    temporary: Survey,
    scratch: &Path,
) -> io::Result<Room> {
    let step = |what: &'static str| {
        move |error: io::Error| io::Error::new(error.kind(), format!("{what}: {error}"))
    };
    let plain = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(
        None::<&str>,
        "/",
        None::<&str>,
        MsFlags::MS_REC | MsFlags::MS_PRIVATE,
        None::<&str>,
    )
    .map_err(io::Error::from)
    .map_err(step("failed to make the mounts private"))?;
    mount(Some("proc"), "/proc", Some("proc"), plain, None::<&str>)
        .map_err(io::Error::from)
        .map_err(step("failed to mount /proc"))?;
    bounds.harden_namespace(user_namespace);
    for folder in COVERED {
        cover(Path::new(folder)).map_err(step("failed to cover the host's sockets"))?;
    }
    let shared = temporary
        .mount()
        .map_err(step("failed to mount folders for temporary files"))?;
    if open_network {
        return Ok(Room {
            shared,
            ..open_room()?
        });
    }
    let interface = sys::loopback_up().map_err(step("failed to bring the loopback up"))?;
    let packets = sys::syn_socket(interface)
        .ok()
        .filter(|_| allow_reinjection().is_ok());
    let listener =
        sys::listen_with_short_queue(PORT).map_err(step("failed to listen inside the cell"))?;
    let network = network::lay(interface, packets.is_some(), PORT)
        .map_err(step("failed to lay the routes inside the cell"))?;
    let weakens = resolver::mount_files(scratch, &COVERED).err();
    Ok(Room {
        listener,
        packets,
        port: PORT,
        network,
        weakens: weakens.into_iter().collect(),
        otlp: None,
        shared,
    })
}

/// A room on the host's network: any free port, and no packet socket, which would see the host's connections.
pub(super) fn open_room() -> io::Result<Room> {
    let listener = sys::listen_with_short_queue(0)?;
    let port = listener.local_addr()?.port();
    Ok(Room {
        listener,
        packets: None,
        port,
        network: Network::default(),
        weakens: Vec::new(),
        otlp: None,
        shared: TEMPORARY.iter().map(PathBuf::from).collect(),
    })
}

/// Puts an empty file system over a folder. Links in it stay: `/run/current-system` leads to all programs on NixOS.
fn cover(folder: &Path) -> io::Result<()> {
    match fs::symlink_metadata(folder) {
        Ok(metadata) if metadata.is_dir() => {}
        _ => return Ok(()),
    }
    let links: Vec<_> = fs::read_dir(folder)
        .map(|entries| {
            entries
                .filter_map(|entry| {
                    let path = entry.ok()?.path();
                    Some((fs::read_link(&path).ok()?, path))
                })
                .collect()
        })
        .unwrap_or_default();
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(
        Some("tmpfs"),
        folder,
        Some("tmpfs"),
        flags,
        Some("mode=0755,size=1m"),
    )?;
    for (target, link) in links {
        std::os::unix::fs::symlink(target, link)?;
    }
    Ok(())
}

/// A SYN that is sent again through the packet socket comes from a device, with an address of this machine. The kernel
/// takes it for 127.0.0.1 only with `route_localnet`, and from an address of its own only with `accept_local` (ip-sysctl).
fn allow_reinjection() -> io::Result<()> {
    for interface in ["all", "lo"] {
        for (switch, value) in [
            ("route_localnet", "1"),
            ("accept_local", "1"),
            ("rp_filter", "0"),
        ] {
            fs::write(
                format!("/proc/sys/net/ipv4/conf/{interface}/{switch}"),
                value,
            )?;
        }
    }
    Ok(())
}
