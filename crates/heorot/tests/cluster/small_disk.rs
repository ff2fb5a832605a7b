//! Small file systems for targets, which become full or fail.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Small file system, in memory or in a file; removed on drop.
pub struct SmallDisk(pub PathBuf);

impl SmallDisk {
    /// ext4 that becomes read-only at the first error, as most are mounted.
    pub fn ext4(path: &Path, mib: u64) -> Self {
        std::fs::create_dir_all(path).unwrap();
        let image = path.with_extension("image");
        std::fs::File::create(&image).unwrap().set_len(mib << 20).unwrap();
        let run = |command: &mut Command| {
            let output = command.output().unwrap();
            assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        };
        run(Command::new("mkfs.ext4").args(["-q", "-m", "0"]).arg(&image));
        run(Command::new("mount").args(["-o", "loop,errors=remount-ro"]).arg(&image).arg(path));
        std::fs::remove_dir(path.join("lost+found")).unwrap();
        Self(path.to_owned())
    }

    pub fn mount(path: &Path, size: &str) -> Self {
        std::fs::create_dir_all(path).unwrap();
        let size = format!("size={size}");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "heorot-small"]).arg(path).status();
        assert!(
            mounted.is_ok_and(|status| status.success()),
            "mount a tmpfs on {}: is this root?",
            path.display()
        );
        Self(path.to_owned())
    }

    pub fn read_only(&self) {
        let source = Command::new("findmnt").args(["-n", "-o", "SOURCE"]).arg(&self.0).output().unwrap();
        let device = String::from_utf8(source.stdout).unwrap();
        let device = device.trim().strip_prefix("/dev/").unwrap();
        std::fs::write(format!("/sys/fs/ext4/{device}/trigger_fs_error"), "a disk that fails").unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazy unmount: a server that is being killed may still have open files there.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
