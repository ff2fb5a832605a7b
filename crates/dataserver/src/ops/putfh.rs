//! PUTFH: only handles of objects, minted by a metaserver of this cluster.

use wire::nfs4::{Status, putfh};

use super::{NfsServer, State};
use crate::server::BadHandle;

impl NfsServer {
    /// Linux gives up the layout on both errors and gets a new one: right when a column has moved.
    pub(super) fn putfh(&self, state: &mut State, args: &putfh::Args) -> Result<(), Status> {
        let found = self.targets.find(&args.object).map_err(|e| match e {
            BadHandle::Forged => Status::BadHandle,
            BadHandle::Elsewhere | BadHandle::OtherIncarnation => Status::Stale,
        })?;
        state.current = Some(found);
        Ok(())
    }
}
