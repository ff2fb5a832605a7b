//! COMPOUND (RFC 8881, section 16.2): what stands around the operations of a call, and around their results.
//!
//! ```text
//! call:   tag │ minor version │ count │ op args │ op args │ …       decoded one by one, as they are carried out
//! reply:  status of the last │ tag │ count │ op status body │ …     ends with the first that failed
//! ```

use super::{ArgOp, BadOp, OwnerName, ResOp, Status};
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder, Message};
use crate::xdr_struct;

xdr_struct! {
    /// What stands before the operations of a call. Decoded, the decoder then stands at the first operation.
    pub struct CompoundHeader {
        /// Repeated in the reply.
        pub tag: OwnerName,
        /// 1 or 2; another is answered NFS4ERR_MINOR_VERS_MISMATCH.
        pub minor_version: u32,
        /// Operations that follow, as the client says. Allocate nothing by it.
        pub op_count: u32,
    }
}

/// One result as a message of its own, payloads by reference, so that a server knows its size before it goes
/// on.
#[must_use]
pub fn encode_op(result: &ResOp) -> Message {
    let mut e = Encoder::new();
    result.encode(&mut e);
    e.finish()
}

/// A reply, of results that were encoded before.
#[must_use]
pub fn reply(status: Status, tag: &OwnerName, results: &[Message]) -> Message {
    let mut e = Encoder::new();
    status.encode(&mut e);
    tag.encode(&mut e);
    e.u32(u32::try_from(results.len()).unwrap_or(u32::MAX));
    results.iter().for_each(|result| e.message(result));
    e.finish()
}

/// A whole call, as a client makes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompoundCall {
    /// Repeated in the reply.
    pub tag: OwnerName,
    /// 1 or 2.
    pub minor_version: u32,
    /// The operations.
    pub ops: Vec<ArgOp>,
}

impl CompoundCall {
    /// A call without tag.
    #[must_use]
    pub fn new(minor_version: u32, ops: Vec<ArgOp>) -> Self {
        Self { tag: OwnerName::default(), minor_version, ops }
    }

    /// All operations, up to the first whose arguments are not read.
    ///
    /// # Errors
    /// [`BadOp`] of the header or of an operation.
    pub fn decode(d: &mut Decoder) -> Result<Self, BadOp> {
        let header = CompoundHeader::decode(d).map_err(|error| BadOp { number: super::OP_ILLEGAL, error })?;
        let mut ops = Vec::new();
        for _ in 0..header.op_count {
            let op = ArgOp::decode(d, header.minor_version)?;
            let last = matches!(op, ArgOp::Unsupported(_) | ArgOp::Illegal(_));
            ops.push(op);
            if last {
                break;
            }
        }
        Ok(Self { tag: header.tag, minor_version: header.minor_version, ops })
    }
}

impl Encode for CompoundCall {
    fn encode(&self, e: &mut Encoder) {
        self.tag.encode(e);
        e.u32(self.minor_version);
        e.array(&self.ops);
    }
}

xdr_struct! {
    /// A whole reply, as a client reads it.
    pub struct CompoundReply {
        /// The status of the last operation.
        pub status: Status,
        /// As in the call.
        pub tag: OwnerName,
        /// Results up to the first that failed.
        pub ops: Vec<ResOp>,
    }
}

impl CompoundReply {
    /// Reads a reply after which nothing may follow.
    ///
    /// # Errors
    /// [`DecodeError`] when it is malformed, or goes on after its end.
    pub fn decode_all(mut d: Decoder) -> Result<Self, DecodeError> {
        let reply = Self::decode(&mut d)?;
        if d.remaining() == 0 { Ok(reply) } else { Err(DecodeError::Range) }
    }
}
