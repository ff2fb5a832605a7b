//! MOUNT version 3 (RFC 1813, appendix I): from an exported path to the file handle at its root.

pub mod dump;
pub mod export;
pub mod mnt;
pub mod null;
pub mod procedure;
pub mod status;
#[cfg(test)]
mod tests;
pub mod types;
pub mod umnt;
pub mod umntall;

pub use procedure::{Call, Procedure, Reply};
pub use status::Status;
pub use types::{DirPath, NAME_BYTES_MAX, Name, PATH_BYTES_MAX};

/// RPC program number of MOUNT.
pub const PROGRAM: u32 = 100_005;
/// Version of the program.
pub const VERSION: u32 = 3;
