//! Clones while disks are full or read-only and clients die: a write to a file that a clone shares copies the region that it
//! touches.

use std::time::Duration;

use tests::copies::until;
use tests::{Cluster, Lab, SmallDisk};

use crate::snapshots::objects;

const MINUTES: Duration = Duration::from_secs(120);
/// MiB of the file that is shared.
const MIB: u64 = 60;
/// What a data server leaves alone on its disk.
const RESERVE_BYTES: u64 = 128 << 20;

#[test]
fn a_clone_whose_disk_is_full_or_whose_client_dies_keeps_what_it_had() {
    let lab = Lab::open();
    let disk = SmallDisk::mount(&lab.folder().join("data/ds0/target"), "800m");
    let cluster = Cluster::separate(&lab, 1);
    cluster.admin(&["set", "trash_time", "0s"]);
    cluster.admin(&["volume", "create", "/v"]);
    let ash = lab.client("ash");
    cluster.mount(&ash, "vers=4.2");
    ash.run(&format!(
        "cd /mnt/h/v; for f in one two; do head -c {MIB}M /dev/urandom >$f; done; sync; md5sum one two >/tmp/sums"
    ));
    cluster.admin(&["snapshot", "create", "/v@base"]);
    cluster.admin(&["volume", "clone", "/v@base", "/c"]);
    let whole = |dir: &str| {
        ash.run_within(
            MINUTES,
            &format!("echo 3 >/proc/sys/vm/drop_caches; cd /mnt/h/{dir}; md5sum --quiet -c /tmp/sums"),
        )
    };

    // No room for the region: the write is refused in time, and the clone has what it had. It can be promoted.
    let other = disk.fill_but(RESERVE_BYTES + (200 << 10));
    // What is there already, MiB by MiB: the data server asks its disk again after 32.
    let write = |mib: u64| {
        let dd = "dd if=/mnt/h/v/one of=/mnt/h/c/one bs=1M count=1 conv=notrunc,fsync";
        ash.spawn(&format!("{dd} skip={mib} seek={mib} 2>&1")).wait(MINUTES)
    };
    let is_refused = |mib: &u64| {
        let said = write(*mib);
        said.status != 0 && said.text.contains("No space left on device")
    };
    let refused = (0..MIB).find(is_refused).expect("a write is refused");
    whole("c");
    cluster.admin(&["volume", "promote", "/c", "--wait"]);
    for dir in ["c", "v", "v/.snapshot/base"] {
        whole(dir);
    }
    std::fs::remove_file(other).expect("the file of another program");
    until("the write goes on", || write(refused).status == 0);
    whole("c");
    whole("v");

    // A client dies while its write has a file copied: another one writes on at once.
    cluster.admin(&["volume", "clone", "/v@base", "/d"]);
    let elm = lab.client("elm");
    cluster.mount(&elm, "vers=4.2");
    let before = objects(cluster.folder());
    let running = elm.spawn(
        "dd if=/dev/zero of=/mnt/h/d/one bs=4096 count=1 conv=notrunc,fsync status=none; echo written >/tmp/written",
    );
    until("the copy is under way, or done", || running.is_done() || objects(cluster.folder()) > before);
    drop(elm);
    let began = std::time::Instant::now();
    ash.run_within(
        MINUTES,
        "dd if=/dev/zero of=/mnt/h/d/one bs=4096 count=1 conv=notrunc,fsync status=none; cmp -n 4096 /mnt/h/d/one /dev/zero",
    );
    println!("another client wrote {:.1} s after the death of the first", began.elapsed().as_secs_f64());
    ash.run_within(MINUTES, "cmp -i 4096 /mnt/h/d/one /mnt/h/v/one");
    whole("v");
    ash.run("rm /mnt/h/d/* /mnt/h/c/*; sync; umount -R /mnt/h/v");
    cluster.admin(&["volume", "remove", "/d", "--force"]);
    cluster.admin(&["snapshot", "remove", "/v@base", "--force"]);
    until("only the volume's own objects are left", || objects(cluster.folder()) == 2);
}

#[test]
fn a_clone_on_a_disk_that_becomes_read_only_reads_on_and_is_written_when_it_is_mended() {
    let lab = Lab::open();
    let disk = SmallDisk::ext4(&lab.folder().join("data/ds0/target"), 700);
    let mut cluster = Cluster::separate(&lab, 1);
    cluster.admin(&["volume", "create", "/v"]);
    let ash = lab.client("ash");
    cluster.mount(&ash, "vers=4.2");
    ash.run("cd /mnt/h/v; head -c 20M /dev/urandom >one; sync; md5sum one >/tmp/sums");
    cluster.admin(&["snapshot", "create", "/v@base"]);
    cluster.admin(&["volume", "clone", "/v@base", "/c"]);
    let whole = |dir: &str| {
        ash.run_within(
            MINUTES,
            &format!("echo 3 >/proc/sys/vm/drop_caches; cd /mnt/h/{dir}; md5sum --quiet -c /tmp/sums"),
        )
    };
    disk.read_only();
    let said = ash
        .spawn("dd if=/dev/zero of=/mnt/h/c/one bs=4096 count=1 conv=notrunc,fsync status=none 2>&1")
        .wait(MINUTES);
    assert!(said.status != 0, "{said:?}");
    println!("a write on a read-only disk: {}", said.text.trim());
    whole("c");
    whole("v");
    cluster.ds(0).kill();
    disk.mend();
    cluster.start_all();
    until("it is written", || {
        ash.try_run("dd if=/dev/zero of=/mnt/h/c/one bs=4096 count=1 conv=notrunc,fsync status=none").status
            == 0
    });
    whole("v");
    ash.run_within(MINUTES, "cmp -n 4096 /mnt/h/c/one /dev/zero; cmp -i 4096 /mnt/h/c/one /mnt/h/v/one");
}
