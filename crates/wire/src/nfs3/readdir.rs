//! READDIR (RFC 1813, section 3.3.16): lists a directory.

use bytes::Bytes;

use super::{CookieVerf, Failure, FileHandle, List, PostOpAttr};
use crate::xdr_struct;

/// Bytes of an empty [`ResOk`], including the directory's attributes.
pub const RES_OK_BYTES_EMPTY: usize = 4 + 84 + 8 + 4 + 4; // attributes follow, fattr3, cookieverf, end of list, eof

xdr_struct! {
    /// entry3: a name in the directory.
    pub struct Entry {
        /// The inode's number.
        pub fileid: u64,
        /// Name of the entry.
        pub name: Bytes,
        /// Cookie for the call that continues after this entry.
        pub cookie: u64,
    }
}

impl Entry {
    /// Bytes of the entry in [`ResOk`], for a server that must respect `count`.
    #[must_use]
    pub fn encoded_bytes(&self) -> usize {
        4 + 8 + 4 + self.name.len().next_multiple_of(4) + 8 // entry follows, fileid, name, cookie
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
        /// Maximal length of [`ResOk`] in bytes.
        pub count: u32,
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
