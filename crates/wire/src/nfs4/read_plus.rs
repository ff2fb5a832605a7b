//! READ_PLUS (RFC 7862, section 15.10): reads data and holes of a file.

use super::Status;
use crate::xdr::Payload;
use crate::{xdr_struct, xdr_union};

pub use super::read::Args;

xdr_struct! {
    /// data4.
    pub struct Data {
        /// First byte.
        pub offset: u64,
        /// The data.
        pub data: Payload,
    }

    /// data_info4: a range of zeros.
    #[derive(Copy)]
    pub struct Hole {
        /// First byte.
        pub offset: u64,
        /// Bytes.
        pub length: u64,
    }

    /// The results.
    pub struct ResOk {
        /// True if the file ends at the end of the last piece.
        pub eof: bool,
        /// The pieces, in order.
        pub contents: Vec<Content>,
    }
}

xdr_union! {
    /// read_plus_content.
    pub enum Content {
        /// NFS4_CONTENT_DATA.
        0 => Data(Data),
        /// NFS4_CONTENT_HOLE.
        1 => Hole(Hole),
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
