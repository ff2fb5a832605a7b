//! GETATTR (RFC 1813, section 3.3.1).

use wire::nfs3::getattr::{Args, Res, ResFail, ResOk};

use super::{failure, object};
use crate::Metaserver;

/// Whoever has the handle may ask.
pub(crate) fn getattr(server: &Metaserver, args: Args) -> Res {
    let inode = object(server, &args.object).map_err(|status| failure(status, ResFail {}))?;
    Ok(ResOk { obj_attributes: server.fattr3(&inode) })
}
