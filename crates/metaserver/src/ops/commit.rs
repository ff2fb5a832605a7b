//! COMMIT through the metaserver (RFC 8881, section 18.3), for data that were written through the metaserver.

use wire::nfs4::Status;
use wire::nfs4::commit::{Args, ResOk};

use crate::Metaserver;
use crate::compound::Context;

pub(crate) async fn commit(server: &Metaserver, context: &Context, args: Args) -> Result<ResOk, Status> {
    let inode = {
        let view = server.machine.view()?;
        server.current_file(&*view, context)?
    };
    if args.offset.checked_add(u64::from(args.count)).is_none() {
        return Err(Status::Inval);
    }
    server.caller(context)?.check_commit(&inode)?;
    server.data.commit_data(&inode).await?;
    Ok(ResOk { writeverf: server.data.write_verifier.get() })
}
