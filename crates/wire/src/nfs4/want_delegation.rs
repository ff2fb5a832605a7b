//! WANT_DELEGATION (RFC 8881, section 18.49): requests a delegation of a file without an open.

use super::Status;
use super::open::{Delegation, DelegationType};
use crate::{xdr_struct, xdr_union};

xdr_struct! {
    /// The arguments. Current handle: the file.
    #[derive(Copy)]
    pub struct Args {
        /// The `WANT_` bits of [`super::open`].
        pub want: u32,
        /// Claim to the delegation.
        pub claim: DelegClaim,
    }
}

xdr_union! {
    /// deleg_claim4; the numbers are those of [`super::open::Claim`].
    #[derive(Copy)]
    pub enum DelegClaim {
        /// CLAIM_PREVIOUS: held before the server restarted.
        1 => Previous(DelegationType),
        /// CLAIM_FH: a new one.
        4 => Fh,
        /// CLAIM_DELEG_PREV_FH: held before the client restarted.
        6 => DelegPrevFh,
    }
}

/// The results.
pub type ResOk = Delegation;

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
