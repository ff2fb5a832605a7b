//! A disk that runs full under everything: clients are told so, what was acknowledged stays, and removing helps.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tests::{Cluster, Lab};

const MINUTES: Duration = Duration::from_secs(120);

/// A small file system in memory; gone when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(path: &Path, size: &str) -> Self {
        std::fs::create_dir_all(path).expect("a folder for the small disk");
        let options = format!("size={size}");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "heorot-small"]).arg(path).status();
        assert!(mounted.is_ok_and(|status| status.success()), "mount a tmpfs on {}", path.display());
        Self(path.to_owned())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a server that is being killed may still have files open there.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_said_and_nothing_acknowledged_is_lost() {
    let lab = Lab::open();
    let _disk = SmallDisk::mount(&lab.folder().join("data"), "320m");
    let mut cluster = Cluster::up(&lab, 2);
    let client = lab.client("ash");
    for version in ["vers=4.2", "vers=3"] {
        cluster.mount(&client, version);
        client.run("mkdir /mnt/h/d; head -c 20000000 /dev/urandom >/mnt/h/d/kept; sync; sha256sum /mnt/h/d/kept >/tmp/kept");

        let full = client.run_within(
            MINUTES,
            "dd if=/dev/zero of=/mnt/h/d/big bs=1M count=1000 conv=fsync 2>/tmp/said && exit 1
             cat /tmp/said
             # A data server reports its room once a second.
             for i in $(seq 50); do A=$(df --output=avail /mnt/h | tail -1); [ $A -lt 2048 ] && break; sleep 0.1; done; echo $A",
        );
        assert!(full.contains("No space left on device"), "{full}");
        let available_kib = full.lines().last().and_then(|kib| kib.trim().parse::<u64>().ok());
        assert!(available_kib.is_some_and(|kib| kib < 2048), "df agrees: {full}");
        client.run("sha256sum -c /tmp/kept");

        // Removing works on a full disk, and gives the room back.
        client.run_within(
            MINUTES,
            "rm /mnt/h/d/big
             for i in $(seq 100); do dd if=/dev/zero of=/mnt/h/d/again bs=1M count=10 conv=fsync 2>/tmp/said && exit 0; sleep 0.1; done
             cat /tmp/said; exit 1",
        );
        cluster.kill_all();
        cluster.start_all();
        client.run("sha256sum -c /tmp/kept; [ $(stat -c %s /mnt/h/d/again) = 10485760 ]; rm -r /mnt/h/d; umount /mnt/h");
    }
}
