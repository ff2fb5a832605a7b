//! NFS version 3 (RFC 1813): one file for each procedure, with its `Args`, `ResOk`, `ResFail` and `Res`.
//!
//! Text and names are bytes, bounded by their record: a server answers a name that is too long with
//! [`Status::NameTooLong`], not with a decode error. Only a file handle has a bound in the protocol.

pub mod access;
pub mod commit;
pub mod create;
pub mod fsinfo;
pub mod fsstat;
pub mod getattr;
pub mod link;
pub mod lookup;
pub mod mkdir;
pub mod mknod;
pub mod pathconf;
pub mod procedure;
pub mod read;
pub mod readdir;
pub mod readdirplus;
pub mod readlink;
pub mod remove;
pub mod rename;
pub mod rmdir;
pub mod setattr;
pub mod status;
pub mod symlink;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
pub mod types;
pub mod write;

pub use procedure::{Call, Procedure, Reply};
pub use status::{Failure, Status};
pub use types::{
    CookieVerf, CreateVerf, DirOpArgs, Fattr, FileHandle, FileType, HANDLE_BYTES_MAX, List, PostOpAttr,
    PostOpFh, SetAttr, SetTime, SpecData, StableHow, Time, WccAttr, WccData, WriteVerf,
};

pub use crate::rpc::null;

/// RPC program number of NFS.
pub const PROGRAM: u32 = 100_003;
/// Version of the program.
pub const VERSION: u32 = 3;
