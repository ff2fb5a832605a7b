//! WRITE (RFC 1813, section 3.3.7).

use namespace::{Command, Inode, Reply, SIZE_BYTES_MAX, Share};
use wire::nfs3::StableHow;
use wire::nfs3::write::{Args, Res, ResFail, ResOk};

use super::wcc::Wcc;
use super::{TRANSFER_BYTES_MAX, check_data, check_file, failure};
use crate::Metaserver;
use crate::attributes::setattr;
use crate::data::migration;
use crate::errors::FileError;
use crate::user::User;

/// Writes to a file, through this server.
pub(crate) async fn write(server: &Metaserver, user: &User, args: Args) -> Res {
    // From before the data are sent: were it read after them, a data server that lost them in between and was
    // found out by another write would have changed it already, and COMMIT would seem to vouch for lost
    // bytes.
    let verf = server.data.write_verifier.get();
    let mut wcc = Wcc::default();
    match wrote(server, user, args, &mut wcc).await {
        Ok((after, count, committed)) => {
            Ok(ResOk { file_wcc: wcc.left(server, &after), count, committed, verf })
        }
        Err(status) => Err(failure(status, ResFail { file_wcc: wcc.unchanged(server) })),
    }
}

/// The file after it, how many bytes were written, and how safely.
async fn wrote(
    server: &Metaserver,
    user: &User,
    args: Args,
    wcc: &mut Wcc,
) -> Result<(Inode, u32, StableHow), FileError> {
    let inode = check(server, user, &args, wcc)?;
    let committed = match args.stable {
        StableHow::Unstable => StableHow::Unstable,
        // Size and times are durable with their command in any case.
        StableHow::DataSync | StableHow::FileSync => StableHow::FileSync,
    };
    if args.data.len() < args.count as usize {
        return Err(FileError::Invalid);
    }
    // More than FSINFO promised is cut short, which the client sees from the count.
    let count = args.count.min(TRANSFER_BYTES_MAX);
    if count == 0 {
        return Ok((inode, 0, committed));
    }
    let end = args.offset.checked_add(u64::from(count)).filter(|end| *end <= SIZE_BYTES_MAX);
    let end = end.ok_or(FileError::TooLarge)?;
    let data = args.data.slice(0, count as usize);
    if let Some(set) = setattr::after_write(user, &inode) {
        server.state.propose(None, Command::SetAttributes { inode: inode.id, set }).await?;
    }
    if migration::fits(&inode, end) {
        let command = Command::WriteInline { inode: inode.id, offset: args.offset, data: data.to_bytes() };
        match server.state.propose(None, command).await {
            Ok(Reply::Attributes { inode, .. }) => {
                server.metrics.file_bytes_written.inc_by(u64::from(count));
                return Ok((inode, count, StableHow::FileSync));
            }
            Ok(_) => return Err(FileError::Fault),
            Err(FileError::Delay) => {} // the data have left the inode since we looked
            Err(status) => return Err(status),
        }
    }
    let inode =
        if inode.columns().is_some() { inode } else { server.data.migrate_to_objects(inode.id).await? };
    let stable = args.stable != StableHow::Unstable;
    let inode = server.data.write_or_relocate(inode, args.offset, data, stable).await?;
    match server
        .state
        .propose(None, Command::Wrote { inode: inode.id, end, truncations: inode.truncations })
        .await?
    {
        Reply::Attributes { inode, .. } => Ok((inode, count, committed)),
        _ => Err(FileError::Fault),
    }
}

fn check(server: &Metaserver, user: &User, args: &Args, wcc: &mut Wcc) -> Result<Inode, FileError> {
    let view = server.machine.view()?;
    let inode = server.machine.inode_of(&*view, &args.file)?;
    wcc.before(&inode);
    check_file(&inode)?;
    user.check_write(&inode)?;
    check_data(server, &*view, &inode, Share::WRITE)?;
    Ok(inode)
}
