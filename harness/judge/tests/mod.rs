//! The judge's rules, as sentences about servers. `tale` tells a good server's trial; each test makes one thing of it bad.

mod eof_and_helpers;
mod landing;
mod quiet_and_effects;
mod reconcile_and_handle;
mod record_and_revocation;
mod tale;
mod whole;
mod wire_and_rest;
