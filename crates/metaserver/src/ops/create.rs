//! CREATE (RFC 8881, section 18.4): all kinds of inodes but regular files.

use namespace::{Exists, NewNode, Reply};
use wire::nfs4::create::{Args, CreateType, ResOk};
use wire::nfs4::{Status, attr};

use crate::Metaserver;
use crate::attributes::nfs4::{Wanted, settable_of};
use crate::compound::{Context, change_info};
use crate::files::make::{self, SYMLINK_MODE};
use crate::names;

pub(crate) async fn create(server: &Metaserver, context: &mut Context, args: Args) -> Result<ResOk, Status> {
    let user = server.caller(context)?;
    let name = names::checked(&args.objname)?;
    if args.createattrs.size.is_some() {
        return Err(Status::Inval); // only regular files have a settable size, and OPEN makes those
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
        CreateType::Char(d) => NewNode::CharacterDevice(d.major, d.minor),
        CreateType::Block(d) => NewNode::BlockDevice(d.major, d.minor),
        CreateType::Other(_) => return Err(Status::BadType),
    };
    let prepare = {
        let context = context.state.current()?;
        move |view: &dyn store::View| {
            let parent = server.machine.inode(view, context.inode)?;
            Ok(make::create(&user, &parent, name, node, &wanted.asked(), Exists::Refuse)?)
        }
    };
    let Reply::Created { inode, dir, .. } = server.change(context, prepare).await? else {
        return Err(Status::ServerFault);
    };
    let via = context.state.current()?.via;
    context.state.set_current(&inode, via);
    Ok(ResOk { cinfo: change_info(dir), attrset })
}
