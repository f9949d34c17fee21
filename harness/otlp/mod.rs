//! The receiver of OTLP: what a server under drill exports of itself, as rows of its record.
//!
//! ```text
//!   server ── HTTP, gRPC ──> serve ──> rows ──> Received ──> the trial reads it, as it reads a log
//! ```
//!
//! It has a thread of its own. A server that waits for its export to be taken waits for this and for nothing else of the
//! trial, and what it was told is taken stands here before it does anything next: that is what makes an export before
//! dispatch a record before dispatch.
//!
//! Nothing about what arrives is trusted: bodies and rows are bounded, and beyond the bound the record is unreadable.

mod rows;
mod serve;
#[cfg(test)]
mod tests;

use std::io;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use serde_json::Value;
use tokio::sync::oneshot;

use crate::cell::OtlpDoor;

/// Of more rows than these a record is not made.
const MOST_ROWS: usize = 100_000;

/// Nor of more text than this, in bytes of JSON.
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// What was received so far. Cheap to clone; all clones share it.
#[derive(Debug, Clone, Default)]
pub struct Received(Arc<Mutex<Store>>);

#[derive(Debug, Default)]
struct Store {
    rows: Vec<Value>,
    bytes: usize,
    /// Why some of it is missing.
    missing: Option<String>,
}

/// What stands in the record at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Standing {
    pub rows: Vec<Value>,
    /// Bytes of JSON.
    pub bytes: u64,
    /// Why some of it is missing, if some is.
    pub missing: Option<String>,
}

impl Received {
    pub fn standing(&self) -> Standing {
        let store = self.lock();
        Standing {
            rows: store.rows.clone(),
            bytes: store.bytes as u64,
            missing: store.missing.clone(),
        }
    }

    /// As if these had been received.
    #[cfg(test)]
    pub fn of(rows: Vec<Value>) -> Self {
        let received = Self::default();
        received.take(rows);
        received
    }

    fn take(&self, taken: Vec<Value>) {
        let mut store = self.lock();
        for row in taken {
            let bytes = row.to_string().len();
            if store.rows.len() >= MOST_ROWS {
                store.miss(format!("more than {MOST_ROWS} records were exported"));
                return;
            }
            if store.bytes + bytes > MOST_BYTES {
                store.miss(format!("more than {} MiB were exported", MOST_BYTES >> 20));
                return;
            }
            store.bytes += bytes;
            store.rows.push(row);
        }
    }

    fn miss(&self, because: String) {
        self.lock().miss(because);
    }

    fn lock(&self) -> MutexGuard<'_, Store> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store {
    /// The first reason stays.
    fn miss(&mut self, because: String) {
        self.missing.get_or_insert(because);
    }
}

/// Receives until it is dropped.
#[derive(Debug)]
pub struct Receiver {
    pub received: Received,
    pub http_port: u16,
    pub grpc_port: u16,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Receiver {
    pub fn start(door: OtlpDoor) -> io::Result<Self> {
        let OtlpDoor { http, grpc } = door;
        let port = |listener: &TcpListener| io::Result::Ok(listener.local_addr()?.port());
        let (http_port, grpc_port) = (port(&http)?, port(&grpc)?);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let received = Received::default();
        let (stop, stopped) = oneshot::channel();
        let rows = received.clone();
        let thread = std::thread::Builder::new()
            .name("otlp".to_owned())
            .spawn(move || runtime.block_on(serve::serve(http, grpc, rows, stopped)))?;
        Ok(Self {
            received,
            http_port,
            grpc_port,
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
