//! MOUNT version 3 as a program: from a path to the handle that an NFSv3 mount begins with.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use bytes::Bytes;
use host::Network;
use namespace::{Inode, InodeId, read};
use nfs::{Answer, Connection, Program};
use wire::mount3::{
    Call, DirPath, Name, PROGRAM, Procedure, Reply, VERSION, dump, export, mnt, null, umnt, umntall,
};
use wire::nfs4::Status;
use wire::rpc::{CallHeader, Rejection};
use wire::xdr::{Decoder, Encode, Encoder};

use crate::errors::store_failed;
use crate::{Export, Exports, Metaserver};

/// MOUNT over a metaserver. It remembers nobody: a list of mounts would be as good as the clients' UMNT.
pub(crate) struct MountProgram(pub Arc<Metaserver>);

impl Program for MountProgram {
    fn number(&self) -> u32 {
        PROGRAM
    }

    fn versions(&self) -> RangeInclusive<u32> {
        VERSION..=VERSION
    }

    /// What it is asked is short.
    fn trusts(&self, _: &CallHeader, _: Decoder, _: &Connection) -> bool {
        false
    }

    fn serves_not(&self) -> bool {
        self.0.replica.serves_not()
    }

    fn call(self: Arc<Self>, mut call: nfs::Call) -> Answer {
        Box::pin(async move {
            let procedure =
                Procedure::from_u32(call.header.procedure).ok_or(Rejection::ProcedureUnavailable)?;
            let arguments =
                Call::decode(procedure, &mut call.arguments).map_err(|_| Rejection::GarbageArguments)?;
            let reply = match arguments {
                Call::Null(_) => Reply::Null(null::Res {}),
                Call::Mnt(args) => {
                    let user = self.0.user(&call.connection, &call.header.credential);
                    let found = user.and_then(|_| self.0.directory_at(&args.path));
                    Reply::Mnt(found.map(|dir| self.mounted(&dir)).map_err(mount_status))
                }
                Call::Dump(_) => Reply::Dump(dump::Res::default()),
                Call::Umnt(_) => Reply::Umnt(umnt::Res {}),
                Call::UmntAll(_) => Reply::UmntAll(umntall::Res {}),
                Call::Export(_) => {
                    let exports = self.0.exports.get();
                    let listed: Vec<_> = exports
                        .of_address(call.connection.peer().ip())
                        .map(|one| listed(&exports, one))
                        .collect();
                    Reply::Export(export::Res { exports: listed.into() })
                }
            };
            let mut e = Encoder::new();
            reply.encode(&mut e);
            Ok(e.finish())
        })
    }
}

impl MountProgram {
    fn mounted(&self, dir: &Inode) -> mnt::ResOk {
        let handle = self.0.handle(dir.id, dir.generation).into();
        mnt::ResOk { handle, auth_flavors: vec![mnt::AUTH_SYS, mnt::AUTH_NONE] }
    }
}

impl Metaserver {
    /// The directory at the end of a path from the root. Symbolic links are not followed: they mean something on the
    /// client only.
    fn directory_at(&self, path: &[u8]) -> Result<Inode, Status> {
        let view = self.view()?;
        let mut at = self.inode(&*view, InodeId::ROOT)?;
        for name in path.split(|b| *b == b'/') {
            let id = match name {
                b"" | b"." => continue,
                b".." => at.directory().ok_or(Status::NotDir)?.parent,
                name => read::lookup(&*view, at.id, name).map_err(store_failed)?.ok_or(Status::NoEnt)?,
            };
            at = self.inode(&*view, id)?;
            at.directory().ok_or(Status::NotDir)?;
        }
        Ok(at)
    }
}

/// What a client is told of a directory that it can mount, with the networks of its own rules: others are not its business.
fn listed(exports: &Exports, one: &Export) -> export::Export {
    let same = exports.iter().filter(|other| other.root == one.root && other.rules == one.rules);
    let networks: BTreeSet<Network> = same.map(|export| export.network).collect();
    let everybody = [Network::ALL_V4, Network::ALL_V6].iter().all(|all| networks.contains(all));
    let networks = if everybody { BTreeSet::new() } else { networks };
    let groups: Vec<_> = networks.iter().map(|network| Name(Bytes::from(network.to_string()))).collect();
    export::Export { path: DirPath(Bytes::from(one.path.clone())), groups: groups.into() }
}

/// MOUNT's numbers are those of NFS, where it has any.
fn mount_status(status: Status) -> wire::mount3::Status {
    wire::mount3::Status::from_u32(status as u32).unwrap_or(wire::mount3::Status::ServerFault)
}
