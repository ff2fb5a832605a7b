//! GETATTR (RFC 8881, section 18.7).

use wire::nfs4::getattr::{Args, ResOk};
use wire::nfs4::{AttrReply, Status};

use crate::Metaserver;
use crate::attributes::check_readable;
use crate::nfs4::Context;

pub(crate) fn getattr(server: &Metaserver, context: &Context, args: Args) -> Result<ResOk, Status> {
    let view = server.view()?;
    let inode = server.current(&*view, context)?;
    check_readable(&args.attr_request)?;
    let attrs = Box::new(server.attributes(context, &*view, &inode, &args.attr_request)?);
    Ok(AttrReply { requested: args.attr_request, attrs })
}
