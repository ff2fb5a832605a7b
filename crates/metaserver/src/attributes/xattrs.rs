//! Extended attributes: their names, and the permissions to read and change them. The rules are those of
//! Linux's `user.` namespace (RFC 8276, section 6), because clients show them there.

use namespace::{Inode, Kind, XATTR_NAME_BYTES_MAX};

use crate::errors::FileError;
use crate::user::{Permission, User};

/// Returns the name, without `user.`, if it is valid.
///
/// # Errors
/// `Invalid` for an empty name or a name with NUL, which clients cannot express; `NameTooLong`.
pub(crate) fn checked_name(name: &[u8]) -> Result<Vec<u8>, FileError> {
    match name {
        [] => Err(FileError::Invalid),
        name if name.len() > XATTR_NAME_BYTES_MAX => Err(FileError::NameTooLong),
        name if name.contains(&0) => Err(FileError::Invalid),
        name => Ok(name.to_vec()),
    }
}

/// Checks that `user` may read and list extended attributes of `inode`: needs read permission.
///
/// # Errors
/// `Access`.
pub(crate) fn check_read(user: &User, inode: &Inode) -> Result<(), FileError> {
    user.check(inode, Permission::READ)
}

/// Checks that `user` may set and remove extended attributes: needs write permission. In a sticky directory,
/// writable for everyone, only the owner may.
///
/// # Errors
/// `ReadOnly` through a read-only export; `Access`; `Permission` for other users than the owner of a sticky
/// directory; `WrongType` for an inode that has no extended attributes.
pub(crate) fn check_write(user: &User, inode: &Inode) -> Result<(), FileError> {
    user.check_changes()?;
    match inode.kind {
        Kind::File(_) => {}
        Kind::Directory(_) if inode.mode & 0o1000 != 0 && !user.owns(inode) => {
            return Err(FileError::Permission);
        }
        Kind::Directory(_) => {}
        _ => return Err(FileError::WrongType),
    }
    user.check(inode, Permission::WRITE)
}

#[cfg(test)]
mod tests {
    use namespace::{DataPlace, DeviceId, Directory, File, FileLayout, InodeId, StripeUnit, Time};

    use super::*;

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

    #[test]
    fn an_extended_attribute_takes_the_permissions_of_its_files_data() {
        let layout = FileLayout { device: DeviceId(1), first: 0, unit: StripeUnit::DEFAULT, columns: 1 };
        let file = |mode| inode(Kind::File(File { layout, data: DataPlace::Striped }), mode);
        let parent = InodeId::ROOT;
        let dir = |mode| {
            inode(Kind::Directory(Directory { parent, entries: 0, next_cookie: 3, stripe: None }), mode)
        };
        let user = |uid| User { uid, gid: uid, gids: vec![], read_only: false, export: InodeId::ROOT };
        let (ok, access, perm) = (Ok(()), Err(FileError::Access), Err(FileError::Permission));
        for (uid, of, read, write) in [
            (7, file(0o600), ok, ok),
            (7, file(0o400), ok, access),
            (7, file(0o200), access, ok),
            (8, file(0o644), ok, access),
            (8, file(0o600), access, access),
            (0, file(0o000), ok, ok),
            (8, dir(0o777), ok, ok),
            (8, dir(0o1777), ok, perm),
            (7, dir(0o1777), ok, ok),
            (0, dir(0o1777), ok, ok),
            (0, inode(Kind::Fifo, 0o666), ok, Err(FileError::WrongType)),
        ] {
            let found = (check_read(&user(uid), &of), check_write(&user(uid), &of));
            assert_eq!(found, (read, write), "{uid} and {of:?}");
        }
        let reader = User { read_only: true, ..user(8) };
        assert_eq!(check_write(&reader, &dir(0o1777)), Err(FileError::ReadOnly));
    }

    #[test]
    fn a_name_is_checked() {
        let long = [b'n'; 256];
        for (name, expected) in [
            (&b""[..], Err(FileError::Invalid)),
            (b"a\0b", Err(FileError::Invalid)),
            (&long, Err(FileError::NameTooLong)),
            (&long[1..], Ok(())),
            (b"..", Ok(())),
            (b"user.a/b", Ok(())),
        ] {
            assert_eq!(checked_name(name).map(drop), expected, "{name:?}");
        }
    }
}
