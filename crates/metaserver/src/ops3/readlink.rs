//! READLINK (RFC 1813, section 3.3.5).

use namespace::Kind;
use wire::nfs3::readlink::{Args, Res, ResFail, ResOk};

use super::{failure, object};
use crate::Metaserver;
use crate::errors::FileError;

/// Returns the target of a symbolic link. Mode bits of a link have no meaning.
pub(crate) fn readlink(server: &Metaserver, args: Args) -> Res {
    let fail = |status, symlink_attributes| failure(status, ResFail { symlink_attributes });
    let inode = object(server, &args.symlink).map_err(|status| fail(status, None))?;
    let symlink_attributes = Some(server.attributes.fattr3(&inode));
    let Kind::Symlink(target) = inode.kind else { return Err(fail(FileError::Invalid, symlink_attributes)) };
    Ok(ResOk { symlink_attributes, data: target.into() })
}
