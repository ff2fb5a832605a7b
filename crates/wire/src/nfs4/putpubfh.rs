//! PUTPUBFH (RFC 8881, section 18.20): sets the current filehandle to the public root, which is the root.

use super::Status;

/// No results.
pub type ResOk = ();

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
