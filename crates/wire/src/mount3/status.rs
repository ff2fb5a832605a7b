//! How MNT ends (RFC 1813, section 5.1.4).

use crate::xdr_enum;

xdr_enum! {
    /// mountstat3: why a mount failed. MNT3_OK is no value of it, but the `Ok` of a `Result`.
    pub enum Status {
        /// Not the owner.
        Perm = 1,
        /// No such directory.
        NoEnt = 2,
        /// A disk or the like failed.
        Io = 5,
        /// The caller is not permitted.
        Acces = 13,
        /// Not a directory.
        NotDir = 20,
        /// The path cannot be meant.
        Inval = 22,
        /// The path is too long.
        NameTooLong = 63,
        /// Not supported.
        NotSupp = 10004,
        /// None of the other errors fits.
        ServerFault = 10006,
    }
}

crate::rpc::status_union!(Status);
