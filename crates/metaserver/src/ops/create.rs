//! CREATE (RFC 8881, section 18.4): everything but regular files.

use namespace::{Command, Create, Exists, NewNode, Reply};
use wire::nfs4::create::{Args, CreateType, ResOk};
use wire::nfs4::{Status, attr};

use crate::Metaserver;
use crate::attributes::nfs4::{Wanted, settable_of};
use crate::attributes::setattr::{given_to, new_attributes};
use crate::names;
use crate::nfs4::{Context, change_info};
use crate::user::Permission;

/// Linux has no other mode of a symbolic link, whatever the client's umask.
const SYMLINK_MODE: u32 = 0o777;

pub(crate) async fn create(server: &Metaserver, context: &mut Context, args: Args) -> Result<ResOk, Status> {
    let user = server.caller(context)?;
    let dir = context.state.current()?.inode;
    let name = names::checked(&args.objname)?;
    if args.createattrs.size.is_some() {
        return Err(Status::Inval); // only files have one that can be set, and OPEN makes those
    }
    let wanted = Wanted::for_new(&args.createattrs, &server.attributes.idmap())?;
    let mut attrset = settable_of(&args.createattrs);
    if matches!(args.objtype, CreateType::Symlink(_)) && wanted.mode != Some(SYMLINK_MODE) {
        attrset.clear(attr::MODE);
        attrset.clear(attr::MODE_UMASK);
    }
    let node = match args.objtype {
        CreateType::Directory => NewNode::Directory,
        CreateType::Symlink(target) => NewNode::Symlink(names::checked_target(&target)?),
        CreateType::Fifo => NewNode::Fifo,
        CreateType::Socket => NewNode::Socket,
        CreateType::Char(d) if user.is_root() => NewNode::CharacterDevice(d.major, d.minor),
        CreateType::Block(d) if user.is_root() => NewNode::BlockDevice(d.major, d.minor),
        CreateType::Char(_) | CreateType::Block(_) => return Err(Status::Perm),
        CreateType::Other(_) => return Err(Status::BadType),
    };
    let prepare = {
        let context = context.state.current()?;
        move |view: &dyn store::View| {
            let parent = server.machine.inode(view, context.inode)?;
            user.check(&parent, Permission::WRITE_AND_SEARCH)?;
            let is_dir = node == NewNode::Directory;
            let mode = match node {
                NewNode::Symlink(_) => SYMLINK_MODE,
                NewNode::Directory => wanted.mode.unwrap_or(0o755),
                _ => wanted.mode.unwrap_or(0o644),
            };
            let attributes = new_attributes(&user, &parent, mode, is_dir, wanted.accessed, wanted.modified);
            let attributes = given_to(&user, attributes, wanted.uid, wanted.gid)?;
            Ok(Command::Create(Create { dir, name, node, attributes, exists: Exists::Refuse }))
        }
    };
    let Reply::Created { inode, dir, .. } = server.change(context, prepare).await? else {
        return Err(Status::ServerFault);
    };
    let via = context.state.current()?.via;
    context.state.set_current(&inode, via);
    Ok(ResOk { cinfo: change_info(dir), attrset })
}
