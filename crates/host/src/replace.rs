//! Atomic replacement of a file: after a crash there is either the whole old file or the whole new file.
//!
//! ```text
//! write FILE.new ─▶ sync it ─▶ rename it to FILE ─▶ sync the directory ─▶ return
//! ```

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use crate::files::{Files, Opened};

/// Replaces the file at `path` by one with these bytes, durably. The temporary file is `path` with the suffix
/// `.new`, which only its owner may read and write.
///
/// # Errors
/// The error of the system; the old file is there then, or the new one if the directory could not be synced.
pub fn replace(files: &dyn Files, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = temporary(path);
    let file = files.open(&temporary, Opened::New)?;
    file.write_at(bytes, 0)?;
    file.sync()?;
    put_in_place(files, &temporary, path)
}

/// Renames `temporary`, a written and synced file, to `path` in the same directory, and syncs the directory.
///
/// # Errors
/// As [`replace`].
pub fn put_in_place(files: &dyn Files, temporary: &Path, path: &Path) -> io::Result<()> {
    files.rename(temporary, path)?;
    files.sync_dir(path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new(".")))
}

/// Path of the temporary file of [`replace`].
#[must_use]
pub fn temporary(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".new");
    name.into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;
    use crate::SystemFiles;

    #[test]
    fn the_new_file_is_private_and_nothing_else_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("members.toml");
        // A temporary file after a crash, longer than the new one and open to all users.
        std::fs::write(temporary(&path), "left behind").unwrap();
        std::fs::set_permissions(temporary(&path), PermissionsExt::from_mode(0o666)).unwrap();
        for text in ["first", "2nd", ""] {
            replace(&SystemFiles, &path, text.as_bytes()).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
            assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        assert_eq!(temporary(&path).file_name().unwrap(), "members.toml.new");
    }

    #[test]
    fn a_replacement_that_fails_leaves_the_old_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        replace(&SystemFiles, &path, b"old").unwrap();
        std::fs::create_dir(temporary(&path)).unwrap();
        assert!(replace(&SystemFiles, &path, b"new").is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
    }
}
