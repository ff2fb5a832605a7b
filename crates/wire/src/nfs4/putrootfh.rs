//! PUTROOTFH (RFC 8881, section 18.21): goes to the root.

use super::Status;

/// No results.
pub type ResOk = ();

/// How it ended.
pub type Res = Result<ResOk, Status>;
