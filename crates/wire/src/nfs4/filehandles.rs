//! Operations on the current and the saved filehandle (RFC 8881, section 16.2.3.1.1), most of them without
//! arguments and results.
//!
//! ```text
//! PUTFH      18.19   sets the current filehandle to a handle             arguments: putfh
//! PUTPUBFH   18.20   sets the current filehandle to the public root, which is the root
//! PUTROOTFH  18.21   sets the current filehandle to the root
//! LOOKUPP    18.14   sets the current filehandle to the directory's parent
//! GETFH      18.8    returns the current filehandle                      results: getfh
//! SAVEFH     18.28   saves the current filehandle and stateid
//! RESTOREFH  18.27   restores the saved filehandle and stateid
//! ```

use super::Status;

/// No results, or the error status: of all these operations except GETFH.
pub type Res = Result<(), Status>;

/// PUTFH (RFC 8881, section 18.19): sets the current filehandle.
pub mod putfh {
    pub use super::Res;
    use crate::nfs4::FileHandle;

    crate::xdr_struct! {
        /// The arguments.
        pub struct Args {
            /// The handle.
            pub object: FileHandle,
        }
    }
}

/// GETFH (RFC 8881, section 18.8): returns the current filehandle.
pub mod getfh {
    use crate::nfs4::{FileHandle, Status};

    crate::xdr_struct! {
        /// The results.
        pub struct ResOk {
            /// The current filehandle.
            pub object: FileHandle,
        }
    }

    /// Results, or the error status.
    pub type Res = Result<ResOk, Status>;
}
