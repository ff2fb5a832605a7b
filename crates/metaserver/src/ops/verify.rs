//! VERIFY and NVERIFY (RFC 8881, sections 18.31 and 18.15).

use wire::nfs4::{Fattr, Status, attr};

use crate::Metaserver;
use crate::attributes::SUPPORTED;
use crate::nfs4::Context;

pub(crate) fn verify(server: &Metaserver, context: &Context, given: &Fattr) -> Result<(), Status> {
    if same(server, context, given)? { Ok(()) } else { Err(Status::NotSame) }
}

pub(crate) fn nverify(server: &Metaserver, context: &Context, given: &Fattr) -> Result<(), Status> {
    if same(server, context, given)? { Err(Status::Same) } else { Ok(()) }
}

fn same(server: &Metaserver, context: &Context, given: &Fattr) -> Result<bool, Status> {
    let view = server.view()?;
    let inode = server.current(&*view, context)?;
    if !given.unknown.is_empty() || !given.mask().difference(&SUPPORTED).is_empty() {
        return Err(Status::AttrNotSupp);
    }
    let not_comparable = [attr::RDATTR_ERROR, attr::TIME_ACCESS_SET, attr::TIME_MODIFY_SET];
    if not_comparable.iter().any(|number| given.mask().contains(*number)) {
        return Err(Status::Inval);
    }
    let mask = given.mask();
    let mut ours = wire::xdr::Encoder::new();
    server.attributes(&*view, &inode, &mask)?.encode(&mask, &mut ours);
    let mut theirs = wire::xdr::Encoder::new();
    given.encode(&mask, &mut theirs);
    Ok(ours.finish() == theirs.finish())
}
