//! The table of operations: numbers (RFC 8881, section 18; RFC 7862, section 15; RFC 8276, section 8.4),
//! arguments and results.
//!
//! No server here carries out the operations of the second list, so their arguments have no type: a compound
//! ends at the first operation that fails, and these fail.

use thiserror::Error;

use super::result::{OpResult, failure};
use super::*;
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};
use crate::xdr_enum;

/// The highest operation of minor version 1.
const MINOR_1_LAST: u32 = 58;

/// Decode error of an operation's arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("arguments of operation {number}: {error}")]
pub struct BadOp {
    /// Operation number for the result; [`OP_ILLEGAL`] when the number cannot be decoded.
    pub number: u32,
    /// Cause.
    pub error: DecodeError,
}

impl From<BadOp> for DecodeError {
    fn from(bad: BadOp) -> Self {
        bad.error
    }
}

macro_rules! operations {
    ($($number:literal $name:literal $variant:ident $module:ident $(($args:ty))?,)+
     ; known, but never decoded: $($other_number:literal $other_name:literal $other:ident,)+) => {
        xdr_enum! {
            /// nfs_opnum4.
            pub enum OpNum {
                $(#[doc = $name] $variant = $number,)+
                $(#[doc = concat!($other_name, ", never decoded.")] $other = $other_number,)+
                /// OP_ILLEGAL.
                Illegal = 10044,
            }
        }

        impl OpNum {
            /// The name in the RFC, without `OP_`.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                    $(Self::$other => $other_name,)+
                    Self::Illegal => "ILLEGAL",
                }
            }
        }

        /// One operation of a call.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum ArgOp {
            $(#[doc = concat!("See [`", stringify!($module), "`](super::", stringify!($module), ").")]
            $variant $(($args))?,)+
            /// Known operation whose arguments are not decoded: answered NFS4ERR_NOTSUPP. The decoder is
            /// before its arguments, so nothing after it can be decoded.
            Unsupported(u32),
            /// Number that this minor version does not have: answered OP_ILLEGAL and NFS4ERR_OP_ILLEGAL.
            Illegal(u32),
        }

        /// The result of one operation.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum ResOp {
            $(#[doc = concat!("See [`", stringify!($module), "`](super::", stringify!($module), ").")]
            $variant($module::Res),)+
            /// Result of [`ArgOp::Unsupported`]: the number, and a status that is not [`Status::Ok`].
            Unsupported(u32, Status),
            /// Result of [`ArgOp::Illegal`].
            Illegal,
        }

        impl ArgOp {
            /// Decodes the next operation of a compound of this minor version.
            ///
            /// # Errors
            /// [`BadOp`], answered NFS4ERR_BADXDR: see [`ResOp::refused`].
            pub fn decode(d: &mut Decoder, minor: u32) -> Result<Self, BadOp> {
                let number = d.u32().map_err(|error| BadOp { number: OP_ILLEGAL, error })?;
                if minor < 2 && number > MINOR_1_LAST {
                    return Ok(Self::Illegal(number));
                }
                match number {
                    $($number => operations!(@decode d $variant $(($args))?),)+
                    $($other_number => Ok(Self::Unsupported(number)),)+
                    _ => Ok(Self::Illegal(number)),
                }
                .map_err(|error| BadOp { number, error })
            }

            /// Operation number on the wire; of an illegal operation the received number.
            #[must_use]
            pub fn number(&self) -> u32 {
                match self {
                    $(operations!(@any $variant $(($args))?) => $number,)+
                    Self::Unsupported(number) | Self::Illegal(number) => *number,
                }
            }
        }

        impl Encode for ArgOp {
            fn encode(&self, e: &mut Encoder) {
                e.u32(self.number());
                match self {
                    $(operations!(@args $variant args $(($args))?) => { $(<$args as Encode>::encode(args, e);)? })+
                    Self::Unsupported(_) | Self::Illegal(_) => {}
                }
            }
        }

        impl ResOp {
            /// Result of operation `number` with an error status and nothing else.
            #[must_use]
            pub fn refused(number: u32, status: Status) -> Self {
                match number {
                    $($number => Self::$variant(OpResult::failed(status)),)+
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

            /// Operation number on the wire.
            #[must_use]
            pub fn number(&self) -> u32 {
                match self {
                    $(Self::$variant(_) => $number,)+
                    Self::Unsupported(number, _) => *number,
                    Self::Illegal => OP_ILLEGAL,
                }
            }
        }

        impl Encode for ResOp {
            fn encode(&self, e: &mut Encoder) {
                e.u32(self.number());
                match self {
                    $(Self::$variant(res) => res.encode_result(e),)+
                    Self::Unsupported(_, status) => failure(*status).encode(e),
                    Self::Illegal => Status::OpIllegal.encode(e),
                }
            }
        }

        impl Decode for ResOp {
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
    (@decode $d:ident $variant:ident) => { Ok(Self::$variant) };
    (@decode $d:ident $variant:ident ($args:ty)) => { <$args as Decode>::decode($d).map(Self::$variant) };
    (@any $variant:ident) => { Self::$variant };
    (@any $variant:ident ($args:ty)) => { Self::$variant(_) };
    (@args $variant:ident $inner:ident) => { Self::$variant };
    (@args $variant:ident $inner:ident ($args:ty)) => { Self::$variant($inner) };
}

operations! {
    3 "ACCESS" Access access (access::Args),
    4 "CLOSE" Close close (close::Args),
    5 "COMMIT" Commit commit (commit::Args),
    6 "CREATE" Create create (create::Args),
    8 "DELEGRETURN" DelegReturn delegreturn (delegreturn::Args),
    9 "GETATTR" GetAttr getattr (getattr::Args),
    10 "GETFH" GetFh getfh,
    11 "LINK" Link link (link::Args),
    12 "LOCK" Lock lock (lock::Args),
    13 "LOCKT" LockT lockt (lockt::Args),
    14 "LOCKU" LockU locku (locku::Args),
    15 "LOOKUP" Lookup lookup (lookup::Args),
    16 "LOOKUPP" LookupP filehandles,
    17 "NVERIFY" NVerify nverify (nverify::Args),
    18 "OPEN" Open open (open::Args),
    21 "OPEN_DOWNGRADE" OpenDowngrade open_downgrade (open_downgrade::Args),
    22 "PUTFH" PutFh putfh (putfh::Args),
    23 "PUTPUBFH" PutPubFh filehandles,
    24 "PUTROOTFH" PutRootFh filehandles,
    25 "READ" Read read (read::Args),
    26 "READDIR" ReadDir readdir (readdir::Args),
    27 "READLINK" ReadLink readlink,
    28 "REMOVE" Remove remove (remove::Args),
    29 "RENAME" Rename rename (rename::Args),
    31 "RESTOREFH" RestoreFh filehandles,
    32 "SAVEFH" SaveFh filehandles,
    33 "SECINFO" SecInfo secinfo (secinfo::Args),
    34 "SETATTR" SetAttr setattr (setattr::Args),
    37 "VERIFY" Verify verify (verify::Args),
    38 "WRITE" Write write (write::Args),
    40 "BACKCHANNEL_CTL" BackchannelCtl backchannel_ctl (backchannel_ctl::Args),
    41 "BIND_CONN_TO_SESSION" BindConnToSession bind_conn_to_session (bind_conn_to_session::Args),
    42 "EXCHANGE_ID" ExchangeId exchange_id (exchange_id::Args),
    43 "CREATE_SESSION" CreateSession create_session (create_session::Args),
    44 "DESTROY_SESSION" DestroySession destroy_session (destroy_session::Args),
    45 "FREE_STATEID" FreeStateid free_stateid (free_stateid::Args),
    47 "GETDEVICEINFO" GetDeviceInfo getdeviceinfo (getdeviceinfo::Args),
    49 "LAYOUTCOMMIT" LayoutCommit layoutcommit (layoutcommit::Args),
    50 "LAYOUTGET" LayoutGet layoutget (layoutget::Args),
    51 "LAYOUTRETURN" LayoutReturn layoutreturn (layoutreturn::Args),
    52 "SECINFO_NO_NAME" SecInfoNoName secinfo_no_name (secinfo_no_name::Args),
    53 "SEQUENCE" Sequence sequence (sequence::Args),
    55 "TEST_STATEID" TestStateid test_stateid (test_stateid::Args),
    57 "DESTROY_CLIENTID" DestroyClientid destroy_clientid (destroy_clientid::Args),
    58 "RECLAIM_COMPLETE" ReclaimComplete reclaim_complete (reclaim_complete::Args),
    59 "ALLOCATE" Allocate allocate (allocate::Args),
    60 "COPY" Copy copy (copy::Args),
    62 "DEALLOCATE" Deallocate deallocate (deallocate::Args),
    63 "IO_ADVISE" IoAdvise io_advise (io_advise::Args),
    64 "LAYOUTERROR" LayoutError layouterror (layouterror::Args),
    65 "LAYOUTSTATS" LayoutStats layoutstats (layoutstats::Args),
    68 "READ_PLUS" ReadPlus read_plus (read_plus::Args),
    69 "SEEK" Seek seek (seek::Args),
    71 "CLONE" Clone clone (clone::Args),
    72 "GETXATTR" GetXattr getxattr (getxattr::Args),
    73 "SETXATTR" SetXattr setxattr (setxattr::Args),
    74 "LISTXATTRS" ListXattrs listxattrs (listxattrs::Args),
    75 "REMOVEXATTR" RemoveXattr removexattr (removexattr::Args),
    ; known, but never decoded:
    // Of minor version 0: not to be implemented in later ones (RFC 8881, section 17).
    20 "OPEN_CONFIRM" OpenConfirm,
    30 "RENEW" Renew,
    35 "SETCLIENTID" SetClientid,
    36 "SETCLIENTID_CONFIRM" SetClientidConfirm,
    39 "RELEASE_LOCKOWNER" ReleaseLockOwner,
    // Of minor version 1 (RFC 8881).
    7 "DELEGPURGE" DelegPurge, // section 18.5
    19 "OPENATTR" OpenAttr, // section 18.17
    46 "GET_DIR_DELEGATION" GetDirDelegation, // section 18.39
    48 "GETDEVICELIST" GetDeviceList, // section 18.41
    54 "SET_SSV" SetSsv, // section 18.47
    56 "WANT_DELEGATION" WantDelegation, // section 18.49
    // Of minor version 2 (RFC 7862).
    61 "COPY_NOTIFY" CopyNotify, // section 15.3
    66 "OFFLOAD_CANCEL" OffloadCancel, // section 15.8
    67 "OFFLOAD_STATUS" OffloadStatus, // section 15.9
    70 "WRITE_SAME" WriteSame, // section 15.12
}

impl ArgOp {
    /// Name of the operation in the RFC, for logs and metrics; `ILLEGAL` for unknown ones.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Illegal(_) => OpNum::Illegal.name(),
            known => OpNum::from_u32(known.number()).unwrap_or(OpNum::Illegal).name(),
        }
    }

    /// Result of this operation with an error status and nothing else. An illegal operation always has
    /// NFS4ERR_OP_ILLEGAL.
    #[must_use]
    pub fn refused(&self, status: Status) -> ResOp {
        match self {
            Self::Illegal(_) => ResOp::Illegal,
            known => ResOp::refused(known.number(), status),
        }
    }
}

impl ResOp {
    /// The operation's name in the RFC.
    #[must_use]
    pub fn name(&self) -> &'static str {
        OpNum::from_u32(self.number()).unwrap_or(OpNum::Illegal).name()
    }
}
