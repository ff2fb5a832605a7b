//! READDIR (RFC 1813, section 3.3.16): names in a directory.

use bytes::Bytes;

use super::{CookieVerf, Failure, FileHandle, List, PostOpAttr};
use crate::xdr_struct;

/// Bytes of [`ResOk`] without entries, the directory's attributes included.
pub const RES_OK_BYTES_EMPTY: usize = 4 + 84 + 8 + 4 + 4; // attributes follow, fattr3, cookieverf, end of list, eof

xdr_struct! {
    /// entry3: a name in the directory.
    pub struct Entry {
        /// The inode's number.
        pub fileid: u64,
        /// Its name.
        pub name: Bytes,
        /// Where the next call goes on, after this entry.
        pub cookie: u64,
    }
}

impl Entry {
    /// Bytes that the entry adds to [`ResOk`], for a server that must respect `count`.
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
        /// 0, or the cookie of the last entry that the client has.
        pub cookie: u64,
        /// 0, or what the call before returned.
        pub cookieverf: CookieVerf,
        /// [`ResOk`] must not be longer, in bytes.
        pub count: u32,
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
