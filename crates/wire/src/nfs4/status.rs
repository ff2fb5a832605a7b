//! nfsstat4: status of an operation (RFC 8881, section 15.1; RFC 7862, section 11; RFC 8276, section 8.5).

use crate::xdr_enum;

xdr_enum! {
    /// nfsstat4. Zero is success.
    pub enum Status {
        /// Success.
        Ok = 0,
        /// Operation not permitted: the caller is neither the owner nor the superuser.
        Perm = 1,
        /// No such file or directory.
        NoEnt = 2,
        /// I/O error: a disk or the network behind the server failed.
        Io = 5,
        /// No such device.
        NxIo = 6,
        /// Permission denied.
        Access = 13,
        /// The name exists.
        Exist = 17,
        /// Source and target are in different file systems.
        XDev = 18,
        /// Not a directory.
        NotDir = 20,
        /// Is a directory.
        IsDir = 21,
        /// Invalid argument.
        Inval = 22,
        /// The file would grow beyond its largest size.
        FBig = 27,
        /// No space left.
        NoSpc = 28,
        /// The file system is read-only.
        RoFs = 30,
        /// Too many hard links.
        MLink = 31,
        /// A name is longer than the server accepts.
        NameTooLong = 63,
        /// The directory is not empty.
        NotEmpty = 66,
        /// The quota is used up.
        DQuot = 69,
        /// Stale handle: the file does not exist any more.
        Stale = 70,
        /// Bad handle: not made by this server.
        BadHandle = 10_001,
        /// The READDIR cookie is not valid any more.
        BadCookie = 10_003,
        /// The operation is known but not supported.
        NotSupp = 10_004,
        /// The buffer cannot hold even one entry.
        TooSmall = 10_005,
        /// Internal error of the server.
        ServerFault = 10_006,
        /// CREATE does not support this type of object.
        BadType = 10_007,
        /// Temporary failure: retry later.
        Delay = 10_008,
        /// NVERIFY: the attributes are the same.
        Same = 10_009,
        /// A lock conflicts.
        Denied = 10_010,
        /// The lease of the state expired.
        Expired = 10_011,
        /// A lock forbids this read or write.
        Locked = 10_012,
        /// The server is in its grace period.
        Grace = 10_013,
        /// The volatile handle expired.
        FhExpired = 10_014,
        /// A share reservation forbids the open.
        ShareDenied = 10_015,
        /// Another security flavor is required here.
        WrongSec = 10_016,
        /// The client id belongs to another principal.
        ClidInUse = 10_017,
        /// NFS4ERR_RESOURCE: out of a resource; minor version 0 only.
        Resource = 10_018,
        /// The file system is at another server.
        Moved = 10_019,
        /// There is no current (or saved) handle.
        NoFileHandle = 10_020,
        /// This minor version is not served.
        MinorVersMismatch = 10_021,
        /// The client id is from before a restart.
        StaleClientid = 10_022,
        /// The stateid is from before a restart.
        StaleStateid = 10_023,
        /// The stateid's seqid is older than the state.
        OldStateid = 10_024,
        /// The stateid names no state.
        BadStateid = 10_025,
        /// The seqid is out of order.
        BadSeqid = 10_026,
        /// VERIFY: the attributes differ.
        NotSame = 10_027,
        /// A lock cannot be split or joined this way.
        LockRange = 10_028,
        /// The object is a symbolic link.
        Symlink = 10_029,
        /// RESTOREFH without SAVEFH (minor version 0).
        RestoreFh = 10_030,
        /// A file system under the lease moved.
        LeaseMoved = 10_031,
        /// An attribute cannot be set or is not known.
        AttrNotSupp = 10_032,
        /// Reclaim outside the grace period.
        NoGrace = 10_033,
        /// The client has nothing to reclaim here.
        ReclaimBad = 10_034,
        /// Another client has the state that is reclaimed.
        ReclaimConflict = 10_035,
        /// The arguments cannot be decoded.
        BadXdr = 10_036,
        /// CLOSE while locks are held.
        LocksHeld = 10_037,
        /// The file is not open for this.
        OpenMode = 10_038,
        /// No such user or group.
        BadOwner = 10_039,
        /// A character is not in the character set.
        BadChar = 10_040,
        /// A name is not allowed, such as `..`.
        BadName = 10_041,
        /// The lock's range cannot be served.
        BadRange = 10_042,
        /// The lock cannot be upgraded or downgraded.
        LockNotSupp = 10_043,
        /// The operation does not exist in this minor version.
        OpIllegal = 10_044,
        /// The lock would be a deadlock.
        Deadlock = 10_045,
        /// The file is open.
        FileOpen = 10_046,
        /// An administrator revoked the state.
        AdminRevoked = 10_047,
        /// The callback path is down.
        CbPathDown = 10_048,
        /// The layout's iomode does not allow this.
        BadIoMode = 10_049,
        /// The layout does not match the request.
        BadLayout = 10_050,
        /// The digest of SET_SSV is wrong.
        BadSessionDigest = 10_051,
        /// The session is unknown.
        BadSession = 10_052,
        /// The slot is beyond the session's table.
        BadSlot = 10_053,
        /// RECLAIM_COMPLETE was done before.
        CompleteAlready = 10_054,
        /// The connection is not bound to the session.
        ConnNotBoundToSession = 10_055,
        /// The client requested this delegation before.
        DelegAlreadyWanted = 10_056,
        /// Callbacks of the session are outstanding.
        BackChanBusy = 10_057,
        /// The layout is not available now.
        LayoutTryLater = 10_058,
        /// The file has no layouts of this kind.
        LayoutUnavailable = 10_059,
        /// The client has no layout that matches the recall.
        NoMatchingLayout = 10_060,
        /// A recall conflicts with the request.
        RecallConflict = 10_061,
        /// The layout type is not served.
        UnknownLayoutType = 10_062,
        /// The slot's sequence is neither the last nor the next.
        SeqMisordered = 10_063,
        /// SEQUENCE is not the first operation.
        SequencePos = 10_064,
        /// The request is larger than the session allows.
        ReqTooBig = 10_065,
        /// The reply is larger than the session allows.
        RepTooBig = 10_066,
        /// The reply is larger than the session's cache allows.
        RepTooBigToCache = 10_067,
        /// The reply to this retry was not kept.
        RetryUncachedRep = 10_068,
        /// The order of operations is not safe to retry.
        UnsafeCompound = 10_069,
        /// More operations than the session allows.
        TooManyOps = 10_070,
        /// The operation needs a session.
        OpNotInSession = 10_071,
        /// The hash algorithm is not supported.
        HashAlgUnsupp = 10_072,
        /// The client id still has sessions or state.
        ClientidBusy = 10_074,
        /// The layout has a hole here.
        PnfsIoHole = 10_075,
        /// A retry that differs from the first request.
        SeqFalseRetry = 10_076,
        /// The highest slot is beyond what was granted.
        BadHighSlot = 10_077,
        /// The session is being destroyed.
        DeadSession = 10_078,
        /// The encryption algorithm is not supported.
        EncrAlgUnsupp = 10_079,
        /// I/O at a data server without a layout.
        PnfsNoLayout = 10_080,
        /// The operation must be alone in its compound.
        NotOnlyOp = 10_081,
        /// The principal may not do this with this state.
        WrongCred = 10_082,
        /// The object is of another type.
        WrongType = 10_083,
        /// No directory delegation is available.
        DirDelegUnavail = 10_084,
        /// The client refuses the pushed delegation.
        RejectDeleg = 10_085,
        /// A return of the layout is outstanding.
        ReturnConflict = 10_086,
        /// The delegation was revoked.
        DelegRevoked = 10_087,
        /// The copy partner does not support this (RFC 7862).
        PartnerNotSupp = 10_088,
        /// The copy partner is not authorized (RFC 7862).
        PartnerNoAuth = 10_089,
        /// This arm of the union is not supported (RFC 7862).
        UnionNotSupp = 10_090,
        /// The copy is not allowed (RFC 7862).
        OffloadDenied = 10_091,
        /// The label format is not right (RFC 7862).
        WrongLfs = 10_092,
        /// The label is not valid (RFC 7862).
        BadLabel = 10_093,
        /// The requirements of the copy cannot be met (RFC 7862).
        OffloadNoReqs = 10_094,
        /// The extended attribute does not exist (RFC 8276).
        NoXattr = 10_095,
        /// The extended attribute is too big (RFC 8276).
        Xattr2Big = 10_096,
    }
}
