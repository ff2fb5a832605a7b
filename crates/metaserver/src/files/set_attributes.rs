//! Change of an inode's attributes. A change of size includes a truncation: layouts are recalled, so that no
//! client writes through them, and the reply is sent after the objects are truncated.

use namespace::{Command, Inode, Reply, SetAttributes};
use store::View;

use super::Request;
use crate::Metaserver;
use crate::attributes::SET_ID_BITS;
use crate::compound::Step;
use crate::data::hold::SHORT_TIME_MAX;
use crate::errors::FileError;
use crate::state::recall::{Holders, TRUNCATION_TRIES_MAX};

/// Observes a file's size and times before its times are set: earlier writes must not change them later
/// (`cp -p`).
pub(crate) async fn settle_before_times(server: &Metaserver, inode: &Inode) {
    if inode.layout().is_some() {
        let _ = server.data.true_inode_soon(inode.clone()).await;
    }
}

/// Settles a file before its set-id bits are set: earlier writes must not clear them later (`cp` and
/// `chmod u+s`), nor later ones of root through this metaserver. A file with a layout to write is observed
/// only.
async fn settle_before_set_id(server: &Metaserver, inode: &Inode) {
    if inode.layout().is_some() {
        let _ = tokio::time::timeout(SHORT_TIME_MAX, server.data.observe(&[inode.id], true)).await;
    }
}

/// Sets the attributes that `check` returns, after its check against a view. `sizes`: the attributes include
/// a size. Returns the resulting inode.
///
/// # Errors
/// The errors of `check`; `Delay` while another client does not return its layout, `Io` if a lost target has
/// data of the file; the errors of the change.
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
    // Refused for its own reasons below.
    let set = check(&*server.machine.view()?).unwrap_or_default();
    let sets_id = set.mode.is_some_and(|mode| mode & SET_ID_BITS & !inode.mode != 0);
    if sets_id {
        settle_before_set_id(server, inode).await;
    }
    for step in (0..TRUNCATION_TRIES_MAX).map(Step::Truncate) {
        let prepare = |view: &dyn View| {
            let set = SetAttributes { layout_of, ..check(view)? };
            Ok(Command::SetAttributes { inode: id, set })
        };
        match request.change(server, step, prepare).await {
            // Other holders of layouts finish their writes before the truncation, or the set-id bits.
            Err(FileError::Delay) if (sizes || sets_id) && request.was_put_off(server, step)? => {
                let inode = server.machine.inode(&*server.machine.view()?, id)?;
                let holders = layout_of.map_or(Holders::All, Holders::AllBut);
                server.data.before_truncation(&inode, holders).await?;
                if sets_id {
                    settle_before_set_id(server, &inode).await;
                }
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
