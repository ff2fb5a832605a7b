//! EXCHANGE_ID (RFC 8881, section 18.35): registers a client, and returns the server's identity and roles.

use bytes::Bytes;

use super::{Bitmap, ClientId, ImplId, OwnerName, Status, Verifier};
use crate::{xdr_struct, xdr_union};

/// Referrals are supported.
pub const SUPP_MOVED_REFER: u32 = 0x1;
/// Migration is supported.
pub const SUPP_MOVED_MIGR: u32 = 0x2;
/// v4.2: fencing of I/O is supported.
pub const SUPP_FENCE_OPS: u32 = 0x4;
/// Stateids belong to the principal that made them.
pub const BIND_PRINC_STATEID: u32 = 0x100;
/// A server without layouts.
pub const USE_NON_PNFS: u32 = 0x1_0000;
/// A metaserver.
pub const USE_PNFS_MDS: u32 = 0x2_0000;
/// A data server.
pub const USE_PNFS_DS: u32 = 0x4_0000;
/// The three bits of the role.
pub const MASK_PNFS: u32 = 0x7_0000;
/// From the client: change a confirmed record.
pub const UPD_CONFIRMED_REC_A: u32 = 0x4000_0000;
/// From the server: the record was confirmed already.
pub const CONFIRMED_R: u32 = 0x8000_0000;

/// Flags that a client may send; any other is NFS4ERR_INVAL.
pub const FLAGS_FROM_CLIENT: u32 = SUPP_MOVED_REFER
    | SUPP_MOVED_MIGR
    | SUPP_FENCE_OPS
    | BIND_PRINC_STATEID
    | MASK_PNFS
    | UPD_CONFIRMED_REC_A;

xdr_struct! {
    /// client_owner4: constant over restarts of a client, except its verifier.
    pub struct ClientOwner {
        /// Changes when the client restarts.
        pub verifier: Verifier,
        /// The client's name.
        pub ownerid: OwnerName,
    }

    /// state_protect_ops4: sets of operation numbers.
    #[derive(Copy, Default)]
    pub struct StateProtectOps {
        /// Operations that need the machine credential.
        pub must_enforce: Bitmap,
        /// Operations for which the machine credential is sufficient.
        pub must_allow: Bitmap,
    }

    /// ssv_sp_parms4.
    pub struct SsvArgs {
        /// Operations to protect.
        pub ops: StateProtectOps,
        /// Hash algorithms, as object identifiers.
        pub hash_algs: Vec<Bytes>,
        /// Encryption algorithms, as object identifiers.
        pub encr_algs: Vec<Bytes>,
        /// Versions of the SSV that the server keeps.
        pub window: u32,
        /// GSS handles wanted.
        pub num_gss_handles: u32,
    }

    /// ssv_prot_info4.
    pub struct SsvInfo {
        /// Operations that are protected.
        pub ops: StateProtectOps,
        /// Index of the hash algorithm.
        pub hash_alg: u32,
        /// Index of the encryption algorithm.
        pub encr_alg: u32,
        /// Bytes in the SSV.
        pub ssv_len: u32,
        /// Versions of the SSV that the server keeps.
        pub window: u32,
        /// GSS handles.
        pub handles: Vec<Bytes>,
    }

    /// server_owner4: tells whether the servers of two connections share sessions or client ids (trunking).
    #[derive(Default)]
    pub struct ServerOwner {
        /// Equal: sessions can be shared.
        pub minor_id: u64,
        /// Equal: client ids can be shared.
        pub major_id: OwnerName,
    }

    /// The arguments.
    pub struct Args {
        /// The client.
        pub clientowner: ClientOwner,
        /// [`USE_PNFS_MDS`] and so on.
        pub flags: u32,
        /// State protection.
        pub state_protect: StateProtectArgs,
        /// The client's program.
        pub client_impl_id: Option<ImplId>,
    }

    /// The results.
    pub struct ResOk {
        /// Client id.
        pub clientid: ClientId,
        /// Sequence id of the client's next CREATE_SESSION.
        pub sequenceid: u32,
        /// [`USE_PNFS_MDS`] and so on.
        pub flags: u32,
        /// State protection.
        pub state_protect: StateProtectRes,
        /// The server.
        pub server_owner: ServerOwner,
        /// Servers with the same scope accept each other's ids and handles.
        pub server_scope: OwnerName,
        /// The server's program.
        pub server_impl_id: Option<ImplId>,
    }
}

xdr_union! {
    /// state_protect4_a.
    pub enum StateProtectArgs {
        /// SP4_NONE.
        0 => None,
        /// SP4_MACH_CRED.
        1 => MachCred(StateProtectOps),
        /// SP4_SSV.
        2 => Ssv(SsvArgs),
    }

    /// state_protect4_r.
    pub enum StateProtectRes {
        /// SP4_NONE.
        0 => None,
        /// SP4_MACH_CRED.
        1 => MachCred(StateProtectOps),
        /// SP4_SSV.
        2 => Ssv(SsvInfo),
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
