//! READDIRPLUS (RFC 1813, section 3.3.17): names in a directory, with attributes and handles.

use bytes::Bytes;

use super::{CookieVerf, Failure, FileHandle, List, PostOpAttr, PostOpFh};
use crate::xdr_struct;

/// Bytes of [`ResOk`] without entries, the directory's attributes included.
pub const RES_OK_BYTES_EMPTY: usize = 4 + 84 + 8 + 4 + 4; // attributes follow, fattr3, cookieverf, end of list, eof

xdr_struct! {
    /// entryplus3: a name in the directory, and what it names.
    pub struct Entry {
        /// The inode's number.
        pub fileid: u64,
        /// Its name.
        pub name: Bytes,
        /// Where the next call goes on, after this entry.
        pub cookie: u64,
        /// Its attributes.
        pub name_attributes: PostOpAttr,
        /// Its handle.
        pub name_handle: PostOpFh,
    }
}

impl Entry {
    /// Bytes of fileid, name and cookie, which `dircount` bounds.
    #[must_use]
    pub fn dir_bytes(&self) -> usize {
        8 + 4 + self.name.len().next_multiple_of(4) + 8
    }

    /// Bytes that the entry adds to [`ResOk`], for a server that must respect `maxcount`.
    #[must_use]
    pub fn encoded_bytes(&self) -> usize {
        let attributes = if self.name_attributes.is_some() { 84 } else { 0 };
        let handle = self.name_handle.as_ref().map_or(0, |fh| 4 + fh.len().next_multiple_of(4));
        4 + self.dir_bytes() + 4 + attributes + 4 + handle // entry, attributes and handle follow: 4 bytes each
    }
}

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// The directory.
        pub dir: FileHandle,
        /// 0, or the cookie of the last entry that the client has.
        pub cookie: u64,
        /// 0, or what the call before returned.
        pub cookieverf: CookieVerf,
        /// The sum of [`Entry::dir_bytes`] must not be larger.
        pub dircount: u32,
        /// [`ResOk`] must not be longer, in bytes.
        pub maxcount: u32,
    }

    /// The results.
    pub struct ResOk {
        /// Attributes of the directory.
        pub dir_attributes: PostOpAttr,
        /// For the next call.
        pub cookieverf: CookieVerf,
        /// Names.
        pub entries: List<Entry>,
        /// Whether the last entry is the last of the directory.
        pub eof: bool,
    }

    /// What a failure returns.
    #[derive(Default)]
    pub struct ResFail {
        /// Attributes of the directory.
        pub dir_attributes: PostOpAttr,
    }
}

/// How it ended.
pub type Res = Result<ResOk, Failure<ResFail>>;
