//! Replies: the results of a call, or the reason for none (RFC 5531, section 9).

use super::auth::skip_verifier;
use super::record::MESSAGE_REPLY;
use super::{Credential, RPC_VERSION};
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder, Message};
use crate::xdr_enum;

xdr_enum! {
    /// auth_stat: error of authentication (RFC 5531, section 8.1).
    pub enum AuthStat {
        /// The credential is malformed.
        BadCred = 1,
        /// The client must begin a new session.
        RejectedCred = 2,
        /// The verifier is malformed.
        BadVerf = 3,
        /// The verifier expired or was replayed.
        RejectedVerf = 4,
        /// Refused for security reasons, such as an unprivileged source port.
        TooWeak = 5,
    }
}

/// Rejection of a call by RPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejection {
    /// Program unavailable.
    ProgramUnavailable,
    /// The program has other versions only.
    ProgramMismatch {
        /// Lowest supported version.
        low: u32,
        /// Highest supported version.
        high: u32,
    },
    /// The program has no such procedure.
    ProcedureUnavailable,
    /// The arguments cannot be decoded.
    GarbageArguments,
    /// Resource exhaustion of the server, such as memory.
    SystemError,
    /// Another version of RPC.
    RpcMismatch,
    /// The caller's credential was refused.
    Auth(AuthStat),
}

/// Header of a reply, for the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyHeader {
    /// Transaction id of the call.
    pub xid: u32,
    /// Success, which results follow, or rejection.
    pub outcome: Result<(), Rejection>,
}

impl ReplyHeader {
    /// Decodes a header; afterwards the decoder is at the results, if any.
    ///
    /// # Errors
    /// [`DecodeError`] when this is not a reply.
    pub fn decode(d: &mut Decoder) -> Result<Self, DecodeError> {
        let xid = d.u32()?;
        let kind = d.u32()?;
        if kind != MESSAGE_REPLY {
            return Err(DecodeError::Enum(kind));
        }
        let outcome = match d.u32()? {
            0 => {
                skip_verifier(d)?;
                accepted(d)?
            }
            1 => Err(denied(d)?),
            other => return Err(DecodeError::Enum(other)),
        };
        Ok(Self { xid, outcome })
    }
}

fn accepted(d: &mut Decoder) -> Result<Result<(), Rejection>, DecodeError> {
    Ok(match d.u32()? {
        0 => Ok(()),
        1 => Err(Rejection::ProgramUnavailable),
        2 => Err(Rejection::ProgramMismatch { low: d.u32()?, high: d.u32()? }),
        3 => Err(Rejection::ProcedureUnavailable),
        4 => Err(Rejection::GarbageArguments),
        5 => Err(Rejection::SystemError),
        other => return Err(DecodeError::Enum(other)),
    })
}

fn denied(d: &mut Decoder) -> Result<Rejection, DecodeError> {
    match d.u32()? {
        0 => Ok(Rejection::RpcMismatch),
        1 => Ok(Rejection::Auth(AuthStat::decode(d)?)),
        other => Err(DecodeError::Enum(other)),
    }
}

/// Whole reply message: header, and on success the results.
#[must_use]
pub fn reply(xid: u32, outcome: Result<&Message, Rejection>) -> Message {
    let mut e = Encoder::new();
    e.u32(xid);
    e.u32(MESSAGE_REPLY);
    match outcome {
        Err(Rejection::RpcMismatch) => [1, 0, RPC_VERSION, RPC_VERSION].iter().for_each(|w| e.u32(*w)),
        Err(Rejection::Auth(stat)) => {
            e.u32(1);
            e.u32(1);
            stat.encode(&mut e);
        }
        accepted => {
            e.u32(0);
            Credential::None.encode(&mut e);
            match accepted {
                Ok(results) => {
                    e.u32(0);
                    e.message(results);
                }
                Err(Rejection::ProgramUnavailable) => e.u32(1),
                Err(Rejection::ProgramMismatch { low, high }) => {
                    [2, low, high].iter().for_each(|w| e.u32(*w))
                }
                Err(Rejection::ProcedureUnavailable) => e.u32(3),
                Err(Rejection::GarbageArguments) => e.u32(4),
                Err(_) => e.u32(5),
            }
        }
    }
    e.finish()
}
