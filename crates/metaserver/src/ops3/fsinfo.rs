//! FSINFO (RFC 1813, section 3.3.19).

use namespace::SIZE_BYTES_MAX;
use wire::nfs3::Time;
use wire::nfs3::fsinfo::{Args, CAN_SET_TIME, HOMOGENEOUS, LINK, Res, ResFail, ResOk, SYMLINK};

use super::{TRANSFER_BYTES_MAX, failure, object};
use crate::Metaserver;

/// Preferred multiple of sizes.
const PAGE_BYTES: u32 = 4096;
/// Preferred size of a READDIR.
const DIRECTORY_BYTES: u32 = 64 * 1024;

/// Returns the capabilities of the server, and its preferred sizes.
pub(crate) fn fsinfo(server: &Metaserver, args: Args) -> Res {
    let inode =
        object(server, &args.fsroot).map_err(|status| failure(status, ResFail { obj_attributes: None }))?;
    Ok(ResOk {
        obj_attributes: Some(server.attributes.fattr3(&inode)),
        rtmax: TRANSFER_BYTES_MAX,
        rtpref: TRANSFER_BYTES_MAX,
        rtmult: PAGE_BYTES,
        wtmax: TRANSFER_BYTES_MAX,
        wtpref: TRANSFER_BYTES_MAX,
        wtmult: PAGE_BYTES,
        dtpref: DIRECTORY_BYTES,
        maxfilesize: SIZE_BYTES_MAX,
        time_delta: Time { seconds: 0, nanoseconds: 1 },
        properties: LINK | SYMLINK | HOMOGENEOUS | CAN_SET_TIME,
    })
}
