//! COMPOUND (RFC 8881, section 16.2): header of the operations of a call, and of their results.
//!
//! ```text
//! call:   tag │ minor version │ count │ op args │ op args │ …     decoded one by one, before execution
//! reply:  status of the last │ tag │ count │ op status body │ …   ends with the first failure
//! ```

use super::{ArgOp, BadOp, OwnerName, ResOp, Status};
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder, Message};
use crate::xdr_struct;

xdr_struct! {
    /// Header before the operations of a call. After its decode, the decoder is at the first operation.
    pub struct CompoundHeader {
        /// Tag, returned in the reply.
        pub tag: OwnerName,
        /// Minor version: 1 or 2; any other is answered NFS4ERR_MINOR_VERS_MISMATCH.
        pub minor_version: u32,
        /// Number of operations, claimed by the client. Never allocate by it.
        pub op_count: u32,
    }
}

/// Encodes one result as a message of its own, payloads by reference, so that a server knows its size before
/// the next operation.
#[must_use]
pub fn encode_op(result: &ResOp) -> Message {
    let mut e = Encoder::new();
    result.encode(&mut e);
    e.finish()
}

/// Reply with results that are encoded already.
#[must_use]
pub fn reply(status: Status, tag: &OwnerName, results: &[Message]) -> Message {
    let mut e = Encoder::new();
    status.encode(&mut e);
    tag.encode(&mut e);
    e.u32(u32::try_from(results.len()).unwrap_or(u32::MAX));
    results.iter().for_each(|result| e.message(result));
    e.finish()
}

/// Whole call, for clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompoundCall {
    /// Tag, returned in the reply.
    pub tag: OwnerName,
    /// Minor version: 1 or 2.
    pub minor_version: u32,
    /// The operations.
    pub ops: Vec<ArgOp>,
}

impl CompoundCall {
    /// Call without a tag.
    #[must_use]
    pub fn new(minor_version: u32, ops: Vec<ArgOp>) -> Self {
        Self { tag: OwnerName::default(), minor_version, ops }
    }

    /// Decodes operations up to the first that is not decoded: [`ArgOp::Unsupported`] or [`ArgOp::Illegal`].
    ///
    /// # Errors
    /// [`BadOp`] in the header or in an operation.
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
    /// Whole reply, for clients.
    pub struct CompoundReply {
        /// The status of the last operation.
        pub status: Status,
        /// Tag of the call.
        pub tag: OwnerName,
        /// Results up to the first failure.
        pub ops: Vec<ResOp>,
    }
}

impl CompoundReply {
    /// Decodes a reply that fills the record.
    ///
    /// # Errors
    /// [`DecodeError`] when it is malformed, or followed by more bytes.
    pub fn decode_all(mut d: Decoder) -> Result<Self, DecodeError> {
        let reply = Self::decode(&mut d)?;
        if d.remaining() == 0 { Ok(reply) } else { Err(DecodeError::Range) }
    }
}
