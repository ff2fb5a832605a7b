//! READDIR (RFC 8881, section 18.23): lists a directory, with attributes.
//!
//! A page is a linked list on the wire, and bounded in bytes by the client: see [`Page`].

use bytes::Bytes;

use super::{AttrReply, Bitmap, Fattr, Status, Verifier};
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder, Message};
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

/// Bytes of a page without entries: verifier, end of list, eof.
pub const OVERHEAD_BYTES: usize = 8 + 4 + 4;

/// Entries as they stand on the wire, without the end of their list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entries(Message);

impl Entries {
    /// Each of them, in order.
    ///
    /// # Errors
    /// [`DecodeError`] never, for entries that came out of a [`Page`] or a decoder.
    pub fn decode(&self) -> Result<Vec<DirEntry>, DecodeError> {
        let mut d = Decoder::new(self.0.clone().into_bytes());
        let mut entries = Vec::new();
        while d.remaining() > 0 {
            bool::decode(&mut d)?;
            entries.push(Decode::decode(&mut d)?);
        }
        Ok(entries)
    }
}

/// A page being filled. Entries are encoded as they come, since how many a page holds depends on their bytes.
#[derive(Debug)]
pub struct Page {
    encoder: Encoder,
    room_bytes: usize,
    count: usize,
}

impl Page {
    /// An empty page with room for so many bytes, beside its [`OVERHEAD_BYTES`].
    #[must_use]
    pub fn new(room_bytes: usize) -> Self {
        Self { encoder: Encoder::new(), room_bytes, count: 0 }
    }

    /// Adds an entry with those of `attrs` that were `requested`; false when it does not fit.
    pub fn push(&mut self, cookie: u64, name: &[u8], requested: &Bitmap, attrs: &Fattr) -> bool {
        let before = self.encoder.len();
        true.encode(&mut self.encoder);
        cookie.encode(&mut self.encoder);
        self.encoder.opaque(name);
        attrs.encode(requested, &mut self.encoder);
        let fits = self.encoder.len() <= self.room_bytes;
        if fits {
            self.count += 1;
        } else {
            self.encoder.truncate(before);
        }
        fits
    }

    /// Whether nothing was added yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The entries.
    #[must_use]
    pub fn finish(self) -> Entries {
        Entries(self.encoder.finish())
    }
}

/// The results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResOk {
    /// To be sent with the next page.
    pub cookieverf: Verifier,
    /// The entries.
    pub entries: Entries,
    /// Whether the directory ends here.
    pub eof: bool,
}

impl Encode for ResOk {
    fn encode(&self, e: &mut Encoder) {
        self.cookieverf.encode(e);
        e.message(&self.entries.0);
        false.encode(e);
        self.eof.encode(e);
    }
}

impl Decode for ResOk {
    fn decode(d: &mut Decoder) -> Result<Self, DecodeError> {
        let cookieverf = Decode::decode(d)?;
        let list = d.rest();
        let mut end = 0;
        while bool::decode(d)? {
            DirEntry::decode(d)?;
            end = list.len() - d.remaining();
        }
        let entries = Entries(Message { segments: vec![list.slice(..end)], len: end });
        Ok(Self { cookieverf, entries, eof: Decode::decode(d)? })
    }
}

/// How it ended.
pub type Res = Result<ResOk, Status>;
