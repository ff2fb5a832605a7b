//! Who calls, and what that user may do: POSIX permission checks on mode bits.

use namespace::{Inode, Kind};
use wire::nfs4::Status;
use wire::rpc::Credential;

/// The user and group that squashed and unauthenticated calls become.
const NOBODY: u32 = 65534;

/// A caller's identity after squashing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    pub uid: u32,
    pub gid: u32,
    pub gids: Vec<u32>,
}

/// What is asked for: the bits of one `rwx` triple.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Permission(u32);

impl Permission {
    pub const READ: Permission = Permission(4);
    pub const WRITE: Permission = Permission(2);
    pub const EXECUTE: Permission = Permission(1);
    pub const WRITE_AND_SEARCH: Permission = Permission(3);
}

impl User {
    pub(crate) fn new(credential: &Credential, squash_root: bool) -> Self {
        match credential {
            Credential::Sys(sys) if sys.uid == 0 && squash_root => Self::nobody(),
            Credential::Sys(sys) => {
                // Group 0 is squashed with its user only: a user of group 0 keeps what the client says.
                Self { uid: sys.uid, gid: sys.gid, gids: sys.gids.clone() }
            }
            Credential::None | Credential::Unknown(_) => Self::nobody(),
        }
    }

    fn nobody() -> Self {
        Self { uid: NOBODY, gid: NOBODY, gids: vec![] }
    }

    pub(crate) fn is_root(&self) -> bool {
        self.uid == 0
    }

    pub(crate) fn owns(&self, inode: &Inode) -> bool {
        self.is_root() || self.uid == inode.uid
    }

    pub(crate) fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.gids.contains(&gid)
    }

    /// Whether the mode bits of `inode` grant all of `wanted`.
    pub(crate) fn may(&self, inode: &Inode, wanted: Permission) -> bool {
        if self.is_root() {
            // Root passes everywhere, but executes only what someone may execute.
            let executable = matches!(inode.kind, Kind::Directory(_)) || inode.mode & 0o111 != 0;
            return wanted.0 & Permission::EXECUTE.0 == 0 || executable;
        }
        let shift = if self.uid == inode.uid {
            6
        } else if self.in_group(inode.gid) {
            3
        } else {
            0
        };
        (inode.mode >> shift) & wanted.0 == wanted.0
    }

    /// [`User::may`] as a result.
    pub(crate) fn check(&self, inode: &Inode, wanted: Permission) -> Result<(), Status> {
        if self.may(inode, wanted) { Ok(()) } else { Err(Status::Access) }
    }

    /// Reading through NFS: whoever may execute a file may also read it, since a client reads it to execute it; and
    /// the owner may always, since a file opened and then made unreadable must stay readable to its opener.
    pub(crate) fn check_read(&self, inode: &Inode) -> Result<(), Status> {
        let readable = self.may(inode, Permission::READ) || self.may(inode, Permission::EXECUTE);
        if readable || self.owns(inode) { Ok(()) } else { Err(Status::Access) }
    }

    /// Writing through NFS; the owner may always, as in [`User::check_read`].
    pub(crate) fn check_write(&self, inode: &Inode) -> Result<(), Status> {
        if self.may(inode, Permission::WRITE) || self.owns(inode) { Ok(()) } else { Err(Status::Access) }
    }

    /// Removing or renaming a name of `victim` in `dir`: write permission, and with the sticky bit ownership.
    pub(crate) fn check_delete(&self, dir: &Inode, victim: &Inode) -> Result<(), Status> {
        self.check(dir, Permission::WRITE_AND_SEARCH)?;
        if dir.mode & 0o1000 != 0 && !self.owns(dir) && !self.owns(victim) {
            return Err(Status::Perm);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use namespace::{InodeId, Time};

    use super::*;

    fn inode(mode: u32, uid: u32, gid: u32) -> Inode {
        let t = Time::default();
        Inode {
            id: InodeId(9),
            generation: 1,
            kind: Kind::Fifo,
            mode,
            uid,
            gid,
            links: 1,
            size: 0,
            written: 0,
            cuts: 0,
            accessed: t,
            modified: t,
            changed: t,
            created: t,
            change: 1,
            verifier: None,
        }
    }

    #[test]
    fn the_first_class_that_fits_decides() {
        let user = User { uid: 7, gid: 70, gids: vec![71] };
        assert!(!user.may(&inode(0o077, 7, 70), Permission::READ), "the owner's bits, though others may");
        assert!(user.may(&inode(0o040, 8, 71), Permission::READ), "a supplementary group");
        assert!(!user.may(&inode(0o404, 8, 70), Permission::READ), "the group's bits, though others may");
        assert!(user.may(&inode(0o002, 8, 80), Permission::WRITE));
        let root = User { uid: 0, gid: 0, gids: vec![] };
        assert!(!root.may(&inode(0, 7, 7), Permission::WRITE_AND_SEARCH), "nobody may execute it");
        assert!(root.may(&inode(0o100, 7, 7), Permission::WRITE_AND_SEARCH));
    }
}
