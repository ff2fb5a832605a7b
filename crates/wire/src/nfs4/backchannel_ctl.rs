//! BACKCHANNEL_CTL (RFC 8881, section 18.33): changes the callback program and its security.

use bytes::Bytes;

use super::secinfo::GssService;
use super::{Opaque, Status};
use crate::{xdr_struct, xdr_union};

xdr_struct! {
    /// authsys_parms (RFC 5531, appendix A): the server's AUTH_SYS credential in callbacks.
    pub struct AuthSysParms {
        /// Arbitrary.
        pub stamp: u32,
        /// A host name.
        pub machine: Opaque<255>,
        /// User.
        pub uid: u32,
        /// Primary group.
        pub gid: u32,
        /// Supplementary groups.
        pub gids: Vec<u32>,
    }

    /// gss_cb_handles4.
    pub struct GssHandles {
        /// Kind of protection.
        pub service: GssService,
        /// GSS context handle from the server.
        pub handle_from_server: Bytes,
        /// GSS context handle from the client.
        pub handle_from_client: Bytes,
    }

    /// The arguments.
    pub struct Args {
        /// RPC program number of callbacks.
        pub cb_program: u32,
        /// Credentials that the client accepts in callbacks, the preferred one first.
        pub sec_parms: Vec<CallbackSec>,
    }
}

xdr_union! {
    /// callback_sec_parms4.
    pub enum CallbackSec {
        /// AUTH_NONE.
        0 => None,
        /// AUTH_SYS.
        1 => Sys(AuthSysParms),
        /// RPCSEC_GSS.
        6 => Gss(GssHandles),
    }
}

/// No results.
pub type ResOk = ();

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
