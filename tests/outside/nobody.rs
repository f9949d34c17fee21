//! The ordinary user that root can become.

/// `nobody`, by the convention of every Linux distribution.
pub const NOBODY: u32 = 65534;
