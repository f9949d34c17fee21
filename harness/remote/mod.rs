use crate::{journal::*, spec};
use std::{io, net::TcpListener, os::fd::OwnedFd, sync::Arc};
pub struct Inlet {
    pub listener: TcpListener,
    pub port: u16,
    pub packets: Option<OwnedFd>,
    pub sockets: Arc<dyn Fn() -> io::Result<OwnedFd> + Send + Sync>,
    pub connecting: Arc<dyn Fn() -> io::Result<Vec<u16>> + Send + Sync>,
}
#[derive(Clone)]
pub struct Authority;
pub struct Issued {
    pub token: String,
    pub derived: String,
}
impl Authority {
    pub fn new(_: Option<&spec::Authority>, _: Secrets) -> Self {
        Self
    }
    pub fn mint(&self, _: Session) -> Issued {
        Issued {
            token: "drill-0123456789abcdef".into(),
            derived: "x".into(),
        }
    }
    pub fn revoke(&self, _: Session) {}
}
pub struct Remote;
#[derive(Debug, thiserror::Error)]
#[error("x")]
pub struct RemoteError;
pub enum Hold {
    Nothing,
    Connection { nth: u32 },
    Request,
    Reply,
}
impl Remote {
    pub async fn start(
        _: &spec::Remote,
        _: Authority,
        _: Inlet,
        _: Journal,
    ) -> Result<Remote, RemoteError> {
        todo!()
    }
    pub async fn arm(
        &self,
        _: Hold,
        _: Option<Arc<dyn Fn(u32) + Send + Sync>>,
    ) -> Result<(), RemoteError> {
        todo!()
    }
    pub fn replies(&self, _: spec::ReplyTiming) {}
    pub async fn release(&self) {}
    pub async fn probe(&self, _: &str) -> Option<u16> {
        None
    }
    pub async fn stop(self) {}
}
