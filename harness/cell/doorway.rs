//! What the cell hands out once its room is ready: the sockets at which the harness serves those inside.

use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use super::fence::Fence;
use super::message::{Plan, Report};
use super::outside::CellError;
use crate::journal::{CellKind, Event, Journal};

/// What the cell hands out for the remote.
pub struct Doorway {
    pub listener: TcpListener,
    pub packets: Option<OwnedFd>,
    pub port: u16,
    pub network: NetworkDoor,
    pub otlp: Option<OtlpDoor>,
    /// What the server, and the authority beside it, must enter before they run.
    pub fence: Option<Fence>,
}

/// Where all else comes in that processes of the cell seek. Nothing does where the network is the host's.
#[derive(Debug, Default)]
pub struct NetworkDoor {
    /// For questions about names, over UDP and over TCP. Listens at every address.
    pub resolver: Option<(UdpSocket, TcpListener)>,
    /// `AF_PACKET`/`SOCK_RAW`, nonblocking: receives what is sent to addresses at which nobody listens. What is asked for
    /// there is to be refused.
    pub contacts: Option<OwnedFd>,
}

impl NetworkDoor {
    pub fn is_shut(&self) -> bool {
        self.resolver.is_none() && self.contacts.is_none()
    }
}

/// Where the server's OTLP comes in.
pub struct OtlpDoor {
    pub http: TcpListener,
    pub grpc: TcpListener,
}

/// Takes what the room offers and appends `cell-ready`.
pub(super) fn enter(
    (report, descriptors): (Report, Vec<OwnedFd>),
    plan: &Plan,
    journal: &Journal,
    fallback: Option<&str>,
) -> Result<Doorway, CellError> {
    let Report::Ready {
        kind,
        user_namespace,
        packet_socket,
        resolver,
        contacts,
        otlp,
        port,
        shared,
        fence,
        weakens: weakened,
    } = report
    else {
        return Err(CellError::Failed(
            "it did not say that it was ready".to_owned(),
        ));
    };
    let mut descriptors = descriptors.into_iter().peekable();
    let listener = descriptors.next().ok_or(CellError::Gone)?;
    journal.append(Event::CellReady {
        cell: kind,
        user_namespace,
        packet_socket,
        remote_port: port,
        weakens: weakens(kind, packet_socket, plan.open_network, &shared, fallback)
            .into_iter()
            .chain(weakened)
            .collect(),
    });
    let packets = descriptors.next_if(|_| packet_socket);
    let resolver = match resolver.then(|| (descriptors.next(), descriptors.next())) {
        None => None,
        Some((Some(datagrams), Some(connections))) => {
            Some((UdpSocket::from(datagrams), TcpListener::from(connections)))
        }
        Some(_) => return Err(CellError::Gone),
    };
    let network = NetworkDoor {
        resolver,
        contacts: descriptors.next_if(|_| contacts),
    };
    let otlp = match (otlp, descriptors.next(), descriptors.next()) {
        (false, ..) => None,
        (true, Some(http), Some(grpc)) => Some(OtlpDoor {
            http: TcpListener::from(http),
            grpc: TcpListener::from(grpc),
        }),
        (true, ..) => return Err(CellError::Gone),
    };
    Ok(Doorway {
        listener: TcpListener::from(listener),
        packets,
        port,
        network,
        otlp,
        fence,
    })
}

/// What a reader of the answers must know about this cell.
fn weakens(
    kind: CellKind,
    packet_socket: bool,
    open_network: bool,
    shared: &[PathBuf],
    fallback: Option<&str>,
) -> Vec<String> {
    let mut weakens = Vec::new();
    if let Some(because) = fallback {
        weakens.push(format!("{because}; the subreaper cell was used instead"));
    }
    if kind == CellKind::Subreaper {
        weakens.push(
            "helpers: an orphan's parent is the cell's process, not pid 1, so a server that waits for parent pid 1 \
             behaves differently"
                .to_owned(),
        );
    }
    if kind == CellKind::Subreaper && !open_network {
        weakens.push(
            "quiet: the network is the host's; the server can connect over TCP to the remote's port alone (Landlock, \
             seccomp), and what it was refused is not recorded"
                .to_owned(),
        );
        weakens.push(
            "effects: Unix sockets of the host can be reached, such as those of a container engine or a name service"
                .to_owned(),
        );
        weakens.push(
            "protocol: a server is refused a TCP port that a process of its own session has opened"
                .to_owned(),
        );
    } else if open_network {
        weakens.push("quiet: the drill opened the host's network, so only connections to the remote are seen".to_owned());
    }
    if !shared.is_empty() {
        let folders: Vec<_> = shared
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        let because = if kind == CellKind::Subreaper {
            "no mounts are used"
        } else {
            "the drill's own folder is there"
        };
        weakens.push(format!(
            "protocol, resources: {} {} the host's, since {because}: a server can find the files of other trials there",
            folders.join(", "),
            if shared.len() == 1 { "is" } else { "are" },
        ));
    }
    if !packet_socket {
        weakens.push(
            "before-dispatch: a connection attempt is seen by polling, and one that was held goes on only when the \
             kernel sends its SYN again, up to 2 s later; the record is not read at the moment of dispatch"
                .to_owned(),
        );
    }
    weakens
}
