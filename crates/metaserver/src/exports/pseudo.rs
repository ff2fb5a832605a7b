//! The pseudo file system (RFC 8881, sections 7.3 and 7.4): the directories above the exports of one client.
//!
//! ```text
//! volume          exported to this client        tree from PUTROOTFH
//! /               /projects/a, /scratch/b        /            pseudo
//! ├── home                                       ├── projects pseudo
//! ├── projects                                   │   └── a    export, with its whole content
//! │   ├── a                                      └── scratch  pseudo
//! │   └── secret                                     └── b    export
//! └── scratch
//!     └── b
//! ```
//!
//! The pseudo file system is read-only and shows no other names. It is computed from the exports and the
//! directories' parents at each operation, so that it is always current. A client with an export of the whole
//! volume never sees it. A pseudo directory has the inode number of the directory that it stands for, and an
//! fsid of its own, so that a client mounts each export below it separately.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

use cluster::Export;
use namespace::{Entry, Inode, InodeId, Kind, read};
use nfs::Connection;
use parking_lot::Mutex;
use store::View;
use wire::nfs4::{ArgOp, ResOp, Status};

use crate::compound::Context;
use crate::errors::{FileError, store_failed};
use crate::exports::Admission;
use crate::exports::admission::{DEPTH_MAX, Via, is_for_everybody};
use crate::exports::refusals::Reason;
use crate::{Metaserver, names, ops};

/// Maximum of names kept of exported directories and their parents: a few hundred bytes each.
const NAMES_MAX: usize = 16_384;
/// Permission bits of a pseudo directory.
const MODE: u32 = 0o555;

/// Last known name of each directory on the way to an export. A name is compared with the store before it is
/// used.
#[derive(Default)]
pub(crate) struct DirectoryNames(Mutex<HashMap<InodeId, Vec<u8>>>);

/// Entry of a pseudo directory, its inode, and the `Via` for its handle.
type PseudoEntry = (Entry, Result<Inode, FileError>, Via);

impl DirectoryNames {
    fn get(&self, dir: InodeId) -> Option<Vec<u8>> {
        self.0.lock().get(&dir).cloned()
    }

    fn put(&self, dir: InodeId, name: Vec<u8>) {
        let mut names = self.0.lock();
        if names.len() >= NAMES_MAX {
            names.clear();
        }
        names.insert(dir, name);
    }
}

/// Directories from below the root to an exported directory, with their names.
pub(crate) type Way = Vec<(InodeId, Vec<u8>)>;

/// Path of a way, for messages.
pub(crate) fn path_of(way: &Way) -> String {
    let names: Vec<_> = way.iter().map(|(_, name)| String::from_utf8_lossy(name)).collect();
    format!("/{}", names.join("/"))
}

/// Ways to all exports of one client.
pub(crate) struct PseudoTree {
    ways: Vec<Way>,
}

/// Name in a pseudo directory.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Child {
    inode: InodeId,
    name: Vec<u8>,
    via: Via,
}

impl PseudoTree {
    /// Entries of a pseudo directory, in the order of inode numbers, which are the cookies.
    fn children(&self, dir: InodeId) -> Vec<Child> {
        let mut children = BTreeMap::new();
        for way in &self.ways {
            let above = std::iter::once(InodeId::ROOT).chain(way.iter().map(|(inode, _)| *inode));
            let Some(at) = above.take(way.len()).position(|inode| inode == dir) else { continue };
            let (inode, name) = way[at].clone();
            let is_export = at + 1 == way.len();
            let child = children.entry(inode).or_insert(Child { inode, name, via: Via::Pseudo });
            if is_export {
                child.via = Via::Export(inode);
            }
        }
        children.into_values().collect()
    }

    /// Returns the inode of a pseudo directory, with read-only attributes.
    ///
    /// # Errors
    /// `Stale` when none of the client's exports is below the directory.
    pub(crate) fn directory(&self, server: &Metaserver, real: &Inode) -> Result<Inode, FileError> {
        let children = self.children(real.id);
        if children.is_empty() && real.id != InodeId::ROOT {
            return Err(FileError::Stale);
        }
        Ok(Inode {
            mode: MODE,
            uid: 0,
            gid: 0,
            links: 2 + children.len() as u32,
            accessed: real.created,
            modified: real.created,
            changed: real.created,
            // Both numbers only grow, and a change of the names here increases one of them.
            change: real.change + server.cluster.map().head.version,
            ..real.clone()
        })
    }
}

impl Admission {
    /// Current way from the root to an exported directory; none: it was removed.
    pub(crate) fn way_to(&self, view: &dyn View, export: &Export) -> Result<Option<Way>, FileError> {
        self.way_with_hint(view, export.root, &export.path)
    }

    /// Path of a directory, for messages; empty: it was removed.
    pub(crate) fn path_of_directory(&self, view: &dyn View, dir: InodeId) -> Result<String, FileError> {
        Ok(self.way_with_hint(view, dir, "")?.map_or_else(String::new, |way| path_of(&way)))
    }

    /// Current way to a directory, with its earlier path as a hint.
    fn way_with_hint(&self, view: &dyn View, dir: InodeId, path: &str) -> Result<Option<Way>, FileError> {
        let (mut dirs, mut at) = (Vec::new(), dir);
        while at != InodeId::ROOT {
            let Some(inode) = read::inode(view, at).map_err(store_failed)? else { return Ok(None) };
            let Kind::Directory(directory) = &inode.kind else { return Ok(None) };
            if dirs.len() == DEPTH_MAX {
                return Ok(None);
            }
            dirs.push((at, directory.parent));
            at = directory.parent;
        }
        dirs.reverse();
        let mut components = path.split('/').filter(|name| !name.is_empty());
        let mut way = Way::new();
        for (dir, parent) in dirs {
            let component = components.next().map(|name| name.as_bytes().to_vec());
            let Some(name) = self.name_of_directory(view, parent, dir, component)? else { return Ok(None) };
            way.push((dir, name));
        }
        Ok(Some(way))
    }

    /// Name of a directory. The last known name and the hint are tried first.
    fn name_of_directory(
        &self,
        view: &dyn View,
        parent: InodeId,
        dir: InodeId,
        exported: Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>, FileError> {
        for name in [exported, self.directory_names.get(dir)].into_iter().flatten() {
            if read::lookup(view, parent, &name).map_err(store_failed)? == Some(dir) {
                return Ok(Some(name));
            }
        }
        // After a rename: one scan of all names of the parent.
        let name = read::name_of(view, parent, dir).map_err(store_failed)?;
        if let Some(name) = &name {
            self.directory_names.put(dir, name.clone());
        }
        Ok(name)
    }
}

impl Metaserver {
    /// Returns the client's pseudo file system: the tree above its exports.
    pub(crate) fn pseudo_tree(
        &self,
        view: &dyn View,
        connection: &Connection,
    ) -> Result<PseudoTree, FileError> {
        let exports = self.admission.admitted_exports(connection);
        let mut ways = Vec::with_capacity(exports.len());
        for export in &exports {
            ways.extend(self.admission.way_to(view, export)?);
        }
        Ok(PseudoTree { ways })
    }

    /// Answers an operation whose current filehandle is a pseudo directory; returns all other operations.
    pub(crate) async fn in_pseudo_file_system(
        &self,
        context: &mut Context,
        op: ArgOp,
    ) -> ControlFlow<ResOp, ArgOp> {
        let is_pseudo = context.state.current.is_some_and(|current| current.via == Via::Pseudo);
        if !is_pseudo || is_for_everybody(&op) || has_no_filehandle(&op) {
            return ControlFlow::Continue(op);
        }
        ControlFlow::Break(match op {
            ArgOp::Lookup(args) => ResOp::Lookup(lookup(self, context, &args.objname)),
            ArgOp::LookupP => ResOp::LookupP(lookupp(self, context)),
            ArgOp::SecInfo(args) => match find(self, context, &args.name) {
                Ok(_) => ResOp::SecInfo(Ok(ops::secinfo::used_up(context))),
                Err(status) => ResOp::SecInfo(Err(status)),
            },
            // These use the inode from PseudoTree::directory.
            ArgOp::Access(_)
            | ArgOp::GetAttr(_)
            | ArgOp::ReadDir(_)
            | ArgOp::Verify(_)
            | ArgOp::NVerify(_)
            | ArgOp::SecInfoNoName(_) => return ControlFlow::Continue(op),
            other => {
                let status = refusal(&other);
                other.refused(status)
            }
        })
    }

    /// Entries of a pseudo directory after a cookie, each with the `Via` for its handle.
    pub(crate) fn pseudo_entries(
        &self,
        view: &dyn View,
        context: &Context,
        dir: InodeId,
        after_cookie: u64,
    ) -> Result<Vec<PseudoEntry>, Status> {
        let tree = self.pseudo_tree(view, &context.connection)?;
        let mut entries = Vec::new();
        for Child { inode, name, via } in tree.children(dir) {
            if inode.0 > after_cookie {
                let shown = self.machine.inode(view, inode).and_then(|real| match via {
                    Via::Export(_) => Ok(real),
                    Via::Pseudo => tree.directory(self, &real),
                });
                entries.push((Entry { cookie: inode.0, name, inode }, shown, via));
            }
        }
        Ok(entries)
    }
}

fn find(server: &Metaserver, context: &Context, name: &[u8]) -> Result<Child, Status> {
    let view = server.machine.view()?;
    let dir = server.current_dir(&*view, context)?;
    let name = names::checked(name)?;
    let tree = server.pseudo_tree(&*view, &context.connection)?;
    if let Some(child) = tree.children(dir.id).into_iter().find(|child| child.name == name) {
        return Ok(child);
    }
    // A name that exists, but not for this client, is logged.
    if read::lookup(&*view, dir.id, &name).map_err(store_failed)?.is_some() {
        let above = server.admission.path_of_directory(&*view, dir.id)?;
        let path = [above.trim_end_matches('/').as_bytes(), &name].join(&b'/');
        server.admission.note_refusal(&context.connection, Reason::Path, &path);
    }
    Err(Status::NoEnt)
}

fn lookup(server: &Metaserver, context: &mut Context, name: &[u8]) -> Result<(), Status> {
    let child = find(server, context, name)?;
    let inode = server.machine.inode(&*server.machine.view()?, child.inode)?;
    context.state.set_current(&inode, child.via);
    Ok(())
}

fn lookupp(server: &Metaserver, context: &mut Context) -> Result<(), Status> {
    let view = server.machine.view()?;
    let dir = server.current_dir(&*view, context)?;
    if dir.id == InodeId::ROOT {
        return Err(Status::NoEnt);
    }
    let parent = dir.directory().ok_or(Status::NotDir)?.parent;
    let parent = server.machine.inode(&*view, parent)?;
    context.state.set_current(&parent, Via::Pseudo);
    Ok(())
}

/// True for operations on sessions and clients, which use no current filehandle.
fn has_no_filehandle(op: &ArgOp) -> bool {
    matches!(
        op,
        ArgOp::ExchangeId(_)
            | ArgOp::CreateSession(_)
            | ArgOp::BindConnToSession(_)
            | ArgOp::BackchannelCtl(_)
            | ArgOp::GetDeviceInfo(_)
    )
}

/// Error of an operation that is not possible in a pseudo directory.
fn refusal(op: &ArgOp) -> Status {
    match op {
        ArgOp::Read(_) | ArgOp::ReadPlus(_) | ArgOp::Seek(_) | ArgOp::Commit(_) => Status::IsDir,
        ArgOp::Lock(_) | ArgOp::LockT(_) => Status::IsDir,
        ArgOp::ReadLink => Status::Inval,
        ArgOp::LayoutGet(_) => Status::LayoutUnavailable,
        ArgOp::GetXattr(_) | ArgOp::ListXattrs(_) | ArgOp::Unsupported(_) => Status::NotSupp,
        _ => Status::RoFs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(path: &str) -> Way {
        // The name of a directory is its number.
        path.split(' ').map(|name| (InodeId(name.parse().unwrap()), name.as_bytes().to_vec())).collect()
    }

    #[test]
    fn a_pseudo_directory_has_the_names_that_lead_to_exports() {
        let tree = PseudoTree {
            ways: vec![way("10 11 12"), way("10 14"), way("20"), way("20 21"), way("30 31 20")],
        };
        let children = |dir| {
            let all = tree.children(InodeId(dir)).into_iter();
            all.map(|child| (child.inode.0, child.via == Via::Pseudo)).collect::<Vec<_>>()
        };
        assert_eq!(children(2), [(10, true), (20, false), (30, true)], "the root");
        assert_eq!(children(10), [(11, true), (14, false)]);
        assert_eq!(children(11), [(12, false)]);
        assert_eq!(children(12), [], "an export is none");
        assert_eq!(children(20), [(21, false)], "what leads from an outer export to an inner one");
        assert_eq!(children(99), []);
    }

    #[test]
    fn names_are_remembered_within_bounds() {
        let names = DirectoryNames::default();
        for number in 0..2 * NAMES_MAX as u64 {
            names.put(InodeId(number), b"name".to_vec());
        }
        assert!(names.0.lock().len() <= NAMES_MAX);
        assert_eq!(names.get(InodeId(2 * NAMES_MAX as u64 - 1)), Some(b"name".to_vec()));
    }
}
