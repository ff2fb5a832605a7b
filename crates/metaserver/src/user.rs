//! Users and their permissions: POSIX checks on mode bits.

use cluster::{ANONYMOUS_ID, Access, Rules, Squash};
use namespace::{Inode, InodeId, Kind};
use wire::rpc::Credential;

use crate::errors::FileError;

/// Identity of a caller, after squashing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    pub uid: u32,
    pub gid: u32,
    pub gids: Vec<u32>,
    /// True for calls through a read-only export: not even root may change anything.
    pub read_only: bool,
    /// Directory of the export of the call.
    pub export: InodeId,
}

/// Wanted permission: bits of one `rwx` triple.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Permission(u32);

impl Permission {
    pub const READ: Permission = Permission(4);
    pub const WRITE: Permission = Permission(2);
    pub const EXECUTE: Permission = Permission(1);
    pub const WRITE_AND_SEARCH: Permission = Permission(3);

    fn writes(self) -> bool {
        self.0 & Self::WRITE.0 != 0
    }
}

impl User {
    /// Returns the user of a credential, squashed by the rules of its export.
    pub(crate) fn new(credential: &Credential, rules: &Rules, export: InodeId) -> Self {
        let read_only = rules.access == Access::ReadOnly;
        let (uid, gid) = (rules.anonymous_uid, rules.anonymous_gid);
        let nobody = || Self { uid, gid, gids: vec![], read_only, export };
        let sys = match credential {
            Credential::Sys(sys) if rules.squash != Squash::All => sys,
            Credential::Sys(_) | Credential::None | Credential::Unknown(_) => return nobody(),
        };
        if rules.squash == Squash::None {
            return Self { uid: sys.uid, gid: sys.gid, gids: sys.gids.clone(), read_only, export };
        }
        if sys.uid == 0 {
            return nobody();
        }
        // Group 0 of other users is squashed, too: write access of root's group is as good as root's.
        let squashed = |gid: u32| if gid == 0 { rules.anonymous_gid } else { gid };
        let gids = sys.gids.iter().copied().map(squashed).collect();
        Self { uid: sys.uid, gid: squashed(sys.gid), gids, read_only, export }
    }

    /// User in the pseudo file system, the same for all callers.
    pub(crate) fn of_pseudo() -> Self {
        let (uid, gid) = (ANONYMOUS_ID, ANONYMOUS_ID);
        Self { uid, gid, gids: vec![], read_only: true, export: InodeId::ROOT }
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

    /// True if the mode bits of `inode` grant all of `wanted`.
    pub(crate) fn may(&self, inode: &Inode, wanted: Permission) -> bool {
        if self.read_only && wanted.writes() {
            return false;
        }
        if self.is_root() {
            // Root has all permissions, but executes only files with an execute bit.
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

    /// Checks that the export is not read-only.
    pub(crate) fn check_changes(&self) -> Result<(), FileError> {
        if self.read_only { Err(FileError::ReadOnly) } else { Ok(()) }
    }

    /// [`User::may`] as a result. The read-only check comes before the mode bits.
    pub(crate) fn check(&self, inode: &Inode, wanted: Permission) -> Result<(), FileError> {
        if wanted.writes() {
            self.check_changes()?;
        }
        if self.may(inode, wanted) { Ok(()) } else { Err(FileError::Access) }
    }

    /// Checks permission to read through NFS. Execute permission is enough, since a client reads a file to
    /// execute it. The owner may always read, since a file opened and then made unreadable must stay readable
    /// to its opener.
    pub(crate) fn check_read(&self, inode: &Inode) -> Result<(), FileError> {
        let readable = self.may(inode, Permission::READ) || self.may(inode, Permission::EXECUTE);
        if readable || self.owns(inode) { Ok(()) } else { Err(FileError::Access) }
    }

    /// Checks permission to write through NFS; the owner may always write, as in [`User::check_read`].
    pub(crate) fn check_write(&self, inode: &Inode) -> Result<(), FileError> {
        self.check_changes()?;
        if self.may(inode, Permission::WRITE) || self.owns(inode) { Ok(()) } else { Err(FileError::Access) }
    }

    /// Checks permission for COMMIT: on an export made read-only, earlier writes can still be made durable.
    pub(crate) fn check_commit(&self, inode: &Inode) -> Result<(), FileError> {
        if self.read_only { Ok(()) } else { self.check_write(inode) }
    }

    /// Checks permission to remove or rename a name of `victim` in `dir`: write permission, and with the
    /// sticky bit ownership.
    pub(crate) fn check_delete(&self, dir: &Inode, victim: &Inode) -> Result<(), FileError> {
        self.check(dir, Permission::WRITE_AND_SEARCH)?;
        if dir.mode & 0o1000 != 0 && !self.owns(dir) && !self.owns(victim) {
            return Err(FileError::Permission);
        }
        Ok(())
    }

    /// Checks permission to rename `moved` from one directory to another; it may replace an inode.
    pub(crate) fn check_rename(
        &self,
        (from, moved): (&Inode, &Inode),
        (to, replaced): (&Inode, Option<&Inode>),
    ) -> Result<(), FileError> {
        self.check_delete(from, moved)?;
        match replaced {
            Some(replaced) => self.check_delete(to, replaced)?,
            None => self.check(to, Permission::WRITE_AND_SEARCH)?,
        }
        // A directory that moves has its ".." changed, as in Linux.
        if moved.directory().is_some() && from.id != to.id {
            self.check(moved, Permission::WRITE)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use namespace::Time;

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
            space_used: 0,
            space_is_told: true,
            epoch: 0,
            layout_epoch: 0,
            accessed: t,
            modified: t,
            changed: t,
            created: t,
            change: 1,
            verifier: None,
        }
    }

    fn user(uid: u32, gid: u32, gids: &[u32]) -> User {
        User { uid, gid, gids: gids.to_vec(), read_only: false, export: InodeId::ROOT }
    }

    #[test]
    fn the_first_class_that_fits_decides() {
        let user7 = user(7, 70, &[71]);
        assert!(!user7.may(&inode(0o077, 7, 70), Permission::READ), "the owner's bits, though others may");
        assert!(user7.may(&inode(0o040, 8, 71), Permission::READ), "a supplementary group");
        assert!(!user7.may(&inode(0o404, 8, 70), Permission::READ), "the group's bits, though others may");
        assert!(user7.may(&inode(0o002, 8, 80), Permission::WRITE));
        let root = user(0, 0, &[]);
        assert!(!root.may(&inode(0, 7, 7), Permission::WRITE_AND_SEARCH), "nobody may execute it");
        assert!(root.may(&inode(0o100, 7, 7), Permission::WRITE_AND_SEARCH));
    }

    /// Linux: check_sticky, may_delete.
    #[test]
    fn in_a_sticky_directory_names_are_taken_by_owners_only() {
        let (own_dir, other_dir, victim) = (inode(0o1777, 7, 70), inode(0o1777, 9, 90), inode(0o777, 8, 80));
        let table = [
            (user(8, 1, &[]), &other_dir, Ok(())),
            (user(7, 1, &[]), &own_dir, Ok(())),
            (user(7, 1, &[]), &other_dir, Err(FileError::Permission)),
            (user(5, 80, &[90]), &other_dir, Err(FileError::Permission)),
            (user(0, 0, &[]), &other_dir, Ok(())),
        ];
        for (who, dir, expected) in table {
            assert_eq!(who.check_delete(dir, &victim), expected, "{who:?}");
        }
        let plain = inode(0o777, 9, 90);
        assert_eq!(user(5, 5, &[]).check_delete(&plain, &victim), Ok(()));
        let closed = inode(0o1755, 9, 90);
        assert_eq!(
            user(8, 80, &[]).check_delete(&closed, &victim),
            Err(FileError::Access),
            "before the sticky bit"
        );
    }

    /// Linux: nfsd_permission with NFSD_MAY_OWNER_OVERRIDE and NFSD_MAY_READ_IF_EXEC.
    #[test]
    fn an_owner_reads_and_writes_what_he_has_open_and_an_executable_is_read() {
        let (owner, other, root) = (user(7, 70, &[]), user(8, 80, &[]), user(0, 0, &[]));
        for (who, mode, read, write) in [
            (&owner, 0o000, true, true),
            (&other, 0o000, false, false),
            (&other, 0o001, true, false),
            (&other, 0o004, true, false),
            (&other, 0o002, false, true),
            (&other, 0o770, false, false),
            (&root, 0o000, true, true),
        ] {
            let file = inode(mode, 7, 70);
            assert_eq!(
                (who.check_read(&file).is_ok(), who.check_write(&file).is_ok()),
                (read, write),
                "{mode:o}"
            );
        }
    }

    #[test]
    fn squashing_takes_root_or_everybody_for_nobody() {
        use wire::rpc::AuthSys;
        let sys = |uid, gid, gids: &[u32]| {
            Credential::Sys(AuthSys { machine: bytes::Bytes::new(), uid, gid, gids: gids.to_vec() })
        };
        let table = [
            (Squash::None, sys(0, 0, &[0, 5]), user(0, 0, &[0, 5])),
            (Squash::None, sys(7, 70, &[0]), user(7, 70, &[0])),
            (Squash::None, Credential::None, user(99, 98, &[])),
            (Squash::Root, sys(0, 0, &[0, 5]), user(99, 98, &[])),
            (Squash::Root, sys(7, 70, &[71]), user(7, 70, &[71])),
            (Squash::Root, sys(7, 0, &[0, 71]), user(7, 98, &[98, 71])),
            (Squash::Root, Credential::None, user(99, 98, &[])),
            (Squash::All, sys(0, 0, &[]), user(99, 98, &[])),
            (Squash::All, sys(7, 70, &[71]), user(99, 98, &[])),
        ];
        for (squash, credential, expected) in table {
            let rules = Rules { squash, anonymous_uid: 99, anonymous_gid: 98, ..Rules::SAFE };
            assert_eq!(User::new(&credential, &rules, InodeId::ROOT), expected, "{squash:?} {credential:?}");
        }
    }

    #[test]
    fn nobody_changes_anything_over_a_read_only_export() {
        let root = User { read_only: true, ..user(0, 0, &[]) };
        let open = inode(0o777, 0, 0);
        assert!(root.may(&open, Permission::READ) && !root.may(&open, Permission::WRITE));
        assert_eq!(root.check(&open, Permission::EXECUTE), Ok(()));
        assert_eq!(root.check(&open, Permission::WRITE_AND_SEARCH), Err(FileError::ReadOnly));
        assert_eq!(root.check_write(&open), Err(FileError::ReadOnly));
        assert_eq!(root.check_delete(&open, &open), Err(FileError::ReadOnly));
        assert_eq!((root.check_read(&open), root.check_commit(&open)), (Ok(()), Ok(())));
        let other = User { read_only: true, ..user(8, 80, &[]) };
        assert_eq!(
            other.check(&inode(0o700, 7, 70), Permission::WRITE),
            Err(FileError::ReadOnly),
            "not Access"
        );
    }
}
