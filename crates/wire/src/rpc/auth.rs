//! Credentials (RFC 5531, sections 8.2 and 9; appendix A).

use bytes::Bytes;

use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

/// Supplementary groups that AUTH_SYS can carry (RFC 5531, appendix A).
pub const SYS_GIDS_MAX: usize = 16;
/// Maximal length of the body of a credential or verifier (RFC 5531, section 8.2).
const BODY_BYTES_MAX: usize = 400;
/// Maximal length of the machine name in AUTH_SYS.
const MACHINE_BYTES_MAX: usize = 255;

const FLAVOR_NONE: u32 = 0;
const FLAVOR_SYS: u32 = 1;

/// AUTH_SYS credential: user and groups that the client claims, as trustworthy as the client's kernel.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuthSys {
    /// The client's host name.
    pub machine: Bytes,
    /// User.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Supplementary groups, at most [`SYS_GIDS_MAX`].
    pub gids: Vec<u32>,
}

/// The credential of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    /// AUTH_NONE: no user.
    None,
    /// AUTH_SYS: a user and groups.
    Sys(AuthSys),
    /// Unsupported flavor; answered AUTH_REJECTEDCRED.
    Unknown(u32),
}

impl Decode for Credential {
    fn decode(d: &mut Decoder) -> Result<Self, DecodeError> {
        let flavor = d.u32()?;
        let body = d.opaque(BODY_BYTES_MAX)?;
        match flavor {
            FLAVOR_NONE => Ok(Self::None),
            FLAVOR_SYS => {
                let mut d = Decoder::new(body);
                let _stamp = d.u32()?;
                let machine = d.opaque(MACHINE_BYTES_MAX)?;
                let (uid, gid) = (d.u32()?, d.u32()?);
                let gids = d.array(SYS_GIDS_MAX)?;
                Ok(Self::Sys(AuthSys { machine, uid, gid, gids }))
            }
            other => Ok(Self::Unknown(other)),
        }
    }
}

impl Encode for Credential {
    fn encode(&self, e: &mut Encoder) {
        match self {
            Self::None => {
                e.u32(FLAVOR_NONE);
                e.opaque(&[]);
            }
            Self::Sys(sys) => {
                let mut body = Encoder::new();
                body.u32(0);
                body.opaque(&sys.machine);
                body.u32(sys.uid);
                body.u32(sys.gid);
                body.array(&sys.gids);
                e.u32(FLAVOR_SYS);
                e.opaque(&body.finish().into_bytes());
            }
            Self::Unknown(flavor) => {
                e.u32(*flavor);
                e.opaque(&[]);
            }
        }
    }
}

/// Skips a verifier: with AUTH_NONE and AUTH_SYS it is empty.
pub(super) fn skip_verifier(d: &mut Decoder) -> Result<(), DecodeError> {
    d.u32()?;
    d.opaque(BODY_BYTES_MAX)?;
    Ok(())
}
