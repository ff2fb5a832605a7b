//! What a file shares with its snapshots on data servers: a write copies the regions that it touches, whatever the file system
//! below and the file's length, and all space comes back.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use tests::copies::until;
use tests::{Client, Cluster, Lab};

/// MiB of the file.
const MIB: u64 = 32;
const MINUTES: Duration = Duration::from_secs(120);

/// Bytes on the disk of all files below a folder, and whether one of them is the map of an attached object.
fn space(folder: &Path, seen: &mut BTreeSet<u64>) -> (u64, bool) {
    let mut all = (0, false);
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(found) = entry.path().symlink_metadata() else { continue };
        if found.is_dir() {
            let (bytes, has_map) = space(&entry.path(), seen);
            all = (all.0 + bytes, all.1 || has_map);
        } else if seen.insert(found.ino()) {
            all.0 += found.blocks() * 512;
        }
        all.1 |= entry.file_name().to_string_lossy().ends_with(".regions");
    }
    all
}

fn objects(cluster: &Cluster) -> (u64, bool) {
    let (mut seen, mut all) = (BTreeSet::new(), (0, false));
    for number in 0..2 {
        let of = space(&cluster.folder().join(format!("ds{number}/target/objects")), &mut seen);
        all = (all.0 + of.0, all.1 || of.1);
    }
    all
}

fn sum(client: &Client, path: &str) -> String {
    client.run_within(MINUTES, &format!("echo 3 >/proc/sys/vm/drop_caches; md5sum </mnt/h/v/{path}"))
}

#[test]
fn a_write_after_a_snapshot_copies_what_it_touches_and_all_space_comes_back() {
    let lab = Lab::open();
    let mut cluster = Cluster::separate(&lab, 2);
    cluster.admin(&["set", "trash_time", "0s"]);
    cluster.admin(&["stripe", "set", "/", "--copies", "2"]);
    cluster.admin(&["volume", "create", "/v"]);
    let ash = lab.client("ash");
    cluster.mount(&ash, "vers=4.2");
    ash.run_within(MINUTES, &format!("head -c {MIB}M /dev/urandom >/mnt/h/v/big; sync"));
    let (before, _) = objects(&cluster);
    assert!(before >= 2 * (MIB << 20), "two copies: {before}");
    let mut shown = vec![];
    for number in 0..6u64 {
        let name = format!("s{number}");
        cluster.admin(&["snapshot", "create", &format!("/v@{name}")]);
        shown.push((format!(".snapshot/{name}/big"), sum(&ash, "big")));
        let began = Instant::now();
        let write = "dd if=/dev/urandom of=/mnt/h/v/big bs=4096 count=1 conv=notrunc,fsync status=none";
        ash.run_within(MINUTES, &format!("{write} seek={}", 1 + number * 1000));
        println!("the first write after snapshot {number} took {:.2} s", began.elapsed().as_secs_f64());
        ash.run_within(MINUTES, &format!("{write} seek={}", 9 + number * 1000));
        let grown = objects(&cluster).0 - before;
        assert!(grown <= (number + 1) << 20, "{grown} bytes more after {} writes", 2 * number + 2);
    }
    shown.push(("big".into(), sum(&ash, "big")));
    let check = |shown: &[(String, String)]| {
        for (path, sum_then) in shown {
            assert_eq!(&sum(&ash, path), sum_then, "{path}");
        }
    };
    check(&shown);
    for number in 0..2 {
        cluster.ds(number).kill();
    }
    cluster.start_all();
    check(&shown);
    // One from the middle, then all.
    cluster.admin(&["snapshot", "remove", "/v@s2", "--force"]);
    shown.remove(2);
    check(&shown);
    for (path, _) in shown.drain(..shown.len() - 1) {
        let name = path.split('/').nth(1).expect("its name");
        cluster.admin(&["snapshot", "remove", &format!("/v@{name}"), "--force"]);
    }
    until("nothing is shared any more, and no space is lost", || {
        let (now, has_map) = objects(&cluster);
        !has_map && now <= before + (1 << 20)
    });
    check(&shown);
}
