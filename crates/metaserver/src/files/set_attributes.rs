//! Attributes of an inode are set; a size with all that a truncation takes: nobody goes on writing through a
//! layout of what is truncated, and nobody is answered before the objects are truncated.

use namespace::{Command, Inode, Reply, SetAttributes};
use store::View;

use super::Request;
use crate::Metaserver;
use crate::compound::Step;
use crate::errors::FileError;
use crate::state::recall::{Holders, TRUNCATION_TRIES_MAX};

/// Has the size and times of a file follow what is written already, before its times are set: what was written
/// before must not change them later (`cp -p`).
pub(crate) async fn settle_before_times(server: &Metaserver, inode: &Inode) {
    if inode.layout().is_some() {
        let _ = server.data.true_inode(inode.clone()).await;
    }
}

/// Sets what `check` returns, which checks it against a view. `sizes`: a size is among it. Returns the inode
/// as it is then.
///
/// # Errors
/// Those of `check`; `Delay` while another client does not return its layout, `Io` when a lost target holds
/// data; those of the change.
pub(crate) async fn set_attributes(
    server: &Metaserver,
    request: &mut Request<'_>,
    inode: &Inode,
    sizes: bool,
    check: impl Fn(&dyn View) -> Result<SetAttributes, FileError> + Send + Sync,
) -> Result<Inode, FileError> {
    if sizes {
        server.data.leave_lost_targets(inode).await?;
    }
    let (id, layout_of) = (inode.id, request.client());
    for step in (0..TRUNCATION_TRIES_MAX).map(Step::Truncate) {
        let prepare = |view: &dyn View| {
            let set = SetAttributes { layout_of, ..check(view)? };
            Ok(Command::SetAttributes { inode: id, set })
        };
        match request.change(server, step, prepare).await {
            // Every other holder of a layout finishes what it writes before the file is truncated.
            Err(FileError::Delay) if sizes && request.was_put_off(server, step)? => {
                let inode = server.machine.inode(&*server.machine.view()?, id)?;
                let holders = layout_of.map_or(Holders::All, Holders::AllBut);
                server.data.before_truncation(&inode, holders).await?;
            }
            Ok(Reply::Attributes { inode, deferred }) => {
                server.data.finish_deferred(deferred).await?;
                return Ok(inode);
            }
            Ok(_) => return Err(FileError::Fault),
            Err(error) => return Err(error),
        }
    }
    Err(FileError::Delay)
}
