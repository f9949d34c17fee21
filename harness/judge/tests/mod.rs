//! The judge's rules, as sentences about servers. `good` tells a good server's trial; each test makes one thing of it bad.

mod catalogue;
mod crashes;
mod elsewhere;
mod eof_and_helpers;
mod events;
mod gate;
mod getting_through;
mod good;
mod incidents;
mod landing;
mod limits;
mod looking_back;
mod mistakes;
mod next;
mod order;
mod ownership;
mod protocol;
mod quiet_and_effects;
mod reconcile_and_handle;
mod revocation;
mod secrets_and_resources;
mod spinning;
mod tale;
mod whole;
