//! What the credential gateway does, and what each of its bad twins does instead.
//!
//! The binary is driven as a deployment drives it: a process that serves, commands of an operator, callers on its socket,
//! and an upstream that is a listener here. Nothing of it is looked at from inside.

mod agent;
mod approvals;
mod callers;
mod chain;
mod http;
mod keys;
mod place;
mod revocation;
mod session;
