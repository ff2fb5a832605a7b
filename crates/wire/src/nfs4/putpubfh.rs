//! PUTPUBFH (RFC 8881, section 18.20): goes to the public root, which is the root.

use super::Status;

/// No results.
pub type ResOk = ();

/// How it ended.
pub type Res = Result<ResOk, Status>;
