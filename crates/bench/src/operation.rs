//! One kind of operation, done to many names in one directory by one process.

use std::ffi::OsString;
use std::fs::{self, DirEntry, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// What [`Operation::Create`] writes into each file.
pub const FILE_BYTES: usize = 4096;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Create, write 4 KiB, close.
    Create,
    /// Ask for the attributes of each file.
    Stat,
    /// List the whole directory; each entry counts.
    Readdir,
    /// Give each file another name in the same directory.
    Rename,
    /// Remove each file.
    Unlink,
    /// Make directories.
    Mkdir,
    /// Remove each directory.
    Rmdir,
}

impl FromStr for Operation {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "create" => Ok(Self::Create),
            "stat" => Ok(Self::Stat),
            "readdir" => Ok(Self::Readdir),
            "rename" => Ok(Self::Rename),
            "unlink" => Ok(Self::Unlink),
            "mkdir" => Ok(Self::Mkdir),
            "rmdir" => Ok(Self::Rmdir),
            _ => Err(format!("{name}: not create, stat, readdir, rename, unlink, mkdir or rmdir")),
        }
    }
}

impl Operation {
    /// Whether it is measured with nothing in the client's caches.
    #[must_use]
    pub fn is_cold(self) -> bool {
        matches!(self, Self::Stat | Self::Readdir)
    }

    /// The names it works on: `count` new ones in `dir`, which is made, or those that are there.
    ///
    /// # Errors
    /// What the file system says.
    pub fn prepare(self, dir: &Path, count: usize) -> io::Result<Vec<PathBuf>> {
        match self {
            Self::Create | Self::Mkdir => {
                fs::create_dir_all(dir)?;
                Ok((0..count).map(|n| dir.join(format!("n{n:07}"))).collect())
            }
            Self::Stat | Self::Readdir | Self::Rename | Self::Unlink | Self::Rmdir => {
                let mut names: Vec<OsString> = fs::read_dir(dir)?
                    .map(|e| e.map(|e: DirEntry| e.file_name()))
                    .collect::<Result<_, _>>()?;
                names.sort();
                Ok(names.into_iter().map(|name| dir.join(name)).collect())
            }
        }
    }

    /// Does it to each of `names` in `dir`; returns how many operations that were.
    ///
    /// # Errors
    /// What the file system says, and to which name.
    pub fn run(self, dir: &Path, names: &[PathBuf]) -> io::Result<usize> {
        if self == Self::Readdir {
            return fs::read_dir(dir)?.try_fold(0, |count, entry| entry.map(|_| count + 1));
        }
        let data = [0x5a; FILE_BYTES];
        for path in names {
            let one = match self {
                Self::Create => create(path, &data),
                Self::Stat => fs::symlink_metadata(path).map(drop),
                Self::Rename => fs::rename(path, renamed(path)),
                Self::Unlink => fs::remove_file(path),
                Self::Mkdir => fs::create_dir(path),
                Self::Rmdir => fs::remove_dir(path),
                Self::Readdir => Ok(()),
            };
            one.map_err(|e| io::Error::other(format!("{self:?} {}: {e}", path.display())))?;
        }
        Ok(names.len())
    }
}

/// NFS writes back at the close, which is when `file` goes out of scope.
fn create(path: &Path, data: &[u8]) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(data)
}

fn renamed(path: &Path) -> PathBuf {
    let mut name = OsString::from("r");
    name.push(path.file_name().unwrap_or_default());
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_finds_what_the_one_before_it_left() {
        let dir = std::env::temp_dir().join(format!("heorot-bench-{}", std::process::id()));
        let step = |name: &str, count| {
            let operation: Operation = name.parse().unwrap();
            let names = operation.prepare(&dir, count).unwrap();
            operation.run(&dir, &names).unwrap()
        };
        for name in ["create", "stat", "readdir", "rename", "readdir", "unlink"] {
            assert_eq!(step(name, 3), 3, "{name}");
        }
        assert_eq!(step("readdir", 0), 0);
        for name in ["mkdir", "readdir", "rmdir"] {
            assert_eq!(step(name, 2), 2, "{name}");
        }
        assert_eq!(step("readdir", 0), 0);
        fs::remove_dir(&dir).unwrap();
    }
}
