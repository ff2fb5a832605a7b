//! Private files and directories, readable only by the user of the servers: modes 0600 and 0700, for any
//! umask and for any mode that an earlier version set.
//!
//! A tree is closed from its top: a directory is closed before its files, so that no other user can replace a
//! name by a link meanwhile. Links are not followed.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Mode of a private directory.
pub const DIR_MODE: u32 = 0o700;
/// Mode of a private file.
pub const FILE_MODE: u32 = 0o600;
/// Mode of a directory that members of one group may pass through, but not list.
pub const PASSAGE_MODE: u32 = 0o710;

/// Makes the directory and its missing parents, and closes the directory to other users.
///
/// # Errors
/// The error of the system; so everywhere here. A directory of another user cannot be closed.
pub fn make_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIR_MODE).create(dir)?;
    close_dir(dir)
}

/// Closes a directory to other users. A directory that a group may pass through stays so: see
/// [`let_group_pass`].
///
/// # Errors
/// As above.
pub fn close_dir(dir: &Path) -> io::Result<()> {
    let mode = std::fs::metadata(dir)?.mode() & 0o7777;
    if mode & !PASSAGE_MODE == 0 { Ok(()) } else { set(dir, DIR_MODE) }
}

/// Lets members of `group` pass through a directory to a known name in it; `None`: no group.
///
/// # Errors
/// As above. Only root can give a directory to a group that it is not a member of.
pub fn let_group_pass(dir: &Path, group: Option<u32>) -> io::Result<()> {
    let now = std::fs::metadata(dir)?;
    let mode = if group.is_some() { PASSAGE_MODE } else { DIR_MODE };
    if group.is_some_and(|group| group != now.gid()) {
        // First without a group, so that members of the earlier group do not get access.
        set(dir, DIR_MODE)?;
        std::os::unix::fs::chown(dir, None, group)?;
        return set(dir, mode);
    }
    if now.mode() & 0o7777 == mode { Ok(()) } else { set(dir, mode) }
}

/// Creates or truncates a file that only its owner may read and write.
///
/// # Errors
/// As above.
pub fn create(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).open(path)?;
    // An existing file may have another mode.
    file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    Ok(file)
}

/// Closes a file to other users.
///
/// # Errors
/// As above.
pub fn close_file(path: &Path) -> io::Result<()> {
    close(path, &std::fs::metadata(path)?)
}

/// Closes a directory and its files, but not the files of directories below it.
///
/// # Errors
/// As above.
pub fn close_files(dir: &Path) -> io::Result<()> {
    close_dir(dir)?;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            close_entry(&entry)?;
        }
    }
    Ok(())
}

/// Closes a directory and everything below it.
///
/// # Errors
/// As above.
pub fn close_tree(dir: &Path) -> io::Result<()> {
    close_files(dir)?;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            close_tree(&entry.path())?;
        }
    }
    Ok(())
}

/// As [`close_tree`], for a directory of directories with millions of files, which are checked once and not
/// at each start: a directory gets its mode after its files, so that its mode proves their check.
///
/// # Errors
/// As above.
pub fn close_large_tree(dir: &Path) -> io::Result<()> {
    close_dir(dir)?;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() || entry.metadata()?.mode() & 0o7777 == DIR_MODE {
            continue;
        }
        for file in std::fs::read_dir(entry.path())? {
            let file = file?;
            if file.file_type()?.is_file() {
                close_entry(&file)?;
            }
        }
        set(&entry.path(), DIR_MODE)?;
    }
    Ok(())
}

/// Closes an entry. A file that was removed meanwhile needs nothing.
fn close_entry(entry: &std::fs::DirEntry) -> io::Result<()> {
    match entry.metadata().and_then(|metadata| close(&entry.path(), &metadata)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        closed => closed,
    }
}

fn close(path: &Path, metadata: &Metadata) -> io::Result<()> {
    if metadata.mode() & 0o077 == 0 { Ok(()) } else { set(path, FILE_MODE) }
}

fn set(path: &Path, mode: u32) -> io::Result<()> {
    std::fs::set_permissions(path, Permissions::from_mode(mode))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        path.symlink_metadata().unwrap().mode() & 0o7777
    }

    #[test]
    fn what_an_older_version_left_open_is_closed() {
        let lab = tempfile::tempdir().unwrap();
        let at = |name: &str| lab.path().join(name);
        for dir in ["a", "a/log", "objects", "objects/00", "objects/ff"] {
            std::fs::create_dir(at(dir)).unwrap();
            set(&at(dir), 0o755).unwrap();
        }
        for file in ["a/secret", "a/log/1", "objects/00/1", "objects/ff/2", "outside"] {
            std::fs::write(at(file), "x").unwrap();
            set(&at(file), 0o644).unwrap();
        }
        std::os::unix::fs::symlink(at("outside"), at("a/link")).unwrap();
        close_files(&at("a")).unwrap();
        assert_eq!([mode(&at("a")), mode(&at("a/secret"))], [0o700, 0o600]);
        assert_eq!([mode(&at("a/log")), mode(&at("a/log/1"))], [0o755, 0o644], "not below");
        close_tree(&at("a")).unwrap();
        assert_eq!([mode(&at("a/log")), mode(&at("a/log/1"))], [0o700, 0o600]);
        assert_eq!(mode(&at("outside")), 0o644, "a link is not followed");

        close_large_tree(&at("objects")).unwrap();
        for dir in ["objects", "objects/00", "objects/ff"] {
            assert_eq!(mode(&at(dir)), 0o700, "{dir}");
        }
        assert_eq!([mode(&at("objects/00/1")), mode(&at("objects/ff/2"))], [0o600, 0o600]);
        // The directory was checked before: its files are not checked again.
        set(&at("objects/00/1"), 0o644).unwrap();
        close_large_tree(&at("objects")).unwrap();
        assert_eq!(mode(&at("objects/00/1")), 0o644);
    }

    #[test]
    fn what_is_made_is_closed_and_a_group_passes_where_it_is_let() {
        let lab = tempfile::tempdir().unwrap();
        let (dir, file) = (lab.path().join("a/b"), lab.path().join("f"));
        make_dir(&dir).unwrap();
        assert_eq!([mode(&lab.path().join("a")) & 0o077, mode(&dir)], [0, 0o700]);
        let own = std::fs::metadata(&dir).unwrap().gid();
        let_group_pass(&dir, Some(own)).unwrap();
        make_dir(&dir).unwrap();
        assert_eq!(mode(&dir), 0o710, "it stays");
        let_group_pass(&dir, None).unwrap();
        assert_eq!(mode(&dir), 0o700);
        std::fs::write(&file, "x").unwrap();
        set(&file, 0o666).unwrap();
        drop(create(&file).unwrap());
        assert_eq!(mode(&file), 0o600);
    }
}
