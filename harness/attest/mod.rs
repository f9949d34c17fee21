//! Signed statements: who vouches for a bundle, or for a gate's decision.
//!
//! ```text
//!   key file ─> PrivateKey ──┐
//!   Statement (in-toto v1) ──┴─> Envelope (DSSE) ─> attestation.intoto.jsonl
//! ```
//!
//! The formats are in-toto's Statement v1 and DSSE v1, so that whoever distrusts this tool checks with another one. The
//! algorithm comes with the key; a `keyid` is a hint and decides nothing: only the keys that a reader trusts do.

#![forbid(unsafe_code)]

mod dsse;
mod key;
mod statement;

pub use dsse::{Envelope, EnvelopeError, PAYLOAD_TYPE, Signature};
pub use key::{Algorithm, KeyError, PrivateKey, PublicKey};
pub use statement::{ResourceDescriptor, Statement};
