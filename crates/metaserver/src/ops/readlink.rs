//! READLINK (RFC 8881, section 18.24).

use namespace::Kind;
use wire::nfs4::Status;
use wire::nfs4::readlink::ResOk;

use crate::Metaserver;
use crate::compound::Context;

pub(crate) fn readlink(server: &Metaserver, context: &Context) -> Result<ResOk, Status> {
    let view = server.machine.view()?;
    match server.current(&*view, context)?.kind {
        Kind::Symlink(target) => Ok(ResOk { link: target.into() }),
        _ => Err(Status::WrongType),
    }
}
