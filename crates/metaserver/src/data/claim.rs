//! Claims of requests that another metaserver may be carrying out, too.
//!
//! A client without an answer sends its request again, to another metaserver. The first one may be held up, and write the
//! data later: after the client has its answer from the second one, and has written other data there since.
//!
//! ```text
//! first metaserver    WRITE ─────────────── held up ─────────────▶ write, epoch 0 ─▶ refused ─▶ claimed by another: given up
//! second metaserver           WRITE ─▶ claim: epoch 1 ─▶ write, epoch 1 ─▶ Wrote ─▶ answer
//! ```
//!
//! So an attempt that may not be the first one claims the request: that raises the file's epoch, and data servers refuse
//! what others still write for it. An attempt writes with a later epoch than its own only while no other one has claimed
//! the request since.

use namespace::{Claimant, CompoundRequest, Inode, claimant};

use super::Data;
use crate::errors::FileError;

/// An attempt at a request that changes a file's data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim {
    /// Id of the request's claims; none: a request without a session.
    pub request: Option<CompoundRequest>,
    /// Id of this one; 0: the request was not claimed, as no other server has had it.
    pub id: u64,
}

impl Data {
    /// Passes the inode on, which was read before, unless another attempt has claimed the request.
    ///
    /// # Errors
    /// `Delay` if one has.
    pub(crate) fn unless_claimed(&self, claim: &Claim, inode: Inode) -> Result<Inode, FileError> {
        let Some(request) = &claim.request else { return Ok(inode) };
        // Not before the inode was: its epoch is not one of a later claim.
        match claimant(&*self.machine.view()?, request)? {
            Claimant::Unclaimed => Ok(inode),
            Claimant::Attempt(id) if id == claim.id => Ok(inode),
            Claimant::Attempt(_) | Claimant::Past => Err(FileError::Delay),
        }
    }
}
