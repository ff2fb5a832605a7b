//! CLONE on a file system that can share data between files (XFS): `cp --reflink` needs no time and no space.

use std::path::{Path, PathBuf};
use std::process::Command;

use tests::{Cluster, FileBytes, Lab};

/// XFS in a file; removed on drop.
struct Xfs(PathBuf);

impl Xfs {
    /// `image` is a new sparse file.
    fn mount(image: &Path, path: &Path) -> Self {
        let file = std::fs::File::create(image).expect("make the image");
        file.set_len(2 << 30).expect("make it 2 GiB long");
        std::fs::create_dir_all(path).expect("a folder to mount on");
        let run = |command: &mut Command| {
            let done = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}: run `make setup`"));
            assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
        };
        run(Command::new("mkfs.xfs").args(["-q", "-m", "reflink=1"]).arg(image));
        run(Command::new("mount").args(["-o", "loop"]).arg(image).arg(path));
        Self(path.to_owned())
    }

    fn free_bytes(&self) -> u64 {
        rustix::fs::sync();
        let stat = rustix::fs::statvfs(&self.0).expect("statvfs");
        stat.f_bavail * stat.f_frsize
    }
}

impl Drop for Xfs {
    fn drop(&mut self) {
        // Lazy unmount: a server that is being killed may still have open files there.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_reflink_copy_shares_the_data_and_takes_no_room() {
    let lab = Lab::open();
    let disk = Xfs::mount(&lab.folder().join("xfs"), &lab.folder().join("data"));
    let cluster = Cluster::up(&lab, 4);
    let client = lab.client("ash");
    cluster.mount(&client, "vers=4.2");
    client.run("head -c 200000001 /dev/urandom >/mnt/h/source; sync");
    let (before, free) = (cluster.traffic(), disk.free_bytes());
    client.run("cd /mnt/h; cp --reflink=always source clone; [ $(stat -c %s clone) = 200000001 ]");
    let moved = cluster.traffic().since(&before);
    assert_eq!((moved.metaserver, moved.straight()), <(FileBytes, FileBytes)>::default());
    let taken = free.saturating_sub(disk.free_bytes());
    // The tail of each of four objects is written, behind which XFS may hold 16 MiB for a while.
    assert!(taken < 100_000_000, "{taken} bytes were taken");
    client.run("cd /mnt/h; cmp source clone; sha256sum <source >/tmp/source");
    // A write to one leaves the other unchanged.
    client.run("cd /mnt/h; head -c 3000000 /dev/zero | dd of=clone bs=1000000 seek=7 conv=notrunc status=none; sha256sum <source | cmp - /tmp/source");
    // A range of whole blocks, into a file with data: the same columns, some whole stripes further.
    client.run(
        r#"perl -e '
            open my $from, "<", "/mnt/h/source" or die; open my $to, "+<", "/mnt/h/clone" or die;
            # FICLONERANGE of x86-64: descriptor, offset, bytes, offset
            my $range = pack "q q q q", fileno $from, 4 << 20, 16 << 20, 32 << 20;
            ioctl $to, 0x4020940d, $range or die "FICLONERANGE: $!";
            close $to or die'
        cmp <(tail -c +33554433 /mnt/h/clone | head -c 16777216) <(tail -c +4194305 /mnt/h/source | head -c 16777216)
        umount /mnt/h"#,
    );
}
