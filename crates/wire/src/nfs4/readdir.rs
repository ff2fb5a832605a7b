//! READDIR (RFC 8881, section 18.23): lists a directory, with attributes.
//!
//! A page is a linked list on the wire, and the client bounds its bytes: see [`Page`].

use bytes::Bytes;

use super::{AttrReply, Bitmap, Fattr, Status, Verifier};
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder, Message};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments. Current handle: the directory.
    #[derive(Copy)]
    pub struct Args {
        /// Cookie of the previous page's last entry; 0 at first.
        pub cookie: u64,
        /// Verifier of the previous page; zeros at first.
        pub cookieverf: Verifier,
        /// Hint: maximal length of names and cookies in bytes; 0: no hint.
        pub dircount: u32,
        /// Maximal length of [`ResOk`] in bytes.
        pub maxcount: u32,
        /// Attributes wanted of each entry.
        pub attr_request: Bitmap,
    }
}

xdr_struct! {
    /// entry4.
    pub struct DirEntry {
        /// Cookie for the page after this entry. Not 0, 1 or 2.
        pub cookie: u64,
        /// The name.
        pub name: Bytes,
        /// The attributes.
        pub attrs: AttrReply,
    }
}

/// Bytes of a page without entries: verifier, end of list, eof.
pub const OVERHEAD_BYTES: usize = 8 + 4 + 4;

/// Encoded entries, without the end of their list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entries(Message);

impl Entries {
    /// Decodes the entries, in order.
    ///
    /// # Errors
    /// [`DecodeError`] never, for entries from a [`Page`] or a decoder.
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

/// Builder of a page. It encodes entries at once, since the number of entries on a page depends on their
/// bytes.
#[derive(Debug)]
pub struct Page {
    encoder: Encoder,
    room_bytes: usize,
    count: usize,
}

impl Page {
    /// Empty page with room for `room_bytes`, besides its [`OVERHEAD_BYTES`].
    #[must_use]
    pub fn new(room_bytes: usize) -> Self {
        Self { encoder: Encoder::new(), room_bytes, count: 0 }
    }

    /// Adds an entry with the `requested` ones of `attrs`; false when the page is full.
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

    /// True if the page has no entry.
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
    /// Verifier for the next page.
    pub cookieverf: Verifier,
    /// The entries.
    pub entries: Entries,
    /// True if the directory ends here.
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

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
