//! Mounted directory, by system calls.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, OFlags, fadvise, statvfs, syncfs};

use crate::target::mount::Mount;
use crate::target::{Attributes, Open, OpenFile, Target};
use crate::trouble::Trouble;

/// Directory, and its mount.
#[derive(Debug)]
pub struct Mounted {
    root: PathBuf,
    mount: Mount,
}

impl Mounted {
    /// Opens an existing directory on a mount; on the root file system of this machine only if
    /// `root_allowed`, since its usual cause is a forgotten mount.
    ///
    /// # Errors
    /// One line with a remedy.
    pub fn open(path: &Path, root_allowed: bool) -> Result<Self, Trouble> {
        let shown = path.display();
        let root = path.canonicalize().map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => Trouble(format!(
                "{shown}: there is no such directory: make it, or mount what is to be measured"
            )),
            _ => Trouble::io(&format!("look at {shown}"), &e),
        })?;
        if !root.is_dir() {
            return Err(Trouble(format!("{shown} is not a directory: give the one that is to be measured")));
        }
        let mount = Mount::of(&root)?;
        if mount.point == Path::new("/") && !root_allowed {
            return Err(Trouble(format!(
                "{shown} is not on a mount but on the root file system ({} on {}): mount what is to be measured, or \
                 measure this with --not-a-mount",
                mount.kind, mount.source
            )));
        }
        Ok(Self { root, mount })
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }
}

impl Target for Mounted {
    fn describe(&self) -> String {
        let Mount { point, kind, source, options } = &self.mount;
        format!("{} on {}: {kind}, {source}, {options}", self.root.display(), point.display())
    }

    fn free_bytes(&self) -> Option<u64> {
        let stat = statvfs(&self.root).ok()?;
        Some(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn fetched_bytes(&self) -> Option<u64> {
        self.mount.fetched_bytes()
    }

    /// Writes dirty pages first, since they cannot be dropped.
    fn forget_names(&self) -> io::Result<()> {
        syncfs(File::open(&self.root)?)?;
        fs::write("/proc/sys/vm/drop_caches", "3")
    }

    fn open(&self, path: &str, open: Open) -> io::Result<Box<dyn OpenFile>> {
        let mut options = OpenOptions::new();
        let direct = match open {
            Open::Read { direct } => {
                options.read(true);
                direct
            }
            Open::Write { direct } => {
                options.write(true).create(true);
                direct
            }
            Open::New => {
                options.write(true).create_new(true);
                false
            }
        };
        if direct {
            options.custom_flags(OFlags::DIRECT.bits().cast_signed());
        }
        Ok(Box::new(MountedFile { file: options.open(self.path(path))? }))
    }

    fn stat(&self, path: &str) -> io::Result<Attributes> {
        let metadata = fs::symlink_metadata(self.path(path))?;
        Ok(Attributes { bytes: metadata.len(), changed: metadata.ctime() })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path(from), self.path(to))
    }

    fn unlink(&self, path: &str) -> io::Result<()> {
        fs::remove_file(self.path(path))
    }

    fn mkdir(&self, path: &str) -> io::Result<()> {
        fs::create_dir(self.path(path))
    }

    fn rmdir(&self, path: &str) -> io::Result<()> {
        fs::remove_dir(self.path(path))
    }

    fn list(&self, path: &str, each: &mut dyn FnMut(&str, bool)) -> io::Result<()> {
        for entry in fs::read_dir(self.path(path))? {
            let entry = entry?;
            each(&entry.file_name().to_string_lossy(), entry.file_type()?.is_dir());
        }
        Ok(())
    }
}

struct MountedFile {
    file: File,
}

impl OpenFile for MountedFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < into.len() {
            match self.file.read_at(&mut into[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(filled)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    fn forget(&self) -> io::Result<()> {
        Ok(fadvise(&self.file, 0, None, Advice::DontNeed)?)
    }

    /// Close reports write errors: NFS writes back now, and a drop would ignore a full disk.
    fn close(self: Box<Self>) -> io::Result<()> {
        Ok(nix::unistd::close(self.file)?)
    }
}
