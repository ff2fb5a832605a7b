//! GET_DIR_DELEGATION (RFC 8881, section 18.39): asks for a delegation of a directory.

use super::{Bitmap, Stateid, Status, Time, Verifier};
use crate::{xdr_struct, xdr_union};

xdr_struct! {
    /// The arguments. Current handle: the directory.
    #[derive(Copy)]
    pub struct Args {
        /// Whether the client wants to be told when one can be had.
        pub signal_deleg_avail: bool,
        /// Notifications wanted, by their numbers.
        pub notification_types: Bitmap,
        /// How late entries' attributes may be told.
        pub child_attr_delay: Time,
        /// How late the directory's attributes may be told.
        pub dir_attr_delay: Time,
        /// Entries' attributes wanted.
        pub child_attributes: Bitmap,
        /// The directory's attributes wanted.
        pub dir_attributes: Bitmap,
    }

    /// GET_DIR_DELEGATION4resok.
    #[derive(Copy)]
    pub struct Granted {
        /// For READDIR.
        pub cookieverf: Verifier,
        /// The delegation.
        pub stateid: Stateid,
        /// Notifications that will come.
        pub notification: Bitmap,
        /// Entries' attributes that will come.
        pub child_attributes: Bitmap,
        /// The directory's attributes that will come.
        pub dir_attributes: Bitmap,
    }
}

xdr_union! {
    /// The results: GET_DIR_DELEGATION4res_non_fatal.
    #[derive(Copy)]
    pub enum ResOk {
        /// GDD4_OK.
        0 => Granted(Granted),
        /// GDD4_UNAVAIL: none, and whether the client will be told when there is.
        1 => Unavailable(bool),
    }
}

/// How it ended.
pub type Res = Result<ResOk, Status>;
