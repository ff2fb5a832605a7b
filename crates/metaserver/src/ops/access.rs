//! ACCESS (RFC 8881, section 18.1; RFC 8276, section 8.3).

use namespace::Kind;
use wire::nfs4::Status;
use wire::nfs4::access::{
    Args, DELETE, EXECUTE, EXTEND, LOOKUP, MODIFY, READ, ResOk, XATTR_LIST, XATTR_READ, XATTR_WRITE,
};

use crate::Metaserver;
use crate::attributes::xattrs;
use crate::compound::Context;
use crate::user::Permission;

pub(crate) fn access(server: &Metaserver, context: &Context, args: Args) -> Result<ResOk, Status> {
    let view = server.machine.view()?;
    let inode = server.current(&*view, context)?;
    let user = server.caller(context)?;
    let xattrs = if context.minor_version >= 2 { XATTR_READ | XATTR_WRITE | XATTR_LIST } else { 0 };
    let supported = match inode.kind {
        Kind::Directory(_) => READ | LOOKUP | MODIFY | EXTEND | DELETE | xattrs,
        Kind::File(_) => READ | MODIFY | EXTEND | EXECUTE | xattrs,
        _ => READ | MODIFY | EXTEND | EXECUTE,
    };
    let mut access = 0;
    if user.may(&inode, Permission::READ) {
        access |= READ;
    }
    // A change of a directory's entries needs search permission as well.
    let writing = if inode.directory().is_some() { Permission::WRITE_AND_SEARCH } else { Permission::WRITE };
    if user.may(&inode, writing) {
        access |= MODIFY | EXTEND | DELETE;
    }
    if user.may(&inode, Permission::EXECUTE) {
        access |= LOOKUP | EXECUTE;
    }
    if xattrs::check_read(&user, &inode).is_ok() {
        access |= XATTR_READ | XATTR_LIST;
    }
    if xattrs::check_write(&user, &inode).is_ok() {
        access |= XATTR_WRITE;
    }
    if inode.id.is_read_only() {
        access &= !(MODIFY | EXTEND | DELETE | XATTR_WRITE);
    }
    let supported = supported & args.access;
    Ok(ResOk { supported, access: access & supported })
}
