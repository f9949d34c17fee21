//! The remote as a server sees it: over a socket, with the journal as witness.

mod authorities;
mod bench;
mod holding;
mod next;
mod oauth;
mod pending;
mod routes;
