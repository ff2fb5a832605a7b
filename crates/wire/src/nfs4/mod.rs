//! NFS version 4, minor versions 1 and 2 (RFC 8881, RFC 7862, RFC 8276): one file for each operation, and
//! [`filehandles`] for those that have little but a filehandle.
//!
//! ```text
//! COMPOUND call   CompoundHeader │ ArgOp │ ArgOp │ …      each op decoded just before its execution
//! COMPOUND reply  status, tag    │ ResOp │ ResOp │ …      each op a message of its own, joined by reference
//! ```
//!
//! A server decodes the header, then one [`ArgOp`] at a time: arguments after a failed operation are never
//! decoded, as RFC 8881, section 15.1 requires. Every type encodes and decodes, because tests and the back
//! channel need the other direction. Names, link texts and layout bodies are bytes bounded by the record
//! alone; the server checks whether they are UTF-8, too long or empty. Handles, owners and tags have a bound
//! in the protocol, which the decoder enforces.

pub mod access;
pub mod allocate;
pub mod backchannel_ctl;
pub mod bind_conn_to_session;
pub mod callback;
pub mod clone;
pub mod close;
pub mod commit;
pub mod compound;
pub mod copy;
pub mod create;
pub mod create_session;
pub mod deallocate;
pub mod delegreturn;
pub mod destroy_clientid;
pub mod destroy_session;
pub mod exchange_id;
pub mod fattr;
pub mod filehandles;
pub mod free_stateid;
pub mod fs_locations;
pub mod fs_locations_info;
pub mod getattr;
pub mod getdeviceinfo;
pub mod getxattr;
pub mod io_advise;
pub mod layout_files;
pub mod layoutcommit;
pub mod layouterror;
pub mod layoutget;
pub mod layoutreturn;
pub mod layoutstats;
pub mod link;
pub mod listxattrs;
pub mod lock;
pub mod lockt;
pub mod locku;
pub mod lookup;
pub mod nverify;
pub mod op;
pub mod open;
pub mod open_downgrade;
pub mod read;
pub mod read_plus;
pub mod readdir;
pub mod readlink;
pub mod reclaim_complete;
pub mod remove;
pub mod removexattr;
pub mod rename;
pub mod result;
pub mod secinfo;
pub mod secinfo_no_name;
pub mod seek;
pub mod sequence;
pub mod setattr;
pub mod setxattr;
pub mod status;
pub mod test_stateid;
#[cfg(test)]
mod tests;
pub mod types;
pub mod verify;
pub mod write;

pub use compound::CompoundHeader;
pub use fattr::{AttrReply, Fattr, attr};
pub use filehandles::{getfh, putfh};
pub use op::{ArgOp, BadOp, OpNum, ResOp};
pub use result::{OpError, OpResult};
pub use status::Status;
pub use types::*;

/// RPC program number of NFS.
pub const PROGRAM: u32 = 100_003;
/// Version of the program.
pub const VERSION: u32 = 4;
/// NULL procedure (RFC 8881, section 16.1).
pub const PROC_NULL: u32 = 0;
/// COMPOUND procedure (RFC 8881, section 16.2).
pub const PROC_COMPOUND: u32 = 1;
/// Version of a client's callback program; the client chooses the program number (RFC 8881, section 18.36).
pub const CB_VERSION: u32 = 1;
/// CB_NULL procedure (RFC 8881, section 20).
pub const CB_PROC_NULL: u32 = 0;
/// CB_COMPOUND procedure (RFC 8881, section 19.2).
pub const CB_PROC_COMPOUND: u32 = 1;
/// Operation number of a result whose operation is unknown (RFC 8881, section 18.52).
pub const OP_ILLEGAL: u32 = 10_044;
/// Highest supported minor version.
pub const MINOR_VERSION_MAX: u32 = 2;
