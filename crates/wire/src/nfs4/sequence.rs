//! SEQUENCE (RFC 8881, section 18.46): sets session, slot and sequence; renews the client lease.

use super::{SessionId, Status};
use crate::xdr_struct;

/// No connection of the client has a back channel.
pub const CB_PATH_DOWN: u32 = 0x1;
/// GSS contexts of callbacks expire soon.
pub const CB_GSS_CONTEXTS_EXPIRING: u32 = 0x2;
/// GSS contexts of callbacks have expired.
pub const CB_GSS_CONTEXTS_EXPIRED: u32 = 0x4;
/// The client lease expired: all state is revoked.
pub const EXPIRED_ALL_STATE_REVOKED: u32 = 0x8;
/// The client lease expired: some state is revoked.
pub const EXPIRED_SOME_STATE_REVOKED: u32 = 0x10;
/// An administrator revoked state.
pub const ADMIN_STATE_REVOKED: u32 = 0x20;
/// Layouts or delegations were revoked.
pub const RECALLABLE_STATE_REVOKED: u32 = 0x40;
/// A lease moved to another server.
pub const LEASE_MOVED: u32 = 0x80;
/// The server lost its state: the client must reclaim.
pub const RESTART_RECLAIM_NEEDED: u32 = 0x100;
/// No connection has this session's back channel.
pub const CB_PATH_DOWN_SESSION: u32 = 0x200;
/// The client answers callbacks with errors.
pub const BACKCHANNEL_FAULT: u32 = 0x400;
/// A device id changed.
pub const DEVID_CHANGED: u32 = 0x800;
/// A device id was deleted.
pub const DEVID_DELETED: u32 = 0x1000;

xdr_struct! {
    /// The arguments.
    #[derive(Copy, Hash)]
    pub struct Args {
        /// The session.
        pub sessionid: SessionId,
        /// One more than the slot's last, or the same in a retry.
        pub sequenceid: u32,
        /// The slot.
        pub slotid: u32,
        /// The highest slot that the client has in use.
        pub highest_slotid: u32,
        /// True if the reply must be kept for a retry.
        pub cachethis: bool,
    }

    /// The results.
    #[derive(Copy, Hash)]
    pub struct ResOk {
        /// Same value as in the arguments.
        pub sessionid: SessionId,
        /// Same value as in the arguments.
        pub sequenceid: u32,
        /// Same value as in the arguments.
        pub slotid: u32,
        /// The highest slot that the server has.
        pub highest_slotid: u32,
        /// Highest slot that the server wants the client to use.
        pub target_highest_slotid: u32,
        /// [`CB_PATH_DOWN`] and so on.
        pub status_flags: u32,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
