//! MOUNT version 3 as a program: returns the file handle of a path, with which an NFSv3 mount begins.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use bytes::Bytes;
use cluster::{Export, Exports};
use host::Network;
use namespace::{Inode, InodeId, read};
use nfs::{Answer, Connection, Program};
use wire::mount3::{Call, DirPath, Name, PROGRAM, Reply, VERSION, dump, export, mnt, null, umnt, umntall};
use wire::nfs4::Status;
use wire::rpc::{CallHeader, Rejection};
use wire::xdr::{Decoder, Encode, Encoder};

use crate::Metaserver;
use crate::errors::store_failed;
use crate::exports::admission::Via;
use crate::exports::pseudo::Way;
use crate::exports::refusals::Reason;

/// MOUNT over a metaserver. It keeps no list of mounts: such a list depends on UMNT calls of the clients.
pub(crate) struct MountProgram(pub Arc<Metaserver>);

impl Program for MountProgram {
    fn number(&self) -> u32 {
        PROGRAM
    }

    fn versions(&self) -> RangeInclusive<u32> {
        VERSION..=VERSION
    }

    // Its calls are short.
    fn trusts(&self, _: &CallHeader, _: Decoder, _: &Connection) -> bool {
        false
    }

    fn is_out_of_service(&self) -> bool {
        self.0.machine.replica.is_out_of_service()
    }

    fn call(self: Arc<Self>, mut call: nfs::Call) -> Answer {
        Box::pin(async move {
            let arguments = Call::of_number(call.header.procedure, &mut call.arguments)?;
            let reply = match arguments {
                Call::Null(_) => Reply::Null(null::Res {}),
                Call::Mnt(args) => {
                    let found = self.0.mount3(&call.connection, &args.path);
                    if found == Err(Status::Access) {
                        match self.0.admission.check_admitted(&call.connection) {
                            Ok(()) => {
                                self.0.admission.note_refusal(&call.connection, Reason::Path, &args.path)
                            }
                            Err(status) => {
                                self.0.admission.note_refused(&call.connection, status, &args.path)
                            }
                        }
                    }
                    Reply::Mnt(found.map(|(dir, export)| self.mounted(&dir, export)).map_err(mount_status))
                }
                Call::Dump(_) => Reply::Dump(dump::Res::default()),
                Call::Umnt(_) => Reply::Umnt(umnt::Res {}),
                Call::UmntAll(_) => Reply::UmntAll(umntall::Res {}),
                Call::Export(_) => {
                    let listed = self.0.listed(&call.connection).map_err(|_| Rejection::SystemError)?;
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
    fn mounted(&self, dir: &Inode, export: InodeId) -> mnt::ResOk {
        let handle = self.0.machine.handle(Via::Export(export), dir.id, dir.generation).into();
        mnt::ResOk { handle, auth_flavors: vec![mnt::AUTH_SYS, mnt::AUTH_NONE] }
    }
}

impl Metaserver {
    /// Returns the directory at the end of a path from the volume's root, and the innermost export on the way
    /// that admits the client. Symbolic links are not followed: they have a meaning only on the client.
    ///
    /// # Errors
    /// `Access` for a path outside of the client's exports, even if it does not exist.
    fn mount3(&self, connection: &Connection, path: &[u8]) -> Result<(Inode, InodeId), Status> {
        let mut names = Vec::new();
        for name in path.split(|b| *b == b'/') {
            match name {
                b"" | b"." => {}
                b".." => drop(names.pop()),
                name => names.push(name),
            }
        }
        let view = self.machine.view()?;
        let mut at = self.machine.inode(&*view, InodeId::ROOT)?;
        let mut export = self.admission.rules(connection, at.id).is_ok().then_some(at.id);
        for name in names {
            let found = read::lookup(&*view, at.id, name).map_err(store_failed)?;
            let dir = found.map(|id| self.machine.inode(&*view, id)).transpose()?;
            at = match (dir, export) {
                (Some(dir), _) if dir.directory().is_some() => dir,
                (_, None) => return Err(Status::Access),
                (Some(_), Some(_)) => return Err(Status::NotDir),
                (None, Some(_)) => return Err(Status::NoEnt),
            };
            export = self.admission.rules(connection, at.id).is_ok().then_some(at.id).or(export);
        }
        Ok((at, export.ok_or(Status::Access)?))
    }

    /// Returns the list of exported directories for EXPORT, with their current paths.
    fn listed(&self, connection: &Connection) -> Result<Vec<export::Export>, Status> {
        let (exports, view) = (self.cluster.exports.get(), self.machine.view()?);
        let mut all = Vec::new();
        for one in exports.of_address(connection.peer().ip()) {
            if let Some(way) = self.admission.way_to(&*view, one)? {
                all.push(listed(&exports, one, &way));
            }
        }
        Ok(all)
    }
}

/// Entry of EXPORT for a directory that the client can mount, with the networks that have the same rules. The
/// networks of other rules are not shown.
fn listed(exports: &Exports, one: &Export, way: &Way) -> export::Export {
    let same = exports.iter().filter(|other| other.root == one.root && other.rules == one.rules);
    let networks: BTreeSet<Network> = same.map(|export| export.network).collect();
    let everybody = [Network::ALL_V4, Network::ALL_V6].iter().all(|all| networks.contains(all));
    let networks = if everybody { BTreeSet::new() } else { networks };
    let groups: Vec<_> = networks.iter().map(|network| Name(Bytes::from(network.to_string()))).collect();
    let names = way.iter().flat_map(|(_, name)| [&b"/"[..], name]);
    let path: Vec<u8> = if way.is_empty() { b"/".to_vec() } else { names.flatten().copied().collect() };
    export::Export { path: DirPath(Bytes::from(path)), groups: groups.into() }
}

/// Maps a status to MOUNT, whose numbers are those of NFS.
fn mount_status(status: Status) -> wire::mount3::Status {
    wire::mount3::Status::from_u32(status as u32).unwrap_or(wire::mount3::Status::ServerFault)
}
