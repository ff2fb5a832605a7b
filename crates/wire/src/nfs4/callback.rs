//! Callbacks (RFC 8881, sections 19 and 20; RFC 7862, section 16): a server calls its client over the
//! session's back channel. The server encodes calls and decodes replies; the other direction is for tests and
//! for the clients of this project. Callbacks that this server never sends have only a number and a name.

use super::result::{OpResult, failure};
use super::{
    Bitmap, FileHandle, FsId, LayoutIoMode, LayoutType, OP_ILLEGAL, OwnerName, SessionId, StateOwner,
    Stateid, Status,
};
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};
use crate::{xdr_enum, xdr_struct, xdr_union};

xdr_struct! {
    /// CB_RECALL (section 20.2): recalls a delegation.
    pub struct RecallArgs {
        /// The delegation.
        pub stateid: Stateid,
        /// True if the file is about to be truncated to 0 bytes, so that its data need not be written.
        pub truncate: bool,
        /// The file.
        pub fh: FileHandle,
    }

    /// layoutrecall_file4: a range of one file.
    pub struct RecallFile {
        /// The file.
        pub fh: FileHandle,
        /// First byte.
        pub offset: u64,
        /// Bytes; `u64::MAX` is to the end of the file.
        pub length: u64,
        /// The layout.
        pub stateid: Stateid,
    }

    /// CB_LAYOUTRECALL (section 20.3): recalls layouts.
    pub struct LayoutRecallArgs {
        /// The type.
        pub layout_type: LayoutType,
        /// Layouts for reads, for reads and writes, or both.
        pub iomode: LayoutIoMode,
        /// True if the data will move, so that the client should write its dirty data through the metaserver.
        pub changed: bool,
        /// Layouts to recall.
        pub recall: LayoutRecall,
    }

    /// referring_call4: a call of the client on which this callback depends.
    #[derive(Copy, Hash)]
    pub struct ReferringCall {
        /// Sequence id of the call.
        pub sequenceid: u32,
        /// Slot of the call.
        pub slotid: u32,
    }

    /// referring_call_list4.
    pub struct ReferringCalls {
        /// The session.
        pub sessionid: SessionId,
        /// Calls of the session.
        pub calls: Vec<ReferringCall>,
    }

    /// CB_SEQUENCE (section 20.9): the first operation of every callback.
    pub struct SequenceArgs {
        /// The session.
        pub sessionid: SessionId,
        /// One more than the slot's last, or the same in a retry.
        pub sequenceid: u32,
        /// The slot of the back channel.
        pub slotid: u32,
        /// The highest slot that the server has in use.
        pub highest_slotid: u32,
        /// True if the reply must be kept for a retry.
        pub cachethis: bool,
        /// Calls whose replies the client should wait for first.
        pub referring_call_lists: Vec<ReferringCalls>,
    }

    /// The results of CB_SEQUENCE.
    #[derive(Copy)]
    pub struct SequenceOk {
        /// Same value as in the arguments.
        pub sessionid: SessionId,
        /// Same value as in the arguments.
        pub sequenceid: u32,
        /// Same value as in the arguments.
        pub slotid: u32,
        /// The highest slot that the client has.
        pub highest_slotid: u32,
        /// The highest slot that the client would like the server to use.
        pub target_highest_slotid: u32,
    }

    /// CB_RECALL_ANY (section 20.6): the client is to give back what it needs least.
    pub struct RecallAnyArgs {
        /// Objects that it may keep.
        pub objects_to_keep: u32,
        /// Their kinds: bits of RCA4_TYPE_MASK.
        pub type_mask: Bitmap,
    }

    /// CB_NOTIFY_LOCK (section 20.11): a lock that was denied may be free now.
    pub struct NotifyLockArgs {
        /// The file.
        pub fh: FileHandle,
        /// Lock-owner that waits.
        pub lock_owner: StateOwner,
    }
}

xdr_union! {
    /// layoutrecall4: layouts to recall.
    pub enum LayoutRecall {
        /// A range of one file.
        1 => File(RecallFile),
        /// All files of one file system.
        2 => FsId(FsId),
        /// All files.
        3 => All,
    }
}

impl RecallAnyArgs {
    /// RCA4_TYPE_MASK_WDATA_DLG: write delegations.
    pub const WRITE_DELEGATIONS: Bitmap = Bitmap::of(&[1]);
}

impl LayoutRecall {
    /// Recalls all layouts of the files type that a client has of one file; the data stay in place.
    #[must_use]
    pub fn whole_file(fh: FileHandle, stateid: Stateid) -> LayoutRecallArgs {
        LayoutRecallArgs {
            layout_type: LayoutType::FILES,
            iomode: LayoutIoMode::Any,
            changed: false,
            recall: Self::File(RecallFile { fh, offset: 0, length: u64::MAX, stateid }),
        }
    }
}

macro_rules! callbacks {
    ($($number:literal $name:literal $variant:ident $args:ty => $res:ty,)+
     ; known, but never decoded: $($other_number:literal $other_name:literal $other:ident,)+) => {
        xdr_enum! {
            /// nfs_cb_opnum4.
            pub enum CbOpNum {
                $(#[doc = $name] $variant = $number,)+
                $(#[doc = concat!($other_name, ", never decoded.")] $other = $other_number,)+
                /// OP_CB_ILLEGAL.
                Illegal = 10044,
            }
        }

        impl CbOpNum {
            /// The name in the RFC, without `OP_`.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                    $(Self::$other => $other_name,)+
                    Self::Illegal => "CB_ILLEGAL",
                }
            }
        }

        /// One operation of a callback.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum CbArgOp {
            $(#[doc = $name] $variant($args),)+
            /// Known operation whose arguments are not decoded; nothing after it can be decoded.
            Unsupported(u32),
            /// Number without an operation in the protocol.
            Illegal(u32),
        }

        /// The result of one operation of a callback.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum CbResOp {
            $(#[doc = $name] $variant(Result<$res, Status>),)+
            /// Result of [`CbArgOp::Unsupported`]: the number, and a status that is not [`Status::Ok`].
            Unsupported(u32, Status),
            /// Result of [`CbArgOp::Illegal`].
            Illegal,
        }

        impl CbArgOp {
            /// Operation number on the wire.
            #[must_use]
            pub fn number(&self) -> u32 {
                match self {
                    $(Self::$variant(_) => $number,)+
                    Self::Unsupported(number) | Self::Illegal(number) => *number,
                }
            }
        }

        impl Encode for CbArgOp {
            fn encode(&self, e: &mut Encoder) {
                e.u32(self.number());
                match self {
                    $(Self::$variant(args) => args.encode(e),)+
                    Self::Unsupported(_) | Self::Illegal(_) => {}
                }
            }
        }

        impl Decode for CbArgOp {
            fn decode(d: &mut Decoder) -> Result<Self, DecodeError> {
                match d.u32()? {
                    $($number => Decode::decode(d).map(Self::$variant),)+
                    number @ ($($other_number)|+) => Ok(Self::Unsupported(number)),
                    number => Ok(Self::Illegal(number)),
                }
            }
        }

        impl CbResOp {
            /// Result of operation `number` with an error status.
            #[must_use]
            pub fn refused(number: u32, status: Status) -> Self {
                match number {
                    $($number => Self::$variant(Err(failure(status))),)+
                    $($other_number => Self::Unsupported(number, failure(status)),)+
                    _ => Self::Illegal,
                }
            }

            /// Status of the result.
            #[must_use]
            pub fn status(&self) -> Status {
                match self {
                    $(Self::$variant(res) => res.status(),)+
                    Self::Unsupported(_, status) => failure(*status),
                    Self::Illegal => Status::OpIllegal,
                }
            }
        }

        impl Encode for CbResOp {
            fn encode(&self, e: &mut Encoder) {
                match self {
                    $(Self::$variant(res) => {
                        e.u32($number);
                        res.encode_result(e);
                    })+
                    Self::Unsupported(number, status) => {
                        e.u32(*number);
                        failure(*status).encode(e);
                    }
                    Self::Illegal => {
                        e.u32(OP_ILLEGAL);
                        Status::OpIllegal.encode(e);
                    }
                }
            }
        }

        impl Decode for CbResOp {
            fn decode(d: &mut Decoder) -> Result<Self, DecodeError> {
                match d.u32()? {
                    $($number => OpResult::decode_result(d).map(Self::$variant),)+
                    number @ ($($other_number)|+ | OP_ILLEGAL) => match Status::decode(d)? {
                        Status::Ok => Err(DecodeError::Enum(number)),
                        _ if number == OP_ILLEGAL => Ok(Self::Illegal),
                        status => Ok(Self::Unsupported(number, status)),
                    },
                    other => Err(DecodeError::Enum(other)),
                }
            }
        }
    };
}

callbacks! {
    4 "CB_RECALL" Recall RecallArgs => (),
    5 "CB_LAYOUTRECALL" LayoutRecall LayoutRecallArgs => (),
    8 "CB_RECALL_ANY" RecallAny RecallAnyArgs => (),
    11 "CB_SEQUENCE" Sequence SequenceArgs => SequenceOk,
    13 "CB_NOTIFY_LOCK" NotifyLock NotifyLockArgs => (),
    ; known, but never decoded:
    3 "CB_GETATTR" GetAttr,
    6 "CB_NOTIFY" Notify,
    7 "CB_PUSH_DELEG" PushDeleg,
    9 "CB_RECALLABLE_OBJ_AVAIL" RecallableObjAvail,
    10 "CB_RECALL_SLOT" RecallSlot,
    12 "CB_WANTS_CANCELLED" WantsCancelled,
    14 "CB_NOTIFY_DEVICEID" NotifyDeviceid,
    15 "CB_OFFLOAD" Offload,
}

/// CB_COMPOUND (section 19.2): a whole callback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CbCompound {
    /// Tag, returned in the reply.
    pub tag: OwnerName,
    /// Minor version of the session.
    pub minor_version: u32,
    /// Unused since minor version 1.
    pub callback_ident: u32,
    /// The operations, CB_SEQUENCE first.
    pub ops: Vec<CbArgOp>,
}

impl CbCompound {
    /// A callback without tag.
    #[must_use]
    pub fn new(minor_version: u32, ops: Vec<CbArgOp>) -> Self {
        Self { tag: OwnerName::default(), minor_version, callback_ident: 0, ops }
    }
}

impl Encode for CbCompound {
    fn encode(&self, e: &mut Encoder) {
        self.tag.encode(e);
        e.u32(self.minor_version);
        e.u32(self.callback_ident);
        e.array(&self.ops);
    }
}

impl Decode for CbCompound {
    /// Decodes operations up to the first whose arguments cannot be decoded.
    fn decode(d: &mut Decoder) -> Result<Self, DecodeError> {
        let (tag, minor_version) = (OwnerName::decode(d)?, d.u32()?);
        let (callback_ident, count) = (d.u32()?, d.u32()?);
        let mut ops = Vec::new();
        for _ in 0..count {
            let op = CbArgOp::decode(d)?;
            let last = matches!(op, CbArgOp::Unsupported(_) | CbArgOp::Illegal(_));
            ops.push(op);
            if last {
                break;
            }
        }
        Ok(Self { tag, minor_version, callback_ident, ops })
    }
}

/// The reply to a callback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CbReply {
    /// The status of the last operation.
    pub status: Status,
    /// Tag of the call.
    pub tag: OwnerName,
    /// Results up to the first failure.
    pub ops: Vec<CbResOp>,
}

impl Encode for CbReply {
    fn encode(&self, e: &mut Encoder) {
        self.status.encode(e);
        self.tag.encode(e);
        e.array(&self.ops);
    }
}

impl Decode for CbReply {
    fn decode(d: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(Self { status: Decode::decode(d)?, tag: OwnerName::decode(d)?, ops: Decode::decode(d)? })
    }
}
