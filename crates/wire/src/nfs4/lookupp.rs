//! LOOKUPP (RFC 8881, section 18.14): sets the current filehandle to the directory's parent.

use super::Status;

/// No results.
pub type ResOk = ();

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
