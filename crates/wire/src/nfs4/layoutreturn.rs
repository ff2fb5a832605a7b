//! LAYOUTRETURN (RFC 8881, section 18.44): gives back layouts.

use bytes::Bytes;

use super::{LayoutIoMode, LayoutType, Stateid, Status};
use crate::{xdr_struct, xdr_union};

xdr_struct! {
    /// layoutreturn_file4: a range of the current file.
    pub struct ReturnFile {
        /// First byte.
        pub offset: u64,
        /// Bytes; `u64::MAX` is to the end, however far that is.
        pub length: u64,
        /// The layout.
        pub stateid: Stateid,
        /// Empty for the files type.
        pub body: Bytes,
    }

    /// The arguments. Current handle: the file or, for a whole file system, any object of it.
    pub struct Args {
        /// Whether the layout is of before the metaserver restarted.
        pub reclaim: bool,
        /// The type.
        pub layout_type: LayoutType,
        /// Those to read, those to write, or both.
        pub iomode: LayoutIoMode,
        /// What is given back.
        pub what: Return,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// The layouts that remain of this file, if any do.
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

/// How it ended.
pub type Res = Result<ResOk, Status>;
