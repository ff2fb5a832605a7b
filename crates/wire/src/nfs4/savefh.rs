//! SAVEFH (RFC 8881, section 18.28): saves the current filehandle and stateid.

use super::Status;

/// No results.
pub type ResOk = ();

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
