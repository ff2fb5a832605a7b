//! LOCKT (RFC 8881, section 18.11).

use namespace::read;
use wire::nfs4::Status;
use wire::nfs4::lock::Error;
use wire::nfs4::lockt::Args;

use super::lock::{denied, kind, range};
use crate::Metaserver;
use crate::compound::{Context, client};
use crate::errors::store_failed;

pub(crate) fn lockt(server: &Metaserver, context: &Context, args: Args) -> Result<(), Error> {
    let view = server.machine.view()?;
    let inode = server.current_file(&*view, context).map_err(|status| match status {
        Status::WrongType | Status::Symlink => Status::Inval,
        other => other,
    })?;
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
