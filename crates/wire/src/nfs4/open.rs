//! OPEN (RFC 8881, section 18.16): opens a regular file, and perhaps makes it.

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
/// share_deny: nothing.
pub const SHARE_DENY_NONE: u32 = 0;
/// share_deny: that others read.
pub const SHARE_DENY_READ: u32 = 1;
/// share_deny: that others write.
pub const SHARE_DENY_WRITE: u32 = 2;
/// share_deny: that others read or write.
pub const SHARE_DENY_BOTH: u32 = 3;

/// share_access: the bits that say which delegation is wanted.
pub const WANT_DELEG_MASK: u32 = 0xff00;
/// Any delegation or none, as the server likes.
pub const WANT_NO_PREFERENCE: u32 = 0;
/// A read delegation.
pub const WANT_READ_DELEG: u32 = 0x100;
/// A write delegation.
pub const WANT_WRITE_DELEG: u32 = 0x200;
/// Either kind.
pub const WANT_ANY_DELEG: u32 = 0x300;
/// None.
pub const WANT_NO_DELEG: u32 = 0x400;
/// No longer what was wanted before.
pub const WANT_CANCEL: u32 = 0x500;
/// share_access: tell the client when one can be had.
pub const WANT_SIGNAL_DELEG_WHEN_RESRC_AVAIL: u32 = 0x1_0000;
/// share_access: push one when nobody conflicts any more.
pub const WANT_PUSH_DELEG_WHEN_UNCONTENDED: u32 = 0x2_0000;

/// rflags: byte-range locks behave as POSIX says.
pub const RESULT_LOCKTYPE_POSIX: u32 = 4;
/// rflags: a removed file lives until its last close.
pub const RESULT_PRESERVE_UNLINKED: u32 = 8;
/// rflags: the server may send CB_NOTIFY_LOCK.
pub const RESULT_MAY_NOTIFY_LOCK: u32 = 0x20;

xdr_struct! {
    /// creatverfattr: an exclusive create with attributes.
    pub struct ExclusiveAttrs {
        /// Tells a retry from another's file.
        pub verifier: Verifier,
        /// The first attributes; see suppattr_exclcreat.
        pub attrs: Box<Fattr>,
    }

    /// open_claim_delegate_cur4: an open that the client did by its delegation.
    pub struct DelegateCur {
        /// The delegation.
        pub delegate_stateid: Stateid,
        /// The name in the current directory.
        pub file: Bytes,
    }

    /// The arguments. Current handle: the directory or, by the claim, the file; afterwards the file.
    pub struct Args {
        /// Ignored since minor version 1.
        pub seqid: u32,
        /// [`SHARE_ACCESS_READ`] and [`SHARE_ACCESS_WRITE`], with the `WANT_` bits.
        pub share_access: u32,
        /// [`SHARE_DENY_READ`] and [`SHARE_DENY_WRITE`].
        pub share_deny: u32,
        /// Who opens.
        pub owner: StateOwner,
        /// Whether the file is made.
        pub openhow: OpenHow,
        /// What is opened.
        pub claim: Claim,
    }

    /// The results.
    pub struct ResOk {
        /// The open.
        pub stateid: Stateid,
        /// The directory's change.
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
    /// The access wanted, without the bits about delegations.
    #[must_use]
    pub fn access(&self) -> u32 {
        self.share_access & SHARE_ACCESS_BOTH
    }

    /// The delegation wanted: one of [`WANT_READ_DELEG`] and so on.
    #[must_use]
    pub fn want(&self) -> u32 {
        self.share_access & WANT_DELEG_MASK
    }
}

xdr_union! {
    /// createhow4: how a file is made.
    pub enum CreateHow {
        /// A file that exists is opened; of the attributes only a size of 0 is then applied.
        0 => Unchecked(Box<Fattr>),
        /// A file that exists is an error.
        1 => Guarded(Box<Fattr>),
        /// A file that exists is an error, unless it was made with this verifier.
        2 => Exclusive(Verifier),
        /// The same, with attributes: EXCLUSIVE4_1.
        3 => Exclusive41(ExclusiveAttrs),
    }

    /// openflag4: whether a file is made.
    pub enum OpenHow {
        /// It must exist.
        0 => NoCreate,
        /// It is made.
        1 => Create(CreateHow),
    }

    /// open_claim4: what is opened, and by what right.
    pub enum Claim {
        /// This name in the current directory.
        0 => Null(Bytes),
        /// The current file, which was open before the server restarted, with this delegation.
        1 => Previous(DelegationType),
        /// A name in the current directory, opened before by the delegation.
        2 => DelegateCur(DelegateCur),
        /// A name in the current directory, opened before by a delegation of the client's earlier life.
        3 => DelegatePrev(Bytes),
        /// The current file.
        4 => Fh,
        /// The current file, opened before by this delegation.
        5 => DelegCurFh(Stateid),
        /// The current file, opened before by a delegation of the client's earlier life.
        6 => DelegPrevFh,
    }
}

/// How it ended.
pub type Res = Result<ResOk, Status>;
