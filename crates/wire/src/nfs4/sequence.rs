//! SEQUENCE (RFC 8881, section 18.46): names session, slot and sequence; renews the lease.

use super::{SessionId, Status};
use crate::xdr_struct;

/// No connection for call-backs at all.
pub const CB_PATH_DOWN: u32 = 0x1;
/// GSS contexts of call-backs end soon.
pub const CB_GSS_CONTEXTS_EXPIRING: u32 = 0x2;
/// GSS contexts of call-backs have ended.
pub const CB_GSS_CONTEXTS_EXPIRED: u32 = 0x4;
/// The lease ran out: all state is revoked.
pub const EXPIRED_ALL_STATE_REVOKED: u32 = 0x8;
/// The lease ran out: some state is revoked.
pub const EXPIRED_SOME_STATE_REVOKED: u32 = 0x10;
/// An administrator revoked state.
pub const ADMIN_STATE_REVOKED: u32 = 0x20;
/// Layouts or delegations were revoked.
pub const RECALLABLE_STATE_REVOKED: u32 = 0x40;
/// A lease moved to another server.
pub const LEASE_MOVED: u32 = 0x80;
/// The server lost its state: reclaim.
pub const RESTART_RECLAIM_NEEDED: u32 = 0x100;
/// No connection for call-backs of this session.
pub const CB_PATH_DOWN_SESSION: u32 = 0x200;
/// The client answers call-backs wrongly.
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
        /// Whether the reply must be kept for a retry.
        pub cachethis: bool,
    }

    /// The results.
    #[derive(Copy, Hash)]
    pub struct ResOk {
        /// As in the arguments.
        pub sessionid: SessionId,
        /// As in the arguments.
        pub sequenceid: u32,
        /// As in the arguments.
        pub slotid: u32,
        /// The highest slot that the server has.
        pub highest_slotid: u32,
        /// The highest slot that the server would like the client to use.
        pub target_highest_slotid: u32,
        /// [`CB_PATH_DOWN`] and so on.
        pub status_flags: u32,
    }
}

/// How it ended.
pub type Res = Result<ResOk, Status>;
