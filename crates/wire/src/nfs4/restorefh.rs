//! RESTOREFH (RFC 8881, section 18.27): restores the saved filehandle and stateid.

use super::Status;

/// No results.
pub type ResOk = ();

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
