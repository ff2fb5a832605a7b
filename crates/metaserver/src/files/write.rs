//! Writes to a file through the metaserver.
//!
//! ```text
//! clear set-id bits ─▶ inline data (small file) ──────────────────────▶ durable
//!                          │ too large, or the data have been migrated
//!                          ▼
//!                   objects on the data servers ─▶ size and times ────▶ as durable as requested
//! ```

use namespace::{Command, Inode, Reply, SIZE_BYTES_MAX};
use wire::xdr::Payload;

use super::Request;
use crate::Metaserver;
use crate::attributes::setattr::after_write;
use crate::compound::Step;
use crate::data::migration;
use crate::errors::FileError;
use crate::user::User;

/// Outcome of a write.
pub(crate) struct Written {
    /// Inode after the write.
    pub inode: Inode,
    /// True if the bytes are durable.
    pub is_durable: bool,
}

/// End offset of a write, in bytes.
///
/// # Errors
/// `TooLarge` beyond [`SIZE_BYTES_MAX`].
pub(crate) fn end_of(offset: u64, len: u64) -> Result<u64, FileError> {
    offset.checked_add(len).filter(|end| *end <= SIZE_BYTES_MAX).ok_or(FileError::TooLarge)
}

/// Writes at least one byte to the file's data. `durable`: the bytes must be durable.
///
/// # Errors
/// `TooLarge`; the errors of the data servers; `Delay` for a file that is truncated meanwhile.
pub(crate) async fn write_bytes(
    server: &Metaserver,
    request: &mut Request<'_>,
    user: &User,
    inode: Inode,
    offset: u64,
    data: Payload,
    durable: bool,
) -> Result<Written, FileError> {
    let end = end_of(offset, data.len() as u64)?;
    clear_set_id(server, request, user, &inode).await?;
    let with_inode = |_: &dyn store::View| match migration::fits(&inode, end) {
        true => Ok(Command::WriteInline { inode: inode.id, offset, data: data.to_bytes() }),
        false => Err(FileError::Delay),
    };
    match request.change(server, Step::WriteInline, with_inode).await {
        Ok(Reply::Attributes { inode, .. }) => {
            server.metrics.file_bytes_written.inc_by(end - offset);
            return Ok(Written { inode, is_durable: true });
        }
        Ok(_) => return Err(FileError::Fault),
        // Too large for inline data, or the data have been migrated.
        Err(FileError::Delay) => {}
        Err(error) => return Err(error),
    }
    if let Some(inode) = request.answered(server)? {
        return Ok(Written { inode, is_durable: durable });
    }
    // Not only at the command that follows the data: what its holder writes for the recall is older than these.
    let inode = server.not_written_elsewhere(request.client(), inode).await?;
    let inode = server.data.own_columns(inode).await?;
    let _room = server.data.reserve(&inode, end, end - offset).await?;
    let (mut inode, claim) = request.claim(server, inode).await?;
    loop {
        inode = server.data.write_or_relocate(inode, offset, data.clone(), durable, &claim).await?;
        match wrote(server, request, &inode, end, end - offset).await {
            // The file's epoch was raised meanwhile: it was truncated, or its columns got other chains. The bytes may
            // be cut off, or where they are not looked for. A compound has a record of the answer.
            Err(FileError::Delay) if !matches!(request, Request::Compound(_)) => {
                inode = server.data.inode_after_change(&inode).await?;
            }
            outcome => return Ok(Written { inode: outcome?, is_durable: durable }),
        }
    }
}

/// Clears the set-id bits that a write by `user` takes away. Called before the first byte is changed: a crash in
/// between must not leave a program with another user's data and its owner's rights.
///
/// # Errors
/// The errors of the change.
pub(crate) async fn clear_set_id(
    server: &Metaserver,
    request: &mut Request<'_>,
    user: &User,
    inode: &Inode,
) -> Result<(), FileError> {
    let id = inode.id;
    if let Some(set) = after_write(user, inode) {
        let clear = |_: &dyn store::View| Ok(Command::SetAttributes { inode: id, set });
        request.change(server, Step::ClearSetId, clear).await?;
    }
    Ok(())
}

/// Updates the size and times of a file after a change of `bytes` of its data on the data servers, up to `end`.
/// Returns the inode.
///
/// # Errors
/// `Delay` for a file that was truncated after the data were sent; the errors of the change.
pub(crate) async fn wrote(
    server: &Metaserver,
    request: &mut Request<'_>,
    inode: &Inode,
    end: u64,
    bytes: u64,
) -> Result<Inode, FileError> {
    let (id, epoch) = (inode.id, inode.epoch);
    let wrote = |_: &dyn store::View| Ok(Command::Wrote { inode: id, end, bytes, epoch });
    match request.change(server, Step::Change, wrote).await? {
        Reply::Attributes { inode, .. } => Ok(inode),
        _ => Err(FileError::Fault),
    }
}
