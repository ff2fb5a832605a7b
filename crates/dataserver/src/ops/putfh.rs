//! PUTFH: only handles of objects, minted by a metaserver of this cluster, and only for clients that anything
//! is exported to.

use nfs::CompoundContext;
use wire::handle::Holder;
use wire::nfs4::{Status, putfh};

use super::{NfsServer, State};
use crate::found::BadHandle;

impl NfsServer {
    /// Linux gives up the layout on each of these errors and asks the metaserver for a new one: right when a
    /// column has moved, and when nothing is exported to the client any more, which the metaserver then tells
    /// it.
    pub(super) fn putfh(
        &self,
        context: &mut CompoundContext<State>,
        args: &putfh::Args,
    ) -> Result<(), Status> {
        if !self.networks.admit(context.connection.peer().ip()) {
            self.note_refusal(context);
            return Err(Status::Stale);
        }
        let found = self.targets.find(&args.object).map_err(|e| match e {
            BadHandle::Forged => Status::BadHandle,
            BadHandle::Elsewhere | BadHandle::OtherIncarnation => Status::Stale,
            BadHandle::Absent => Status::PnfsNoLayout,
        })?;
        // Those of calls between servers are never told to a client.
        if found.holder == Holder::Server {
            return Err(Status::BadHandle);
        }
        context.state.current = Some(found);
        Ok(())
    }
}
