//! Which statuses each operation may end with: RFC 8881, section 15.2; RFC 7862, section 11.2; RFC 8276,
//! section 8.4. Where the text of an operation names one that the tables forgot, the line says so.

use wire::nfs4::OpNum;
use wire::nfs4::Status::{self, *};

/// Of every operation in a session.
const SESSION: &[Status] = &[
    BadXdr,
    DeadSession,
    Delay,
    OpNotInSession,
    RepTooBig,
    RepTooBigToCache,
    ReqTooBig,
    RetryUncachedRep,
    ServerFault,
    TooManyOps,
];
/// Of those that use the current filehandle.
const HANDLE: &[Status] = &[FhExpired, Moved, NoFileHandle, Stale];
/// Of those that take a stateid.
const STATEID: &[Status] = &[AdminRevoked, BadStateid, DelegRevoked, Expired, OldStateid, WrongCred];
/// Of those that read or write a file under a stateid.
const IO: &[Status] =
    &[Access, Grace, Inval, Io, IsDir, Locked, OpenMode, PnfsNoLayout, PnfsIoHole, Symlink, WrongType];
/// Of those that take a name.
const NAME: &[Status] = &[BadChar, BadName, Inval, NameTooLong];
/// Of those that make something on a disk.
const GROWS: &[Status] = &[DQuot, NoSpc, RoFs];
/// Of what RFC 7862 adds for files.
const RANGE: &[Status] = &[FBig, NotSupp, UnionNotSupp];

/// Whether `op` may end with `status`.
pub fn allows(op: OpNum, status: Status) -> bool {
    status == Ok || parts(op).iter().any(|part| part.contains(&status))
}

#[rustfmt::skip]
fn parts(op: OpNum) -> Vec<&'static [Status]> {
    use OpNum as O;
    match op {
        O::Access => vec![SESSION, HANDLE, &[Access, Inval, Io]],
        O::Allocate | O::Deallocate => vec![SESSION, HANDLE, STATEID, IO, GROWS, RANGE],
        O::BackchannelCtl => vec![SESSION, &[Inval, NoEnt]],
        O::BindConnToSession => vec![SESSION, &[BadSession, BadSessionDigest, ConnNotBoundToSession, Inval, NotOnlyOp]],
        O::Clone => vec![SESSION, HANDLE, STATEID, IO, GROWS, RANGE, &[XDev]],
        O::Close => vec![SESSION, HANDLE, STATEID, &[LocksHeld]],
        O::Commit => vec![SESSION, HANDLE, &[Access, Inval, Io, IsDir, Symlink, WrongType]],
        O::Copy => vec![SESSION, HANDLE, STATEID, IO, GROWS, RANGE, &[PartnerNoAuth, PartnerNotSupp, OffloadDenied, OffloadNoReqs, XDev]],
        O::CopyNotify => vec![SESSION, HANDLE, STATEID, IO, &[NotSupp]],
        O::Create => vec![SESSION, HANDLE, NAME, GROWS, &[Access, AttrNotSupp, BadOwner, BadType, Exist, Io, MLink, NotDir, Perm, UnsafeCompound, Symlink, NotSupp]],
        O::CreateSession => vec![SESSION, &[ClidInUse, Inval, NoEnt, NoSpc, NotOnlyOp, SeqMisordered, StaleClientid, TooSmall, WrongCred]],
        O::DelegPurge => vec![SESSION, &[NotSupp, WrongCred]],
        O::DelegReturn => vec![SESSION, HANDLE, STATEID, &[Inval, NotSupp]],
        O::DestroyClientid => vec![SESSION, &[ClientidBusy, NotOnlyOp, StaleClientid, WrongCred]],
        O::DestroySession => vec![SESSION, &[BackChanBusy, BadSession, CbPathDown, ConnNotBoundToSession, NotOnlyOp, StaleClientid, WrongCred]],
        O::ExchangeId => vec![SESSION, &[BadChar, ClidInUse, EncrAlgUnsupp, HashAlgUnsupp, Inval, NoEnt, NoSpc, NotOnlyOp, NotSame, Perm]],
        O::FreeStateid => vec![SESSION, &[BadStateid, LocksHeld, OldStateid, WrongCred]],
        O::GetAttr => vec![SESSION, HANDLE, &[Access, Grace, Inval, Io, WrongType]],
        O::GetDeviceInfo => vec![SESSION, &[Inval, NoEnt, NotSupp, TooSmall, UnknownLayoutType]],
        O::GetDirDelegation => vec![SESSION, HANDLE, &[Access, DirDelegUnavail, Grace, Inval, Io, NotDir, NotSupp]],
        O::GetFh | O::RestoreFh | O::SaveFh => vec![SESSION, HANDLE, &[WrongSec]],
        O::GetXattr => vec![SESSION, HANDLE, NAME, &[Access, Io, NoXattr, NotSupp, Perm, WrongType]],
        O::Illegal => vec![SESSION, &[OpIllegal]],
        O::IoAdvise => vec![SESSION, HANDLE, STATEID, IO, &[NotSupp]],
        O::LayoutCommit => vec![SESSION, HANDLE, STATEID, &[Access, AttrNotSupp, BadIoMode, BadLayout, FBig, Grace, Inval, Io, IsDir, NotSupp, NoGrace, ReclaimBad, Symlink, UnknownLayoutType, WrongType]],
        O::LayoutError | O::LayoutStats => vec![SESSION, HANDLE, STATEID, &[Access, BadLayout, Inval, Io, IsDir, NotSupp, Symlink, UnknownLayoutType, WrongType, Grace, NoEnt]],
        O::LayoutGet => vec![SESSION, HANDLE, STATEID, GROWS, &[Access, BadIoMode, BadLayout, Grace, Inval, Io, LayoutTryLater, LayoutUnavailable, Locked, NotSupp, OpenMode, RecallConflict, TooSmall, UnknownLayoutType, WrongType, IsDir, Symlink]],
        O::LayoutReturn => vec![SESSION, HANDLE, STATEID, &[BadIoMode, Grace, Inval, IsDir, NotSupp, NoGrace, UnknownLayoutType, WrongType, Symlink]],
        O::Link => vec![SESSION, HANDLE, NAME, GROWS, &[Access, Exist, FileOpen, Grace, Io, IsDir, MLink, NotDir, NotSupp, Symlink, WrongSec, WrongType, XDev, NoEnt]],
        O::ListXattrs => vec![SESSION, HANDLE, &[Access, BadCookie, Inval, Io, NotSupp, Perm, TooSmall, WrongType]],
        O::Lock => vec![SESSION, HANDLE, STATEID, &[Access, BadRange, Deadlock, Denied, Grace, Inval, IsDir, LockNotSupp, LockRange, NoGrace, OpenMode, ReclaimBad, ReclaimConflict, RoFs, Symlink, WrongType]],
        O::LockT => vec![SESSION, HANDLE, &[Access, BadRange, Denied, Grace, Inval, IsDir, LockRange, RoFs, Symlink, WrongCred, WrongType]],
        O::LockU => vec![SESSION, HANDLE, STATEID, &[Access, BadRange, Inval, LockRange]],
        O::Lookup => vec![SESSION, HANDLE, NAME, &[Access, Io, NoEnt, NotDir, Symlink, WrongSec]],
        O::LookupP => vec![SESSION, HANDLE, &[Access, Io, NoEnt, NotDir, Symlink, WrongSec]],
        O::NVerify | O::Verify => vec![SESSION, HANDLE, &[Access, AttrNotSupp, BadChar, Grace, Inval, Io, UnknownLayoutType, WrongType, NotSame, Same]],
        O::OffloadCancel | O::OffloadStatus => vec![SESSION, HANDLE, STATEID, &[Inval, Io, NotSupp, CompleteAlready]],
        O::Open => vec![SESSION, HANDLE, STATEID, NAME, GROWS, &[Access, AttrNotSupp, BadOwner, DelegAlreadyWanted, Exist, FBig, Grace, Io, IsDir, NoEnt, NotDir, NoGrace, Perm, ReclaimBad, ReclaimConflict, ShareDenied, Symlink, UnsafeCompound, WrongSec, WrongType, NotSupp]],
        O::OpenAttr => vec![SESSION, HANDLE, GROWS, &[Access, Io, NoEnt, NotSupp, UnsafeCompound, WrongSec, WrongType]],
        O::OpenConfirm | O::Renew | O::SetClientid | O::SetClientidConfirm | O::ReleaseLockOwner => vec![SESSION, &[NotSupp]],
        O::OpenDowngrade => vec![SESSION, HANDLE, STATEID, &[Inval, RoFs]],
        O::PutFh => vec![SESSION, &[BadHandle, Moved, Stale, WrongSec]],
        O::PutPubFh | O::PutRootFh => vec![SESSION, &[WrongSec]],
        O::Read => vec![SESSION, HANDLE, STATEID, IO],
        O::ReadPlus => vec![SESSION, HANDLE, STATEID, IO, &[NotSupp, NxIo, PartnerNoAuth]],
        O::ReadDir => vec![SESSION, HANDLE, &[Access, BadCookie, Inval, Io, NotDir, NotSame, TooSmall, Symlink]],
        O::ReadLink => vec![SESSION, HANDLE, &[Access, Inval, Io, WrongType]],
        O::ReclaimComplete => vec![SESSION, HANDLE, &[CompleteAlready, Inval, WrongCred, WrongType]],
        O::Remove => vec![SESSION, HANDLE, NAME, &[Access, FileOpen, Grace, Io, NoEnt, NotDir, NotEmpty, RoFs, Symlink]],
        O::Rename => vec![SESSION, HANDLE, NAME, GROWS, &[Access, Exist, FileOpen, Grace, Io, MLink, NoEnt, NotDir, NotEmpty, WrongSec, XDev, Symlink]],
        O::SecInfo => vec![SESSION, HANDLE, NAME, &[Access, NoEnt, NotDir, Symlink]],
        O::SecInfoNoName => vec![SESSION, HANDLE, &[Access, Inval, NoEnt, NotDir, NotSupp, Symlink]],
        O::Seek => vec![SESSION, HANDLE, STATEID, IO, &[NotSupp, NxIo, UnionNotSupp]],
        O::Sequence => vec![SESSION, &[BadHighSlot, BadSession, BadSlot, ConnNotBoundToSession, SeqFalseRetry, SeqMisordered, SequencePos]],
        O::SetAttr => vec![SESSION, HANDLE, STATEID, GROWS, &[Access, AttrNotSupp, BadChar, BadOwner, FBig, Grace, Inval, Io, IsDir, Locked, OpenMode, Perm, UnknownLayoutType, WrongType, Symlink]],
        O::SetSsv => vec![SESSION, &[BadSessionDigest, Inval, NotSupp]],
        O::SetXattr => vec![SESSION, HANDLE, NAME, GROWS, &[Access, Exist, Io, NoXattr, NotSupp, Perm, WrongType, Xattr2Big]],
        O::RemoveXattr => vec![SESSION, HANDLE, NAME, &[Access, Io, NoXattr, NotSupp, Perm, RoFs, WrongType]],
        O::TestStateid => vec![SESSION],
        O::WantDelegation => vec![SESSION, HANDLE, STATEID, &[Access, DelegAlreadyWanted, Grace, Inval, Io, IsDir, NotSupp, NoGrace, ReclaimBad, ReclaimConflict, WrongType]],
        O::GetDeviceList | O::WriteSame => vec![SESSION, HANDLE, &[Inval, NotSupp]],
        O::Write => vec![SESSION, HANDLE, STATEID, IO, GROWS, &[FBig]],
    }
}
