//! READDIRPLUS (RFC 1813, section 3.3.17): lists a directory, with attributes and handles.

use bytes::Bytes;

use super::{CookieVerf, Failure, FileHandle, List, PostOpAttr, PostOpFh};
use crate::xdr_struct;

/// Bytes of an empty [`ResOk`], including the directory's attributes.
pub const RES_OK_BYTES_EMPTY: usize = 4 + 84 + 8 + 4 + 4; // attributes follow, fattr3, cookieverf, end of list, eof

xdr_struct! {
    /// entryplus3: a name in the directory, with attributes and handle.
    pub struct Entry {
        /// The inode's number.
        pub fileid: u64,
        /// Name of the entry.
        pub name: Bytes,
        /// Cookie for the call that continues after this entry.
        pub cookie: u64,
        /// Attributes of the object.
        pub name_attributes: PostOpAttr,
        /// Handle of the object.
        pub name_handle: PostOpFh,
    }
}

impl Entry {
    /// Bytes of fileid, name and cookie, which `dircount` bounds.
    #[must_use]
    pub fn dir_bytes(&self) -> usize {
        8 + 4 + self.name.len().next_multiple_of(4) + 8
    }

    /// Bytes of the entry in [`ResOk`], for a server that must respect `maxcount`.
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
        /// Cookie of the last entry that the client has; 0 at first.
        pub cookie: u64,
        /// Verifier of the previous call; 0 at first.
        pub cookieverf: CookieVerf,
        /// Maximal sum of [`Entry::dir_bytes`].
        pub dircount: u32,
        /// Maximal length of [`ResOk`] in bytes.
        pub maxcount: u32,
    }

    /// The results.
    pub struct ResOk {
        /// Attributes of the directory.
        pub dir_attributes: PostOpAttr,
        /// Verifier for the next call.
        pub cookieverf: CookieVerf,
        /// Entries.
        pub entries: List<Entry>,
        /// True if the last entry is the last of the directory.
        pub eof: bool,
    }

    /// Results of a failure.
    #[derive(Default)]
    pub struct ResFail {
        /// Attributes of the directory.
        pub dir_attributes: PostOpAttr,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Failure<ResFail>>;
