//! SECINFO (RFC 8881, section 18.29): security flavors that a name requires.

use bytes::Bytes;

use super::Status;
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};
use crate::{xdr_enum, xdr_struct};

/// The flavor number of RPCSEC_GSS (RFC 2203).
pub const RPCSEC_GSS: u32 = 6;
/// The flavor number of AUTH_NONE (RFC 5531).
pub const AUTH_NONE: u32 = 0;
/// The flavor number of AUTH_SYS (RFC 5531).
pub const AUTH_SYS: u32 = 1;

xdr_enum! {
    /// rpc_gss_svc_t (RFC 2203): protection by RPCSEC_GSS.
    pub enum GssService {
        /// Authentication of the caller.
        Authentication = 1,
        /// Authentication and integrity.
        Integrity = 2,
        /// Authentication, integrity and encryption.
        Privacy = 3,
    }
}

xdr_struct! {
    /// The arguments. Current handle: the directory; afterwards none.
    pub struct Args {
        /// The entry.
        pub name: Bytes,
    }

    /// rpcsec_gss_info.
    pub struct GssInfo {
        /// The mechanism, as a DER object identifier.
        pub oid: Bytes,
        /// Quality of protection; 0 is the mechanism's default.
        pub qop: u32,
        /// Kind of protection.
        pub service: GssService,
    }
}

/// secinfo4.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecInfo {
    /// RPCSEC_GSS with this mechanism and service.
    Gss(GssInfo),
    /// Another flavor, by its number: [`AUTH_NONE`], [`AUTH_SYS`].
    Flavor(u32),
}

impl Encode for SecInfo {
    fn encode(&self, e: &mut Encoder) {
        match self {
            Self::Gss(info) => {
                e.u32(RPCSEC_GSS);
                info.encode(e);
            }
            Self::Flavor(flavor) => e.u32(*flavor),
        }
    }
}

impl Decode for SecInfo {
    fn decode(d: &mut Decoder) -> Result<Self, DecodeError> {
        match d.u32()? {
            RPCSEC_GSS => Ok(Self::Gss(Decode::decode(d)?)),
            flavor => Ok(Self::Flavor(flavor)),
        }
    }
}

/// The results: flavors, the preferred one first.
pub type ResOk = Vec<SecInfo>;

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
