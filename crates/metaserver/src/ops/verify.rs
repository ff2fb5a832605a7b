//! VERIFY and NVERIFY (RFC 8881, sections 18.31 and 18.15).

use wire::nfs4::{Fattr, Status, attr};

use crate::Metaserver;
use crate::attributes::nfs4::{SUPPORTED, check_readable};
use crate::compound::Context;
use crate::data::unsettled::depend_on_data;
use crate::state::write_delegations::asker;

pub(crate) async fn verify(server: &Metaserver, context: &Context, given: &Fattr) -> Result<(), Status> {
    if same(server, context, given).await? { Ok(()) } else { Err(Status::NotSame) }
}

pub(crate) async fn nverify(server: &Metaserver, context: &Context, given: &Fattr) -> Result<(), Status> {
    if same(server, context, given).await? { Err(Status::Same) } else { Ok(()) }
}

async fn same(server: &Metaserver, context: &Context, given: &Fattr) -> Result<bool, Status> {
    let mut inode = server.current(&*server.machine.view()?, context)?;
    if !given.unknown.is_empty() || !given.mask().difference(&SUPPORTED).is_empty() {
        return Err(Status::AttrNotSupp);
    }
    let mask = given.mask();
    check_readable(&mask)?;
    if mask.contains(attr::RDATTR_ERROR) {
        return Err(Status::Inval);
    }
    if depend_on_data(&mask) {
        inode = server.not_written_elsewhere(asker(context), inode).await?;
        inode = server.data.true_inode(inode).await?;
    }
    let view = server.machine.view()?;
    let mut ours = wire::xdr::Encoder::new();
    server
        .attributes
        .attributes(context, &*view, &inode, context.state.current()?.via, &mask)?
        .encode(&mask, &mut ours);
    let theirs = match with_our_names(server, given) {
        Err(Status::BadOwner) => return Ok(false), // an unknown owner matches no file
        theirs => theirs?,
    };
    let mut e = wire::xdr::Encoder::new();
    theirs.encode(&mask, &mut e);
    Ok(ours.finish() == e.finish())
}

/// Replaces a numeric owner by its name: both name the same owner.
fn with_our_names(server: &Metaserver, given: &Fattr) -> Result<Fattr, Status> {
    let (idmap, mut given) = (server.attributes.idmap(), given.clone());
    given.owner = given.owner.map(|name| idmap.user(&name)).transpose()?.map(|id| idmap.user_name(id));
    let group = given.owner_group.map(|name| idmap.group(&name)).transpose()?;
    given.owner_group = group.map(|id| idmap.group_name(id));
    Ok(given)
}
