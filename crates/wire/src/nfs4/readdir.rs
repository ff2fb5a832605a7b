//! READDIR (RFC 8881, section 18.23): lists a directory, with attributes.
//!
//! A page is a linked list on the wire, and bounded in bytes by the client: see [`DirEntry::encoded_len`].

use bytes::Bytes;

use super::{AttrReply, Bitmap, Status, Verifier};
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments. Current handle: the directory.
    #[derive(Copy)]
    pub struct Args {
        /// The last entry of the page before; 0 at first.
        pub cookie: u64,
        /// The verifier of the page before; zeros at first.
        pub cookieverf: Verifier,
        /// A hint: bytes of names and cookies at most; 0 is none.
        pub dircount: u32,
        /// Bytes of [`ResOk`] at most.
        pub maxcount: u32,
        /// Attributes wanted of each entry.
        pub attr_request: Bitmap,
    }
}

xdr_struct! {
    /// entry4.
    pub struct DirEntry {
        /// Where the next page begins, if this is the last entry of its page. Not 0, 1 or 2.
        pub cookie: u64,
        /// The name.
        pub name: Bytes,
        /// The attributes.
        pub attrs: AttrReply,
    }
}

impl DirEntry {
    /// Bytes on the wire, with the mark before it: a page has [`OVERHEAD_BYTES`] and those of its entries.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        let mut e = Encoder::new();
        self.encode(&mut e);
        4 + e.len()
    }
}

/// Bytes of a page without entries: verifier, end of list, eof.
pub const OVERHEAD_BYTES: usize = 8 + 4 + 4;

/// The results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResOk {
    /// To be sent with the next page.
    pub cookieverf: Verifier,
    /// The entries.
    pub entries: Vec<DirEntry>,
    /// Whether the directory ends here.
    pub eof: bool,
}

impl Encode for ResOk {
    fn encode(&self, e: &mut Encoder) {
        self.cookieverf.encode(e);
        for entry in &self.entries {
            true.encode(e);
            entry.encode(e);
        }
        false.encode(e);
        self.eof.encode(e);
    }
}

impl Decode for ResOk {
    fn decode(d: &mut Decoder) -> Result<Self, DecodeError> {
        let cookieverf = Decode::decode(d)?;
        let mut entries = Vec::new();
        while bool::decode(d)? {
            entries.push(Decode::decode(d)?);
        }
        Ok(Self { cookieverf, entries, eof: Decode::decode(d)? })
    }
}

/// How it ended.
pub type Res = Result<ResOk, Status>;
