//! Status of MNT (RFC 1813, section 5.1.4).

use crate::xdr_enum;

xdr_enum! {
    /// mountstat3: error of a mount. MNT3_OK is the `Ok` of a `Result`.
    pub enum Status {
        /// Not the owner.
        Perm = 1,
        /// No such directory.
        NoEnt = 2,
        /// I/O error, such as a failed disk.
        Io = 5,
        /// Permission denied.
        Acces = 13,
        /// Not a directory.
        NotDir = 20,
        /// Invalid path.
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
