//! open_delegation4: a delegation in the results of OPEN, or the reason for none (RFC 8881, section 10.4).

use crate::nfs4::{Ace, Stateid};
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};
use crate::{xdr_enum, xdr_struct, xdr_union};

xdr_enum! {
    /// open_delegation_type4.
    pub enum DelegationType {
        /// None.
        None = 0,
        /// For reading.
        Read = 1,
        /// For writing.
        Write = 2,
        /// None, with a reason (NONE_EXT).
        NoneExt = 3,
    }
}

xdr_union! {
    /// open_delegation4.
    pub enum Delegation {
        /// OPEN_DELEGATE_NONE.
        0 => None,
        /// OPEN_DELEGATE_READ.
        1 => Read(ReadDelegation),
        /// OPEN_DELEGATE_WRITE.
        2 => Write(WriteDelegation),
        /// OPEN_DELEGATE_NONE_EXT: for clients that set `WANT_` bits.
        3 => NoneExt(WhyNone),
    }

    /// nfs_space_limit4: growth limit of a file under a write delegation.
    #[derive(Copy)]
    pub enum SpaceLimit {
        /// Bytes of the file.
        1 => Size(u64),
        /// Blocks that may be changed.
        2 => Blocks(ModifiedLimit),
    }
}

xdr_struct! {
    /// open_read_delegation4.
    pub struct ReadDelegation {
        /// The delegation.
        pub stateid: Stateid,
        /// True if the delegation is recalled at once.
        pub recall: bool,
        /// Users that may open without a request to the server.
        pub permissions: Ace,
    }

    /// open_write_delegation4.
    pub struct WriteDelegation {
        /// The delegation.
        pub stateid: Stateid,
        /// True if the delegation is recalled at once.
        pub recall: bool,
        /// Growth limit before writes must go to the server.
        pub space_limit: SpaceLimit,
        /// Users that may open without a request to the server.
        pub permissions: Ace,
    }

    /// nfs_modified_limit4.
    #[derive(Copy)]
    pub struct ModifiedLimit {
        /// Blocks.
        pub num_blocks: u32,
        /// Bytes in each.
        pub bytes_per_block: u32,
    }
}

/// open_none_delegation4: the reason for no delegation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhyNone {
    /// Contention for the file; the server may push a delegation later.
    Contention {
        /// ond_server_will_push_deleg.
        will_push: bool,
    },
    /// No resources; the server may signal when there are some.
    Resource {
        /// ond_server_will_signal_avail.
        will_signal: bool,
    },
    /// Any other reason: WND4_NOT_WANTED and its kind.
    Other(WhyOther),
}

xdr_enum! {
    /// why_no_delegation4, without the two reasons that have a flag.
    pub enum WhyOther {
        /// The client did not want one.
        NotWanted = 0,
        /// Not for this type of file.
        NotSuppFtype = 3,
        /// No write delegation for this type of file.
        WriteDelegNotSuppFtype = 4,
        /// No upgrade.
        NotSuppUpgrade = 5,
        /// No downgrade.
        NotSuppDowngrade = 6,
        /// The want was cancelled.
        Cancelled = 7,
        /// It is a directory.
        IsDir = 8,
    }
}

const CONTENTION: u32 = 1;
const RESOURCE: u32 = 2;

impl Encode for WhyNone {
    fn encode(&self, e: &mut Encoder) {
        match self {
            Self::Contention { will_push } => {
                e.u32(CONTENTION);
                will_push.encode(e);
            }
            Self::Resource { will_signal } => {
                e.u32(RESOURCE);
                will_signal.encode(e);
            }
            Self::Other(why) => why.encode(e),
        }
    }
}

impl Decode for WhyNone {
    fn decode(d: &mut Decoder) -> Result<Self, DecodeError> {
        match d.u32()? {
            CONTENTION => Ok(Self::Contention { will_push: Decode::decode(d)? }),
            RESOURCE => Ok(Self::Resource { will_signal: Decode::decode(d)? }),
            why => WhyOther::from_u32(why).map(Self::Other).ok_or(DecodeError::Enum(why)),
        }
    }
}
