//! The procedures besides NULL (RFC 1813, sections 5.2.1 to 5.2.5).

/// MNT (RFC 1813, section 5.2.1): the handle of an exported directory.
pub mod mnt {
    use crate::mount3::{DirPath, Status};
    use crate::nfs3::FileHandle;

    /// Flavor of a call without a user (RFC 5531, section 8.1).
    pub const AUTH_NONE: u32 = 0;
    /// Flavor of a call by a user and groups (RFC 5531, section 8.1).
    pub const AUTH_SYS: u32 = 1;

    crate::xdr_struct! {
        /// The arguments.
        pub struct Args {
            /// The directory.
            pub path: DirPath,
        }

        /// The results.
        pub struct ResOk {
            /// Handle of the directory, for NFS.
            pub handle: FileHandle,
            /// Flavors of credential that are allowed with the handle, the preferred one first.
            pub auth_flavors: Vec<u32>,
        }
    }

    /// Results, or the error status.
    pub type Res = Result<ResOk, Status>;
}

/// DUMP (RFC 1813, section 5.2.2): list of mounts. Only as accurate as the clients' UMNT calls.
pub mod dump {
    use crate::mount3::{DirPath, Name};
    use crate::nfs3::List;

    crate::xdr_struct! {
        /// No arguments.
        #[derive(Copy, Default)]
        pub struct Args {}

        /// mountbody: one mount.
        pub struct Mount {
            /// The client.
            pub host: Name,
            /// The directory.
            pub path: DirPath,
        }

        /// The results.
        #[derive(Default)]
        pub struct Res {
            /// All mounts that the server remembers.
            pub mounts: List<Mount>,
        }
    }
}

/// UMNT (RFC 1813, section 5.2.3): ends the caller's mount of a directory. Advisory.
pub mod umnt {
    use crate::mount3::DirPath;

    crate::xdr_struct! {
        /// The arguments.
        pub struct Args {
            /// The directory, as it was mounted.
            pub path: DirPath,
        }

        /// No results.
        #[derive(Copy, Default)]
        pub struct Res {}
    }
}

/// UMNTALL (RFC 1813, section 5.2.4): ends all mounts of the caller. Advisory.
pub mod umntall {
    crate::xdr_struct! {
        /// No arguments.
        #[derive(Copy, Default)]
        pub struct Args {}

        /// No results.
        #[derive(Copy, Default)]
        pub struct Res {}
    }
}

/// EXPORT (RFC 1813, section 5.2.5): list of exports, and of the clients that may mount each.
pub mod export {
    use crate::mount3::{DirPath, Name};
    use crate::nfs3::List;

    crate::xdr_struct! {
        /// No arguments.
        #[derive(Copy, Default)]
        pub struct Args {}

        /// exportnode: one directory.
        pub struct Export {
            /// The directory.
            pub path: DirPath,
            /// Groups of clients that may mount it; empty: all clients.
            pub groups: List<Name>,
        }

        /// The results.
        #[derive(Default)]
        pub struct Res {
            /// All directories.
            pub exports: List<Export>,
        }
    }
}
