//! GET_DIR_DELEGATION (RFC 8881, section 18.39): requests a delegation of a directory.

use super::{Bitmap, Stateid, Status, Time, Verifier};
use crate::{xdr_struct, xdr_union};

xdr_struct! {
    /// The arguments. Current handle: the directory.
    #[derive(Copy)]
    pub struct Args {
        /// Whether the client requests a signal when a delegation becomes available.
        pub signal_deleg_avail: bool,
        /// Notifications wanted, by their numbers.
        pub notification_types: Bitmap,
        /// Maximal delay of notifications of entries' attributes.
        pub child_attr_delay: Time,
        /// Maximal delay of notifications of the directory's attributes.
        pub dir_attr_delay: Time,
        /// Entries' attributes wanted.
        pub child_attributes: Bitmap,
        /// The directory's attributes wanted.
        pub dir_attributes: Bitmap,
    }

    /// GET_DIR_DELEGATION4resok.
    #[derive(Copy)]
    pub struct Granted {
        /// Verifier for READDIR.
        pub cookieverf: Verifier,
        /// The delegation.
        pub stateid: Stateid,
        /// Granted notifications.
        pub notification: Bitmap,
        /// Granted attributes of entries.
        pub child_attributes: Bitmap,
        /// Granted attributes of the directory.
        pub dir_attributes: Bitmap,
    }
}

xdr_union! {
    /// The results: GET_DIR_DELEGATION4res_non_fatal.
    #[derive(Copy)]
    pub enum ResOk {
        /// GDD4_OK.
        0 => Granted(Granted),
        /// GDD4_UNAVAIL: no delegation, and whether the server will signal when one is available.
        1 => Unavailable(bool),
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
