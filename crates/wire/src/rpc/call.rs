//! Header of a call (RFC 5531, section 9).

use thiserror::Error;

use super::auth::skip_verifier;
use super::record::MESSAGE_CALL;
use super::{AuthStat, Credential};
use crate::xdr::{DecodeError, Decoder, Encode, Encoder};

/// The only version of RPC.
pub const RPC_VERSION: u32 = 2;

/// Header before the arguments of every call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallHeader {
    /// Transaction id, chosen by the caller, returned in the reply.
    pub xid: u32,
    /// Program number.
    pub program: u32,
    /// Version of the program.
    pub version: u32,
    /// Procedure of that version.
    pub procedure: u32,
    /// Credential of the caller.
    pub credential: Credential,
}

/// Error of decoding a call header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CallError {
    /// Not a call, or too short to have an xid: no reply is possible.
    #[error("not an RPC call: {0}")]
    Malformed(DecodeError),
    /// Another version of RPC: answered RPC_MISMATCH.
    #[error("RPC version {version}")]
    RpcVersion {
        /// The call's xid.
        xid: u32,
        /// RPC version of the call.
        version: u32,
    },
    /// Malformed credential: answered AUTH_ERROR.
    #[error("bad credential")]
    Auth {
        /// The call's xid.
        xid: u32,
        /// Error status.
        stat: AuthStat,
    },
}

impl CallHeader {
    /// Decodes a header; afterwards the decoder is at the arguments.
    ///
    /// # Errors
    /// [`CallError`], which determines the reply.
    pub fn decode(d: &mut Decoder) -> Result<Self, CallError> {
        use crate::xdr::Decode;
        let xid = d.u32().map_err(CallError::Malformed)?;
        let kind = d.u32().map_err(CallError::Malformed)?;
        if kind != MESSAGE_CALL {
            return Err(CallError::Malformed(DecodeError::Enum(kind)));
        }
        let version = d.u32().map_err(CallError::Malformed)?;
        if version != RPC_VERSION {
            return Err(CallError::RpcVersion { xid, version });
        }
        let mut numbers = || -> Result<_, DecodeError> { Ok((d.u32()?, d.u32()?, d.u32()?)) };
        let (program, version, procedure) = numbers().map_err(CallError::Malformed)?;
        let bad = |_| CallError::Auth { xid, stat: AuthStat::BadCred };
        let credential = Credential::decode(d).map_err(bad)?;
        skip_verifier(d).map_err(|_| CallError::Auth { xid, stat: AuthStat::BadVerf })?;
        Ok(Self { xid, program, version, procedure, credential })
    }
}

impl Encode for CallHeader {
    fn encode(&self, e: &mut Encoder) {
        for word in [self.xid, MESSAGE_CALL, RPC_VERSION, self.program, self.version, self.procedure] {
            e.u32(word);
        }
        self.credential.encode(e);
        Credential::None.encode(e);
    }
}
