//! COMMIT (RFC 1813, section 3.3.21).

use namespace::Inode;
use wire::nfs3::commit::{Args, Res, ResFail, ResOk};

use super::wcc::Wcc;
use super::{failure, object};
use crate::Metaserver;
use crate::errors::FileError;
use crate::files::check_regular;
use crate::user::User;

/// Makes a file's unstable writes durable: all of them, whatever the range.
pub(crate) async fn commit(server: &Metaserver, user: &User, args: Args) -> Res {
    let mut wcc = Wcc::default();
    match committed(server, user, args, &mut wcc).await {
        // Read after the commit: the verifier then covers every restart of a data server that was noticed.
        Ok(()) => Ok(ResOk { file_wcc: wcc.unchanged(server), verf: server.data.write_verifier.get() }),
        Err(status) => Err(failure(status, ResFail { file_wcc: wcc.unchanged(server) })),
    }
}

async fn committed(server: &Metaserver, user: &User, args: Args, wcc: &mut Wcc) -> Result<(), FileError> {
    let inode: Inode = object(server, &args.file)?;
    wcc.before(&inode);
    check_regular(&inode)?;
    user.check_commit(&inode)?;
    server.data.commit_data(&inode).await
}
