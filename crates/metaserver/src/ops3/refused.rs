//! Reply to a procedure that is refused before any look-up: a status, without attributes of objects.

use wire::nfs3::{self, Failure, Procedure};
use wire::xdr::{Encode, Encoder, Message};

use crate::errors::FileError;

/// Encodes the failure of a procedure, with only a status.
pub(crate) fn refused(procedure: Procedure, status: FileError) -> Message {
    let mut e = Encoder::new();
    match procedure {
        Procedure::Null => {}
        Procedure::GetAttr => fail::<nfs3::getattr::ResFail>(status, &mut e),
        Procedure::SetAttr => fail::<nfs3::setattr::ResFail>(status, &mut e),
        Procedure::Lookup => fail::<nfs3::lookup::ResFail>(status, &mut e),
        Procedure::Access => fail::<nfs3::access::ResFail>(status, &mut e),
        Procedure::ReadLink => fail::<nfs3::readlink::ResFail>(status, &mut e),
        Procedure::Read => fail::<nfs3::read::ResFail>(status, &mut e),
        Procedure::Write => fail::<nfs3::write::ResFail>(status, &mut e),
        Procedure::Create => fail::<nfs3::create::ResFail>(status, &mut e),
        Procedure::MkDir => fail::<nfs3::mkdir::ResFail>(status, &mut e),
        Procedure::SymLink => fail::<nfs3::symlink::ResFail>(status, &mut e),
        Procedure::MkNod => fail::<nfs3::mknod::ResFail>(status, &mut e),
        Procedure::Remove => fail::<nfs3::remove::ResFail>(status, &mut e),
        Procedure::RmDir => fail::<nfs3::rmdir::ResFail>(status, &mut e),
        Procedure::Rename => fail::<nfs3::rename::ResFail>(status, &mut e),
        Procedure::Link => fail::<nfs3::link::ResFail>(status, &mut e),
        Procedure::ReadDir => fail::<nfs3::readdir::ResFail>(status, &mut e),
        Procedure::ReadDirPlus => fail::<nfs3::readdirplus::ResFail>(status, &mut e),
        Procedure::FsStat => fail::<nfs3::fsstat::ResFail>(status, &mut e),
        Procedure::FsInfo => fail::<nfs3::fsinfo::ResFail>(status, &mut e),
        Procedure::PathConf => fail::<nfs3::pathconf::ResFail>(status, &mut e),
        Procedure::Commit => fail::<nfs3::commit::ResFail>(status, &mut e),
    }
    e.finish()
}

fn fail<F: Encode + Default>(status: FileError, e: &mut Encoder) {
    Err::<NoResult, _>(Failure::new(status.into(), F::default())).encode(e);
}

/// Placeholder for the result of a failed procedure.
struct NoResult;

impl Encode for NoResult {
    fn encode(&self, _: &mut Encoder) {}
}
