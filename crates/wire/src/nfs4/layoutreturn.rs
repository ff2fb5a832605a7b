//! LAYOUTRETURN (RFC 8881, section 18.44): returns layouts.

use bytes::Bytes;

use super::{LayoutIoMode, LayoutType, Stateid, Status};
use crate::{xdr_struct, xdr_union};

xdr_struct! {
    /// layoutreturn_file4: a range of the current file.
    pub struct ReturnFile {
        /// First byte.
        pub offset: u64,
        /// Bytes; `u64::MAX` is to the endof the file.
        pub length: u64,
        /// The layout.
        pub stateid: Stateid,
        /// Empty for the files type.
        pub body: Bytes,
    }

    /// The arguments. Current handle: the file or, for a whole file system, any object of it.
    pub struct Args {
        /// True if the layout is from before a restart of the metaserver.
        pub reclaim: bool,
        /// The type.
        pub layout_type: LayoutType,
        /// Layouts for reads, for reads and writes, or both.
        pub iomode: LayoutIoMode,
        /// Layouts to return.
        pub what: Return,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// Stateid of the remaining layouts of this file, if any.
        pub stateid: Option<Stateid>,
    }
}

xdr_union! {
    /// layoutreturn4.
    pub enum Return {
        /// A range of the current file.
        1 => File(ReturnFile),
        /// All files of the current file system.
        2 => FsId,
        /// All files.
        3 => All,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
