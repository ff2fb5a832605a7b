//! PATHCONF (RFC 1813, section 3.3.20).

use namespace::LINKS_MAX;
use wire::nfs3::pathconf::{Args, Res, ResFail, ResOk};

use super::{failure, object};
use crate::Metaserver;
use crate::names::NAME_BYTES_MAX;

/// POSIX pathconf values, the same for every object.
pub(crate) fn pathconf(server: &Metaserver, args: Args) -> Res {
    let inode =
        object(server, &args.object).map_err(|status| failure(status, ResFail { obj_attributes: None }))?;
    Ok(ResOk {
        obj_attributes: Some(server.attributes.fattr3(&inode)),
        linkmax: LINKS_MAX,
        name_max: NAME_BYTES_MAX as u32,
        no_trunc: true,
        chown_restricted: true,
        case_insensitive: false,
        case_preserving: true,
    })
}
