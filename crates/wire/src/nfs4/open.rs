//! OPEN (RFC 8881, section 18.16): opens a regular file, and can create it.

use bytes::Bytes;

use super::{Bitmap, ChangeInfo, Fattr, StateOwner, Stateid, Status, Verifier};
use crate::{xdr_struct, xdr_union};

mod delegation;
pub use delegation::{
    Delegation, DelegationType, ModifiedLimit, ReadDelegation, SpaceLimit, WhyNone, WhyOther, WriteDelegation,
};

/// share_access: read.
pub const SHARE_ACCESS_READ: u32 = 1;
/// share_access: write.
pub const SHARE_ACCESS_WRITE: u32 = 2;
/// share_access: read and write.
pub const SHARE_ACCESS_BOTH: u32 = 3;
/// share_deny: none.
pub const SHARE_DENY_NONE: u32 = 0;
/// share_deny: read.
pub const SHARE_DENY_READ: u32 = 1;
/// share_deny: write.
pub const SHARE_DENY_WRITE: u32 = 2;
/// share_deny: read and write.
pub const SHARE_DENY_BOTH: u32 = 3;

/// share_access: mask of the requested delegation.
pub const WANT_DELEG_MASK: u32 = 0xff00;
/// Any delegation or none; the server chooses.
pub const WANT_NO_PREFERENCE: u32 = 0;
/// Read delegation.
pub const WANT_READ_DELEG: u32 = 0x100;
/// Write delegation.
pub const WANT_WRITE_DELEG: u32 = 0x200;
/// Read or write delegation.
pub const WANT_ANY_DELEG: u32 = 0x300;
/// No delegation.
pub const WANT_NO_DELEG: u32 = 0x400;
/// Cancels an earlier request.
pub const WANT_CANCEL: u32 = 0x500;
/// share_access: signal the client when a delegation becomes available.
pub const WANT_SIGNAL_DELEG_WHEN_RESRC_AVAIL: u32 = 0x1_0000;
/// share_access: push a delegation when no conflict is left.
pub const WANT_PUSH_DELEG_WHEN_UNCONTENDED: u32 = 0x2_0000;
/// share_access: a delegation may take the place of an open (RFC 9754, section 5).
pub const WANT_OPEN_XOR_DELEGATION: u32 = 0x20_0000;

/// rflags: byte-range locks have POSIX semantics.
pub const RESULT_LOCKTYPE_POSIX: u32 = 4;
/// rflags: a removed file keeps its data until its last close.
pub const RESULT_PRESERVE_UNLINKED: u32 = 8;
/// rflags: there is no open stateid, but a delegation (RFC 9754, section 5).
pub const RESULT_NO_OPEN_STATEID: u32 = 0x10;
/// rflags: the server may send CB_NOTIFY_LOCK.
pub const RESULT_MAY_NOTIFY_LOCK: u32 = 0x20;

xdr_struct! {
    /// creatverfattr: an exclusive create with attributes.
    pub struct ExclusiveAttrs {
        /// Verifier that tells a retry from the file of another client.
        pub verifier: Verifier,
        /// Initial attributes; see suppattr_exclcreat.
        pub attrs: Box<Fattr>,
    }

    /// open_claim_delegate_cur4: an open that the client did under its delegation.
    pub struct DelegateCur {
        /// The delegation.
        pub delegate_stateid: Stateid,
        /// The name in the current directory.
        pub file: Bytes,
    }

    /// The arguments. Current handle: the directory or, depending on the claim, the file; afterwards the
    /// file.
    pub struct Args {
        /// Ignored since minor version 1.
        pub seqid: u32,
        /// [`SHARE_ACCESS_READ`] and [`SHARE_ACCESS_WRITE`], with the `WANT_` bits.
        pub share_access: u32,
        /// [`SHARE_DENY_READ`] and [`SHARE_DENY_WRITE`].
        pub share_deny: u32,
        /// Open-owner.
        pub owner: StateOwner,
        /// Create the file, or only open it.
        pub openhow: OpenHow,
        /// File to open.
        pub claim: Claim,
    }

    /// The results.
    pub struct ResOk {
        /// The open.
        pub stateid: Stateid,
        /// Change of the directory.
        pub cinfo: ChangeInfo,
        /// The `RESULT_` bits.
        pub rflags: u32,
        /// Attributes that were set.
        pub attrset: Bitmap,
        /// A delegation, or none.
        pub delegation: Delegation,
    }
}

impl Args {
    /// Requested access, without the delegation bits.
    #[must_use]
    pub fn access(&self) -> u32 {
        self.share_access & SHARE_ACCESS_BOTH
    }

    /// True if a delegation may take the place of an open.
    #[must_use]
    pub fn wants_no_open(&self) -> bool {
        self.share_access & WANT_OPEN_XOR_DELEGATION != 0
    }

    /// Requested delegation: one of [`WANT_READ_DELEG`] and so on.
    #[must_use]
    pub fn want(&self) -> u32 {
        self.share_access & WANT_DELEG_MASK
    }
}

xdr_union! {
    /// createhow4: treatment of an existing file.
    pub enum CreateHow {
        /// An existing file is opened; of the attributes only a size of 0 is then applied.
        0 => Unchecked(Box<Fattr>),
        /// An existing file is an error.
        1 => Guarded(Box<Fattr>),
        /// An existing file is an error, unless it was created with this verifier.
        2 => Exclusive(Verifier),
        /// The same, with attributes: EXCLUSIVE4_1.
        3 => Exclusive41(ExclusiveAttrs),
    }

    /// openflag4: whether a file is created.
    pub enum OpenHow {
        /// No: the file must exist.
        0 => NoCreate,
        /// Yes.
        1 => Create(CreateHow),
    }

    /// open_claim4: the file to open, and the claim to it.
    pub enum Claim {
        /// Name in the current directory.
        0 => Null(Bytes),
        /// Current file, opened before a restart of the server, with this delegation.
        1 => Previous(DelegationType),
        /// Name in the current directory, opened before under the delegation.
        2 => DelegateCur(DelegateCur),
        /// Name in the current directory, opened before under a delegation of before the client's restart.
        3 => DelegatePrev(Bytes),
        /// Current file.
        4 => Fh,
        /// Current file, opened before under this delegation.
        5 => DelegCurFh(Stateid),
        /// Current file, opened before under a delegation of before the client's restart.
        6 => DelegPrevFh,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
