//! ACCESS (RFC 1813, section 3.3.4).

use namespace::Inode;
use wire::nfs3::access::{Args, DELETE, EXECUTE, EXTEND, LOOKUP, MODIFY, READ, Res, ResFail, ResOk};

use super::{failure, object};
use crate::Metaserver;
use crate::user::{Permission, User};

/// Returns the kinds of access that the caller has, among those asked for.
pub(crate) fn access(server: &Metaserver, user: &User, args: Args) -> Res {
    match object(server, &args.object) {
        Ok(inode) => Ok(ResOk {
            access: granted(user, &inode) & args.access,
            obj_attributes: server.attributes.told3(&inode),
        }),
        Err(status) => Err(failure(status, ResFail { obj_attributes: None })),
    }
}

fn granted(user: &User, inode: &Inode) -> u32 {
    let kinds = if inode.directory().is_some() {
        [
            (Permission::READ, READ),
            (Permission::EXECUTE, LOOKUP),
            (Permission::WRITE_AND_SEARCH, MODIFY | EXTEND | DELETE),
        ]
    } else {
        [(Permission::READ, READ), (Permission::EXECUTE, EXECUTE), (Permission::WRITE, MODIFY | EXTEND)]
    };
    let granted = kinds.iter().filter(|(permission, _)| user.may(inode, *permission));
    let granted = granted.fold(0, |bits, (_, kind)| bits | kind);
    if inode.id.is_read_only() { granted & !(MODIFY | EXTEND | DELETE) } else { granted }
}
