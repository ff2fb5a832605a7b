//! LOOKUPP (RFC 8881, section 18.14): goes to the directory's parent.

use super::Status;

/// No results.
pub type ResOk = ();

/// How it ended.
pub type Res = Result<ResOk, Status>;
