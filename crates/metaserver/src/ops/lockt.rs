//! LOCKT (RFC 8881, section 18.11).

use namespace::read;
use wire::nfs4::Status;
use wire::nfs4::lock::Error;
use wire::nfs4::lockt::Args;

use super::lock::{denied, kind, range};
use crate::Metaserver;
use crate::compound::{Context, client};
use crate::errors::store_failed;
use crate::state::write_delegations::asker;

pub(crate) async fn lockt(server: &Metaserver, context: &Context, args: Args) -> Result<(), Error> {
    let inode = server.current_file(&*server.machine.view()?, context).map_err(|status| match status {
        Status::WrongType | Status::Symlink => Status::Inval,
        other => other,
    })?;
    // Its holder may have locked ranges by itself.
    let inode = server.not_written_elsewhere(asker(context), inode).await.map_err(Status::from)?;
    let view = server.machine.view()?;
    let range = range(args.offset, args.length)?;
    let (client, owner) = (client(context)?, &args.owner.owner.0);
    let conflict = read::conflicting_lock(&*view, inode.id, client, owner, kind(args.locktype), range);
    match conflict.map_err(store_failed)? {
        Some(conflict) if server.state.yields_to_conflict(&*view, [conflict.client])? => {
            Err(Status::Delay.into())
        }
        Some(conflict) => Err(Error::Denied(denied(conflict))),
        None => Ok(()),
    }
}
