//! RESTOREFH (RFC 8881, section 18.27): goes to the saved handle, and takes up the saved stateid.

use super::Status;

/// No results.
pub type ResOk = ();

/// How it ended.
pub type Res = Result<ResOk, Status>;
