//! Disk of a machine: an ext4 in a file, which becomes read-only at the first error, as most are mounted.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Mounted disk; unmounted on drop.
pub struct Disk {
    image: PathBuf,
    at: PathBuf,
}

impl Disk {
    /// Empty disk of `mib` MiB at `at`.
    pub fn new(at: &Path, mib: u64) -> Disk {
        let image = at.with_extension("image");
        std::fs::File::create(&image).and_then(|file| file.set_len(mib << 20)).expect("a file for a disk");
        run(Command::new("mkfs.ext4").args(["-q", "-m", "0"]).arg(&image));
        let disk = Disk { image, at: at.to_owned() };
        disk.mount();
        let _ = std::fs::remove_dir(at.join("lost+found"));
        disk
    }

    /// Fills the disk with another file, except `left` MiB; returns its path, for removal.
    pub fn fill(&self, left_mib: u64) -> PathBuf {
        let room = rustix::fs::statvfs(&self.at).expect("the room of a disk");
        let bytes = (room.f_bavail * room.f_frsize).saturating_sub(left_mib << 20);
        let path = self.at.join("of-another-program");
        run(Command::new("fallocate").args(["-l", &bytes.to_string()]).arg(&path));
        path
    }

    /// Makes the kernel find an error of the file system. Earlier changes are on the disk: a removed file
    /// does not come back.
    pub fn fail(&self) {
        run(Command::new("sync").arg("-f").arg(&self.at));
        let source =
            Command::new("findmnt").args(["-n", "-o", "SOURCE"]).arg(&self.at).output().expect("findmnt");
        let device = String::from_utf8_lossy(&source.stdout).trim().trim_start_matches("/dev/").to_owned();
        let trigger = format!("/sys/fs/ext4/{device}/trigger_fs_error");
        std::fs::write(&trigger, "a disk that fails").unwrap_or_else(|e| panic!("{trigger}: {e}"));
    }

    /// Repairs the disk while its machine's processes are stopped: unmount, fsck, mount. Repairs a copy: the
    /// mount namespaces of other machines keep the old file system in the kernel, with its error.
    pub fn mend(&mut self) {
        self.unmount();
        let mended = self.image.with_extension("mended");
        std::fs::copy(&self.image, &mended).expect("a copy of the disk");
        self.image = mended;
        // Exit status 1: errors were corrected.
        let status =
            Command::new("fsck.ext4").args(["-y", "-f"]).arg(&self.image).output().expect("fsck.ext4").status;
        assert!(status.code().is_some_and(|code| code <= 1), "{status}");
        self.mount();
    }

    fn mount(&self) {
        std::fs::create_dir_all(&self.at).expect("a mount point");
        run(Command::new("mount").args(["-o", "loop,errors=remount-ro"]).args([&self.image, &self.at]));
    }

    fn unmount(&self) {
        run(Command::new("umount").arg(&self.at));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazy unmount: a server that is being killed may still have open files there.
        let _ = Command::new("umount").arg("-l").arg(&self.at).status();
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
