//! MKNOD (RFC 1813, section 3.3.11).

use namespace::{CallId, Change, Inode, NewNode};
use wire::nfs3::mknod::{Args, MkNodData, Res, ResFail, ResOk};

use super::wcc::Wcc;
use super::{failure, make};
use crate::Metaserver;
use crate::errors::FileError;
use crate::user::User;

/// Creates a device, socket or pipe.
pub(crate) async fn mknod(server: &Metaserver, user: &User, call: &CallId, args: Args) -> Res {
    let mut wcc = Wcc::default();
    match made(server, user, call, args, &mut wcc).await {
        Ok((inode, change)) => Ok(ResOk {
            obj: make::handle(server, user, &inode),
            obj_attributes: Some(server.attributes.fattr3(&inode)),
            dir_wcc: wcc.after(server, change),
        }),
        Err(status) => Err(failure(status, ResFail { dir_wcc: wcc.unchanged(server) })),
    }
}

async fn made(
    server: &Metaserver,
    user: &User,
    call: &CallId,
    args: Args,
    wcc: &mut Wcc,
) -> Result<(Inode, Change), FileError> {
    let (node, set) = match args.what {
        MkNodData::Regular | MkNodData::Directory | MkNodData::SymLink => {
            make::refuse(server, user, &args.at, wcc, FileError::BadType)?;
            return Err(FileError::BadType);
        }
        MkNodData::Block(d) => (NewNode::BlockDevice(d.spec.major, d.spec.minor), d.attributes),
        MkNodData::Character(d) => (NewNode::CharacterDevice(d.spec.major, d.spec.minor), d.attributes),
        MkNodData::Socket(attributes) => (NewNode::Socket, attributes),
        MkNodData::Fifo(attributes) => (NewNode::Fifo, attributes),
    };
    make::make_new(server, user, call, &args.at, node, &set, wcc).await
}
