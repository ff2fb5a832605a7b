//! SAVEFH (RFC 8881, section 18.28): saves the current handle and stateid.

use super::Status;

/// No results.
pub type ResOk = ();

/// How it ended.
pub type Res = Result<ResOk, Status>;
