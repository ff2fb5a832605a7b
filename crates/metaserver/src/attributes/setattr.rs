//! Rules for setting attributes, and their side effects: POSIX rules as in Linux, for NFSv3 and NFSv4.

use namespace::{Inode, NewAttributes, SetAttributes, Time};

use crate::errors::FileError;
use crate::user::{Permission, User};

const MODE_BITS: u32 = 0o7777;
const SET_UID: u32 = 0o4000;
const SET_GID: u32 = 0o2000;
const GROUP_EXECUTE: u32 = 0o0010;

/// Checks that `user` may set `set`. Returns the attributes to set, with set-id bits cleared as POSIX
/// requires.
///
/// `times_to_now`: true for `accessed` and `modified` if the client asked for the server's time. This needs
/// only write permission; for any other time the user must be the owner.
///
/// # Errors
/// `ReadOnly` through a read-only export, `Permission` where only the owner or root may do it, `Access` if
/// the mode bits refuse, `IsDirectory` or `Invalid` for the size of an inode that is not a regular file.
pub(crate) fn check(
    user: &User,
    inode: &Inode,
    mut set: SetAttributes,
    times_to_now: (bool, bool),
) -> Result<SetAttributes, FileError> {
    user.check_changes()?;
    if set.size.is_some() {
        if inode.layout().is_none() {
            return Err(if inode.directory().is_some() {
                FileError::IsDirectory
            } else {
                FileError::Invalid
            });
        }
        user.check_write(inode)?;
    }
    let owns = user.owns(inode);
    if set.mode.is_some() && !owns {
        return Err(FileError::Permission);
    }
    if set.uid.is_some_and(|uid| !(user.is_root() || owns && uid == inode.uid)) {
        return Err(FileError::Permission);
    }
    if set.gid.is_some_and(|gid| !(user.is_root() || owns && (gid == inode.gid || user.in_group(gid)))) {
        return Err(FileError::Permission);
    }
    let given = (set.accessed.is_some() && !times_to_now.0) || (set.modified.is_some() && !times_to_now.1);
    if given && !owns {
        return Err(FileError::Permission);
    }
    // With a size, the check above has checked write permission.
    let touched = set.accessed.is_some() || set.modified.is_some();
    if touched && !owns && set.size.is_none() {
        user.check(inode, Permission::WRITE)?;
    }
    set.mode = mode_to_set(user, inode, &set);
    Ok(set)
}

fn mode_to_set(user: &User, inode: &Inode, set: &SetAttributes) -> Option<u32> {
    let gid = set.gid.unwrap_or(inode.gid);
    let chowned = inode.directory().is_none() && (set.uid.is_some() || set.gid.is_some());
    if let Some(mode) = set.mode {
        let mut mode = mode & MODE_BITS;
        if !user.is_root() && !user.in_group(gid) {
            mode &= !SET_GID;
        }
        if chowned {
            mode &= !SET_UID;
            if mode & GROUP_EXECUTE != 0 {
                mode &= !SET_GID;
            }
        }
        return Some(mode);
    }
    let truncation = set.size.is_some() && !user.is_root();
    let mode = without_set_id(user, inode.mode, inode.gid);
    // A remaining set-id bit must be in the command: the state machine clears both with a new owner or group.
    let has_set_id = inode.mode & (SET_UID | SET_GID) != 0;
    ((chowned && has_set_id) || (truncation && mode != inode.mode)).then_some(mode)
}

/// Mode without set-id bits. Set-group-id without group execution is no privilege (it once meant mandatory
/// locking), and stays for members of the group.
fn without_set_id(user: &User, mode: u32, gid: u32) -> u32 {
    let keeps_gid = mode & GROUP_EXECUTE == 0 && (user.is_root() || user.in_group(gid));
    mode & !(if keeps_gid { SET_UID } else { SET_UID | SET_GID })
}

/// Attributes to change after a write by `user`, beside size and times: a program that another user wrote to
/// must not run with its owner's rights.
pub(crate) fn after_write(user: &User, inode: &Inode) -> Option<SetAttributes> {
    if user.is_root() {
        return None;
    }
    let mode = without_set_id(user, inode.mode, inode.gid);
    (mode != inode.mode).then(|| SetAttributes { mode: Some(mode), ..SetAttributes::default() })
}

/// Attributes of a new inode of `user` in `dir`. A set-gid directory passes its group to new inodes, and the
/// bit to new directories.
pub(crate) fn new_attributes(
    user: &User,
    dir: &Inode,
    mode: u32,
    is_dir: bool,
    accessed: Option<Time>,
    modified: Option<Time>,
) -> NewAttributes {
    let mut mode = mode & MODE_BITS;
    let gid = if dir.mode & SET_GID == 0 {
        user.gid
    } else {
        if is_dir {
            mode |= SET_GID;
        } else if mode & GROUP_EXECUTE != 0 && !user.is_root() && !user.in_group(dir.gid) {
            mode &= !SET_GID;
        }
        dir.gid
    };
    NewAttributes { mode, uid: user.uid, gid, accessed, modified }
}

/// Attributes of a new inode with another owner or group: root may choose any, other users their own groups.
///
/// # Errors
/// `Permission` if chown(2) or chgrp(2) would be refused.
pub(crate) fn given_to(
    user: &User,
    mut new: NewAttributes,
    uid: Option<u32>,
    gid: Option<u32>,
) -> Result<NewAttributes, FileError> {
    let (uid, gid) = (uid.unwrap_or(new.uid), gid.unwrap_or(new.gid));
    let may = user.is_root() || uid == new.uid && (gid == new.gid || user.in_group(gid));
    (new.uid, new.gid) = (uid, gid);
    if may { Ok(new) } else { Err(FileError::Permission) }
}

#[cfg(test)]
mod tests {
    use namespace::{DataPlace, DeviceId, Directory, File, FileLayout, InodeId, Kind, StripeUnit};

    use super::*;

    const NOW: Option<Time> = Some(Time { seconds: 1_000, nanoseconds: 0 });

    fn inode(kind: Kind, mode: u32) -> Inode {
        let t = Time::default();
        Inode {
            id: InodeId(9),
            generation: 1,
            kind,
            mode,
            uid: 7,
            gid: 70,
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

    fn file(mode: u32) -> Inode {
        let layout = FileLayout { device: DeviceId(1), first: 0, unit: StripeUnit::DEFAULT, columns: 1 };
        inode(Kind::File(File { layout, data: DataPlace::Striped }), mode)
    }

    fn directory(mode: u32) -> Inode {
        let parent = InodeId::ROOT;
        inode(Kind::Directory(Directory { parent, entries: 0, next_cookie: 3, stripe: None }), mode)
    }

    fn user(uid: u32, gid: u32, gids: &[u32]) -> User {
        User { uid, gid, gids: gids.to_vec(), read_only: false, export: InodeId::ROOT }
    }

    fn set(change: impl FnOnce(&mut SetAttributes)) -> SetAttributes {
        let mut set = SetAttributes::default();
        change(&mut set);
        set
    }

    fn mode_after(user: &User, inode: &Inode, set: SetAttributes) -> Result<Option<u32>, FileError> {
        check(user, inode, set, (false, false)).map(|set| set.mode)
    }

    #[test]
    fn only_the_owner_and_root_change_the_mode() {
        let chmod = set(|s| s.mode = Some(0o10_0600));
        for (who, expected) in [
            (user(7, 70, &[]), Ok(Some(0o600))),
            (user(0, 0, &[]), Ok(Some(0o600))),
            (user(8, 70, &[]), Err(FileError::Permission)),
        ] {
            assert_eq!(mode_after(&who, &file(0o777), chmod), expected, "{who:?}");
        }
    }

    #[test]
    fn set_gid_is_only_for_those_in_the_group() {
        let chmod = set(|s| s.mode = Some(0o2755));
        assert_eq!(mode_after(&user(7, 1, &[]), &file(0o755), chmod), Ok(Some(0o755)));
        assert_eq!(mode_after(&user(7, 1, &[]), &directory(0o755), chmod), Ok(Some(0o755)));
        assert_eq!(mode_after(&user(7, 1, &[70]), &file(0o755), chmod), Ok(Some(0o2755)));
        assert_eq!(mode_after(&user(0, 0, &[]), &file(0o755), chmod), Ok(Some(0o2755)));
    }

    #[test]
    fn an_owner_gives_a_file_to_his_groups_only_and_to_nobody_else() {
        let (owner, other, root) = (user(7, 70, &[71]), user(8, 80, &[]), user(0, 0, &[]));
        let (uid, gid) = (|uid| set(|s| s.uid = Some(uid)), |gid| set(|s| s.gid = Some(gid)));
        assert_eq!(mode_after(&owner, &file(0o644), gid(71)), Ok(None));
        assert_eq!(mode_after(&owner, &file(0o644), uid(7)), Ok(None));
        assert_eq!(mode_after(&owner, &file(0o644), gid(80)), Err(FileError::Permission));
        assert_eq!(mode_after(&owner, &file(0o644), uid(8)), Err(FileError::Permission));
        assert_eq!(mode_after(&other, &file(0o666), gid(80)), Err(FileError::Permission));
        assert_eq!(mode_after(&root, &file(0o644), uid(8)), Ok(None));
    }

    #[test]
    fn a_new_owner_or_group_loses_the_set_id_bits() {
        let (root, owner) = (user(0, 0, &[]), user(7, 70, &[71]));
        let chown = set(|s| (s.uid, s.gid) = (Some(8), Some(80)));
        assert_eq!(mode_after(&root, &file(0o6755), chown), Ok(Some(0o755)));
        assert_eq!(mode_after(&root, &file(0o6745), chown), Ok(Some(0o2745)), "no group execution");
        assert_eq!(mode_after(&root, &directory(0o2755), chown), Ok(None));
        let both = SetAttributes { mode: Some(0o6755), ..chown };
        assert_eq!(mode_after(&root, &file(0o755), both), Ok(Some(0o755)));
        assert_eq!(mode_after(&owner, &file(0o6755), set(|s| s.gid = Some(71))), Ok(Some(0o755)));
    }

    #[test]
    fn a_size_takes_write_permission_and_a_file() {
        let truncation = set(|s| s.size = Some(0));
        let (owner, other) = (user(7, 70, &[]), user(8, 80, &[]));
        assert_eq!(mode_after(&owner, &file(0o444), truncation), Ok(None), "the owner has it open, perhaps");
        assert_eq!(mode_after(&other, &file(0o664), truncation), Err(FileError::Access));
        assert_eq!(mode_after(&other, &file(0o6777), truncation), Ok(Some(0o777)));
        assert_eq!(mode_after(&user(0, 0, &[]), &file(0o6777), truncation), Ok(None));
        assert_eq!(mode_after(&owner, &directory(0o777), truncation), Err(FileError::IsDirectory));
        assert_eq!(mode_after(&owner, &inode(Kind::Fifo, 0o777), truncation), Err(FileError::Invalid));
    }

    #[test]
    fn touching_takes_write_permission_and_setting_times_the_owner() {
        let times = set(|s| (s.accessed, s.modified) = (NOW, NOW));
        let (owner, other) = (user(7, 70, &[]), user(8, 80, &[]));
        let status = |who, mode, to_now| check(who, &file(mode), times, to_now).err();
        assert_eq!(status(&owner, 0o000, (false, false)), None);
        assert_eq!(status(&other, 0o666, (false, false)), Some(FileError::Permission));
        assert_eq!(status(&other, 0o666, (true, false)), Some(FileError::Permission));
        assert_eq!(status(&other, 0o666, (true, true)), None);
        assert_eq!(status(&other, 0o644, (true, true)), Some(FileError::Access));
        assert_eq!(status(&owner, 0o444, (true, true)), None);
    }

    #[test]
    fn a_write_by_anyone_but_root_drops_set_id() {
        let mode = |who: User, mode| after_write(&who, &file(mode)).map(|s| s.mode);
        assert_eq!(mode(user(8, 80, &[]), 0o4777), Some(Some(0o777)));
        assert_eq!(mode(user(7, 70, &[]), 0o6777), Some(Some(0o777)));
        assert_eq!(mode(user(7, 70, &[]), 0o2767), None, "set-gid without group execution");
        assert_eq!(mode(user(0, 0, &[]), 0o6777), None);
        assert_eq!(mode(user(8, 80, &[]), 0o777), None);
    }

    #[test]
    fn a_set_gid_directory_gives_on_its_group() {
        let who = user(8, 80, &[]);
        let new = |dir: &Inode, mode, is_dir| {
            let new = new_attributes(&who, dir, mode, is_dir, None, NOW);
            assert_eq!((new.uid, new.accessed, new.modified), (8, None, NOW));
            (new.mode, new.gid)
        };
        assert_eq!(new(&directory(0o755), 0o644, false), (0o644, 80));
        assert_eq!(new(&directory(0o2755), 0o644, false), (0o644, 70));
        assert_eq!(new(&directory(0o2755), 0o755, true), (0o2755, 70));
        assert_eq!(new(&directory(0o2755), 0o2755, false), (0o755, 70), "not in the group");
    }

    #[test]
    fn what_is_made_can_be_given_to_the_makers_groups_and_by_root_to_anybody() {
        let (who, root) = (user(8, 80, &[81]), user(0, 0, &[]));
        let made = |who: &User, uid, gid| {
            let new = new_attributes(who, &directory(0o755), 0o644, false, None, None);
            given_to(who, new, uid, gid).map(|new| (new.uid, new.gid))
        };
        assert_eq!(made(&who, None, None), Ok((8, 80)));
        assert_eq!(made(&who, Some(8), Some(81)), Ok((8, 81)));
        assert_eq!(made(&who, Some(9), None), Err(FileError::Permission));
        assert_eq!(made(&who, None, Some(90)), Err(FileError::Permission));
        assert_eq!(made(&root, Some(9), Some(90)), Ok((9, 90)));
    }
}
