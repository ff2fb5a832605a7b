//! BACKCHANNEL_CTL (RFC 8881, section 18.33): changes the call-back program and its security.

use bytes::Bytes;

use super::secinfo::GssService;
use super::{Opaque, Status};
use crate::{xdr_struct, xdr_union};

xdr_struct! {
    /// authsys_parms (RFC 5531, appendix A): what the server says it is in call-backs.
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
        /// What is protected.
        pub service: GssService,
        /// The context that the server has given.
        pub handle_from_server: Bytes,
        /// The context that the client has given.
        pub handle_from_client: Bytes,
    }

    /// The arguments.
    pub struct Args {
        /// The RPC program number of call-backs.
        pub cb_program: u32,
        /// Credentials that the client accepts in call-backs, its favourite first.
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

/// How it ended.
pub type Res = Result<ResOk, Status>;
