//! CREATE, MKDIR, SYMLINK, MKNOD, and the creation by OPEN.

use super::entry;
use crate::plan::{Plan, Stop};
use crate::{
    Change, Create, DataPlace, Directory, Error, Exists, FIRST_COOKIE, File, Inode, InodeId, Kind, MODE_BITS,
    NewNode, Reply,
};

/// Object epoch of a new file. The marks of its objects have it, and no mark means epoch 0.
const FIRST_EPOCH: u32 = 1;

/// Result of the look-up of the name for a create.
pub(crate) enum Found {
    /// The name is free: the inode may be made in this directory.
    Free { dir: Inode },
    /// The name has an inode that the create accepts. `made_by_it`: an earlier try of the same exclusive
    /// create made it.
    Taken { inode: Inode, dir: Change, made_by_it: bool },
}

/// CREATE, MKDIR, SYMLINK, MKNOD: makes an inode, or accepts the existing one.
pub(crate) fn create(plan: &mut Plan<'_>, create: &Create) -> Result<Reply, Stop> {
    match find(plan, create)? {
        Found::Free { dir } => {
            let (inode, dir) = make(plan, dir, create)?;
            Ok(Reply::Created { inode, existed: false, dir })
        }
        Found::Taken { inode, dir, made_by_it } => {
            if inode.layout().is_none() || !matches!(create.node, NewNode::File(_)) {
                return Err(Error::Exists.into());
            }
            Ok(Reply::Created { inode, existed: !made_by_it, dir })
        }
    }
}

/// Looks up the name; may refuse the create. The caller checks the type of an existing inode.
pub(crate) fn find(plan: &Plan<'_>, create: &Create) -> Result<Found, Stop> {
    if matches!(create.node, NewNode::File(layout) if layout.columns == 0) {
        return Err(Error::Invalid.into());
    }
    let dir = plan.directory(create.dir)?;
    let Some(name) = entry::find(plan, create.dir, &create.name)? else { return Ok(Found::Free { dir }) };
    let inode = plan.inode(name.inode)?;
    let made_by_it = match create.exists {
        Exists::Take => false,
        Exists::Verify(verifier) if inode.verifier == Some(verifier) => true,
        Exists::Refuse | Exists::Verify(_) => return Err(Error::Exists.into()),
    };
    Ok(Found::Taken { inode, dir: dir.unchanged(), made_by_it })
}

/// Makes the inode and its entry.
pub(crate) fn make(plan: &mut Plan<'_>, mut dir: Inode, create: &Create) -> Result<(Inode, Change), Stop> {
    let id = plan.count(|counters| {
        counters.inodes += 1;
        let id = InodeId(counters.next_inode);
        counters.next_inode += 1;
        id
    })?;
    let (kind, size) = match &create.node {
        NewNode::File(layout) => (Kind::File(File { layout: *layout, data: DataPlace::Inline }), 0),
        NewNode::Directory => (
            Kind::Directory(Directory {
                parent: dir.id,
                entries: 0,
                next_cookie: FIRST_COOKIE,
                stripe: None,
            }),
            0,
        ),
        NewNode::Symlink(target) => (Kind::Symlink(target.clone()), target.len() as u64),
        NewNode::Fifo => (Kind::Fifo, 0),
        NewNode::Socket => (Kind::Socket, 0),
        NewNode::CharacterDevice(major, minor) => (Kind::CharacterDevice(*major, *minor), 0),
        NewNode::BlockDevice(major, minor) => (Kind::BlockDevice(*major, *minor), 0),
    };
    let (is_directory, is_file) = (matches!(kind, Kind::Directory(_)), matches!(kind, Kind::File(_)));
    let attributes = &create.attributes;
    let inode = Inode {
        id,
        generation: plan.generation(),
        kind,
        mode: attributes.mode & MODE_BITS,
        uid: attributes.uid,
        gid: attributes.gid,
        links: if is_directory { 2 } else { 1 },
        size,
        written: 0,
        space_used: 0,
        space_is_told: true,
        epoch: if is_file { FIRST_EPOCH } else { 0 },
        layout_epoch: 0,
        accessed: attributes.accessed.unwrap_or(plan.now()),
        modified: attributes.modified.unwrap_or(plan.now()),
        changed: plan.now(),
        created: plan.now(),
        change: 1,
        verifier: match create.exists {
            Exists::Verify(verifier) => Some(verifier),
            Exists::Take | Exists::Refuse => None,
        },
    };
    plan.put_inode(&inode)?;
    entry::add(plan, &mut dir, &create.name, id)?;
    if is_directory {
        dir.links += 1; // its `..`
    }
    let change = dir.data_changed(plan.now());
    plan.put_inode(&dir)?;
    Ok((inode, change))
}
