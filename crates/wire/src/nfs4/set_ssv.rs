//! SET_SSV (RFC 8881, section 18.47): changes the secret state verifier.

use bytes::Bytes;

use super::Status;
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// The new secret, combined with the old by exclusive or.
        pub ssv: Bytes,
        /// The digest of the SEQUENCE before it.
        pub digest: Bytes,
    }

    /// The results.
    pub struct ResOk {
        /// The digest of the SEQUENCE result before it.
        pub digest: Bytes,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
