//! GETATTR at a data server: the attributes that it knows itself. Sizes, times and owners are a metaserver's.

use wire::nfs4::{AttrReply, Bitmap, Fattr, FileType, Status, attr, getattr};

use super::{NfsServer, State};
use crate::clients::LEASE;

const SUPPORTED: Bitmap = Bitmap::of(&[
    attr::SUPPORTED_ATTRS,
    attr::TYPE,
    attr::FH_EXPIRE_TYPE,
    attr::LEASE_TIME,
    attr::MAXREAD,
    attr::MAXWRITE,
]);

impl NfsServer {
    pub(super) fn getattr(&self, state: &State, args: &getattr::Args) -> Result<getattr::ResOk, Status> {
        state.current()?;
        let attrs = Fattr {
            supported_attrs: Some(SUPPORTED),
            file_type: Some(FileType::Regular),
            fh_expire_type: Some(0),
            lease_time: Some(LEASE.as_secs() as u32),
            maxread: Some(1 << 20),
            maxwrite: Some(1 << 20),
            ..Fattr::default()
        };
        Ok(AttrReply { requested: args.attr_request, attrs: Box::new(attrs) })
    }
}
