//! MKNOD (RFC 1813, section 3.3.11): creates a device, socket or pipe.

use super::{DirOpArgs, Failure, PostOpAttr, PostOpFh, SetAttr, SpecData, WccData};
use crate::{xdr_struct, xdr_union};

xdr_struct! {
    /// devicedata3: a device.
    pub struct DeviceData {
        /// Its attributes.
        pub attributes: SetAttr,
        /// Its number.
        pub spec: SpecData,
    }
}

xdr_union! {
    /// mknoddata3: by type. Those that have procedures of their own are decoded, so that a server can answer
    /// [`super::Status::BadType`].
    pub enum MkNodData {
        /// Refused: CREATE makes it.
        1 => Regular,
        /// Refused: MKDIR makes it.
        2 => Directory,
        /// Block device.
        3 => Block(DeviceData),
        /// Character device.
        4 => Character(DeviceData),
        /// Refused: SYMLINK makes it.
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
        /// What to create.
        pub what: MkNodData,
    }

    /// The results.
    pub struct ResOk {
        /// The new object.
        pub obj: PostOpFh,
        /// Its attributes.
        pub obj_attributes: PostOpAttr,
        /// Attributes of the directory, before and after.
        pub dir_wcc: WccData,
    }

    /// What a failure returns.
    #[derive(Default)]
    pub struct ResFail {
        /// Attributes of the directory, before and after.
        pub dir_wcc: WccData,
    }
}

/// How it ended.
pub type Res = Result<ResOk, Failure<ResFail>>;
