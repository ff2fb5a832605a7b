//! MKNOD (RFC 1813, section 3.3.11): creates a device, socket or pipe.

use super::{DirOpArgs, Failure, PostOpAttr, PostOpFh, SetAttr, SpecData, WccData};
use crate::{xdr_struct, xdr_union};

xdr_struct! {
    /// devicedata3: a device.
    pub struct DeviceData {
        /// Attributes of the device.
        pub attributes: SetAttr,
        /// Major and minor number of the device.
        pub spec: SpecData,
    }
}

xdr_union! {
    /// mknoddata3, by type. Types that have procedures of their own are decoded too, so that a server can
    /// answer [`super::Status::BadType`].
    pub enum MkNodData {
        /// Refused: CREATE creates regular files.
        1 => Regular,
        /// Refused: MKDIR creates directories.
        2 => Directory,
        /// Block device.
        3 => Block(DeviceData),
        /// Character device.
        4 => Character(DeviceData),
        /// Refused: SYMLINK creates symbolic links.
        5 => SymLink,
        /// Socket.
        6 => Socket(SetAttr),
        /// Named pipe.
        7 => Fifo(SetAttr),
    }
}

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// Directory and name (`where` in the RFC).
        pub at: DirOpArgs,
        /// Type and data of the new object.
        pub what: MkNodData,
    }

    /// The results.
    pub struct ResOk {
        /// The new object.
        pub obj: PostOpFh,
        /// Attributes of the object.
        pub obj_attributes: PostOpAttr,
        /// Attributes of the directory, before and after.
        pub dir_wcc: WccData,
    }

    /// Results of a failure.
    #[derive(Default)]
    pub struct ResFail {
        /// Attributes of the directory, before and after.
        pub dir_wcc: WccData,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Failure<ResFail>>;
