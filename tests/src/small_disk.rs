//! Small file systems for storage targets and metaservers, which become full, read-only, or fail.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{FallocateFlags, fallocate, statvfs};

/// FS_IOC_SHUTDOWN with the flag that writes nothing back (2): every operation fails (EIO) from then on.
const SHUT_DOWN: &str = r#"open my $d, "<", $ARGV[0] or die "$!"; my $how = pack "L", 2;
    ioctl $d, 0x8004587d, $how or die "shut down: $!""#;

/// Small file system, in memory or in a file; removed on drop.
pub struct SmallDisk {
    path: PathBuf,
    image: Option<PathBuf>,
}

impl SmallDisk {
    /// In memory, of a size such as `320m`.
    #[track_caller]
    pub fn mount(path: &Path, size: &str) -> Self {
        std::fs::create_dir_all(path).expect("a folder for the small disk");
        let options = format!("size={size}");
        run(Command::new("mount").args(["-t", "tmpfs", "-o", &options, "heorot-small"]).arg(path));
        Self { path: path.to_owned(), image: None }
    }

    /// ext4 in a file, which becomes read-only at the first error, as most are mounted.
    #[track_caller]
    pub fn ext4(path: &Path, mib: u64) -> Self {
        std::fs::create_dir_all(path).expect("a folder for the small disk");
        let image = path.with_extension("image");
        File::create(&image).and_then(|file| file.set_len(mib << 20)).expect("an image");
        run(Command::new("mkfs.ext4").args(["-q", "-m", "0"]).arg(&image));
        let disk = Self { path: path.to_owned(), image: Some(image) };
        disk.mount_image();
        std::fs::remove_dir(path.join("lost+found")).expect("an empty file system");
        disk
    }

    #[track_caller]
    fn mount_image(&self) {
        let Some(image) = &self.image else { return };
        run(Command::new("mount").args(["-o", "loop,errors=remount-ro"]).arg(image).arg(&self.path));
    }

    /// Its mount point.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Fills the disk with another program's file; returns its path, for removal.
    #[track_caller]
    pub fn fill(&self) -> PathBuf {
        let path = self.path.join("other-program");
        let mut file = File::options().create(true).append(true).open(&path).expect("a file");
        while file.write_all(&[0; 1 << 16]).is_ok() {}
        path
    }

    /// Fills the disk with another program's file so that about `left` bytes stay free; returns its path.
    #[track_caller]
    pub fn fill_but(&self, left: u64) -> PathBuf {
        let path = self.path.join("other-program");
        let file = File::create(&path).expect("a file");
        let room = statvfs(&self.path).expect("the room");
        let len = (room.f_bavail * room.f_frsize).saturating_sub(left);
        fallocate(&file, FallocateFlags::empty(), 0, len).expect("room for the file");
        path
    }

    /// Has an ext4 find an error: it becomes read-only.
    #[track_caller]
    pub fn read_only(&self) {
        let source = Command::new("findmnt").args(["-n", "-o", "SOURCE"]).arg(&self.path).output();
        let device = String::from_utf8(source.expect("findmnt runs").stdout).expect("text");
        let device = device.trim().strip_prefix("/dev/").expect("a device");
        std::fs::write(format!("/sys/fs/ext4/{device}/trigger_fs_error"), "a disk that fails")
            .expect("a file system that has an error");
    }

    /// Has each operation on an ext4 fail (EIO).
    #[track_caller]
    pub fn fail(&self) {
        run(Command::new("perl").args(["-e", SHUT_DOWN]).arg(&self.path));
    }

    /// Checks an ext4 that failed, and mounts it again. Nothing may use it.
    #[track_caller]
    pub fn mend(&self) {
        run(Command::new("umount").arg(&self.path));
        let image = self.image.as_ref().expect("an ext4");
        // The kernel lets go of the image a moment later.
        let is_used = || {
            let used = Command::new("losetup").arg("-j").arg(image).output().expect("losetup runs");
            !used.stdout.is_empty()
        };
        crate::copies::until("nothing uses the image any more", || !is_used());
        // Status 1: errors were corrected.
        let checked = Command::new("e2fsck").arg("-fy").arg(image).output().expect("e2fsck runs");
        assert!(checked.status.code().is_some_and(|code| code <= 1), "{checked:?}");
        self.mount_image();
    }
}

#[track_caller]
fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazy unmount: a server that is being killed may still have open files there.
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}
