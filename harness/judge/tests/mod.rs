//! The judge's rules, as sentences about servers. `good` tells a good server's trial; each test makes one thing of it bad.

mod crashes;
mod eof_and_helpers;
mod events;
mod gate;
mod getting_through;
mod good;
mod incidents;
mod landing;
mod limits;
mod next;
mod ownership;
mod protocol;
mod quiet_and_effects;
mod reconcile_and_handle;
mod revocation;
mod secrets_and_resources;
mod tale;
mod whole;
