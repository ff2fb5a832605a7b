//! CREATE, MKDIR, SYMLINK, MKNOD, and the creation by OPEN.

use super::entry;
use crate::plan::{Plan, Stop};
use crate::{
    Change, Create, DataPlace, Directory, Error, Exists, FIRST_COOKIE, File, Inode, InodeId, Kind, MODE_BITS,
    NewAttributes, NewNode, Reply, volume,
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
pub(crate) fn make(plan: &mut Plan<'_>, dir: Inode, create: &Create) -> Result<(Inode, Change), Stop> {
    if dir.id.is_read_only() {
        return Err(Error::ReadOnly.into());
    }
    let id = volume::new_inode(plan, dir.id.volume())?;
    let kind = match &create.node {
        NewNode::File(layout) => Kind::File(File { layout: *layout, data: DataPlace::Inline }),
        NewNode::Directory => {
            Kind::Directory(Directory { parent: dir.id, entries: 0, next_cookie: FIRST_COOKIE, stripe: None })
        }
        NewNode::Symlink(target) => Kind::Symlink(target.clone()),
        NewNode::Fifo => Kind::Fifo,
        NewNode::Socket => Kind::Socket,
        NewNode::CharacterDevice(major, minor) => Kind::CharacterDevice(*major, *minor),
        NewNode::BlockDevice(major, minor) => Kind::BlockDevice(*major, *minor),
    };
    let verifier = match create.exists {
        Exists::Verify(verifier) => Some(verifier),
        Exists::Take | Exists::Refuse => None,
    };
    let inode = Inode { verifier, ..new(plan, id, kind, &create.attributes) };
    put(plan, dir, &create.name, inode)
}

/// New inode without an entry.
pub(crate) fn new(plan: &Plan<'_>, id: InodeId, kind: Kind, attributes: &NewAttributes) -> Inode {
    let (links, size, epoch) = match &kind {
        Kind::Directory(_) => (2, 0, 0),
        Kind::File(_) => (1, 0, FIRST_EPOCH),
        Kind::Symlink(target) => (1, target.len() as u64, 0),
        Kind::Fifo | Kind::Socket | Kind::CharacterDevice(..) | Kind::BlockDevice(..) => (1, 0, 0),
    };
    Inode {
        id,
        generation: plan.generation(),
        kind,
        mode: attributes.mode & MODE_BITS,
        uid: attributes.uid,
        gid: attributes.gid,
        links,
        size,
        written: 0,
        space_used: 0,
        space_is_told: true,
        epoch,
        layout_epoch: 0,
        accessed: attributes.accessed.unwrap_or(plan.now()),
        modified: attributes.modified.unwrap_or(plan.now()),
        changed: plan.now(),
        created: plan.now(),
        change: 1,
        verifier: None,
    }
}

/// Puts a new inode, and its entry in `dir`.
pub(crate) fn put(
    plan: &mut Plan<'_>,
    mut dir: Inode,
    name: &[u8],
    inode: Inode,
) -> Result<(Inode, Change), Stop> {
    plan.put_inode(&inode)?;
    entry::add(plan, &mut dir, name, inode.id)?;
    if inode.directory().is_some() {
        dir.links += 1; // its `..`
    }
    let change = dir.data_changed(plan.now());
    plan.put_inode(&dir)?;
    Ok((inode, change))
}
