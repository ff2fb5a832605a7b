//! Data servers are added and one is drained, under clients: no operation fails, and all targets are equally full then.

use std::path::{Path, PathBuf};

use rustix::fs::statvfs;
use tests::copies::{check_copies, until, until_whole};
use tests::stalls::{self, Work};
use tests::{Client, Cluster, Lab, MOUNT_POINT, SmallDisk};

const BEFORE: usize = 3;
const AFTER: usize = 5;
/// Files that are there before, and the size of each in MiB.
const FILES: usize = 32;
const FILE_MIB: usize = 8;
/// Largest difference between two targets, in percent of their size.
const BALANCE_PERCENT: f64 = 5.0;

fn target(lab: &Lab, number: usize) -> PathBuf {
    lab.folder().join(format!("data/ds{number}/target"))
}

/// Used share of the file system of a target, in percent.
fn used_percent(target: &Path) -> f64 {
    let found = statvfs(target).expect("the file system of a target");
    100.0 - 100.0 * found.f_bavail as f64 / found.f_blocks as f64
}

fn objects(target: &Path) -> usize {
    let directories = std::fs::read_dir(target.join("objects")).expect("objects").flatten();
    directories.map(|directory| std::fs::read_dir(directory.path()).map_or(0, Iterator::count)).sum()
}

/// Has chains move until no target is fuller than another, as the leader sees it; then looks at the disks.
#[track_caller]
fn rebalance(lab: &Lab, cluster: &Cluster, data_servers: impl Iterator<Item = usize>) {
    let said = cluster.admin(&["rebalance", "--wait"]);
    let used: Vec<f64> = data_servers.map(|number| used_percent(&target(lab, number))).collect();
    let (least, most) =
        used.iter().fold((100.0_f64, 0.0_f64), |(least, most), one| (least.min(*one), most.max(*one)));
    println!("used of the targets: {used:.1?} %");
    assert!(most - least <= BALANCE_PERCENT, "{used:?}: {said}");
}

fn check_files(client: &Client) {
    client.run(&format!(
        "echo 3 >/proc/sys/vm/drop_caches; cd {MOUNT_POINT}/before; sha256sum --quiet -c /tmp/sums"
    ));
}

#[test]
fn two_data_servers_are_added_and_one_is_drained_while_clients_work() {
    let lab = Lab::open();
    // Each target has a disk of its own: their room is compared.
    let _disks: Vec<SmallDisk> =
        (0..AFTER).map(|number| SmallDisk::mount(&target(&lab, number), "600m")).collect();
    let mut cluster = Cluster::separate(&lab, BEFORE);
    cluster.admin(&["stripe", "set", "/", "--copies", "2"]);
    // Else removed files are room.
    cluster.admin(&["set", "trash_time", "0s"]);
    until_whole(&cluster);
    let (pnfs, v3) = (lab.client("pnfs"), lab.client("v3"));
    cluster.mount(&pnfs, "vers=4.2");
    cluster.mount(&v3, "vers=3");
    pnfs.run(&format!(
        "mkdir {MOUNT_POINT}/before; cd {MOUNT_POINT}/before
         for n in $(seq {FILES}); do head -c {FILE_MIB}M /dev/urandom >$n; done; sync; sha256sum * >/tmp/sums"
    ));
    let begin = |client, name: &str| {
        Work::begin(client, name, stalls::DATA, &[&format!("{MOUNT_POINT}/{name}"), "4"])
    };
    let mut works = [begin(&pnfs, "pnfs"), begin(&v3, "v3")];
    works.iter_mut().for_each(|work| work.does_more(1));
    for _ in BEFORE..AFTER {
        cluster.add_data_server(&lab);
    }
    rebalance(&lab, &cluster, 0..AFTER);
    assert!((BEFORE..AFTER).all(|number| objects(&target(&lab, number)) > 0), "the new ones have data");
    works.iter_mut().for_each(|work| work.does_more(1));
    cluster.admin(&["node", "drain", "ds0"]);
    until("the drained one is empty", || objects(&target(&lab, 0)) == 0);
    rebalance(&lab, &cluster, 1..AFTER);
    let said = cluster.admin(&["node", "remove", "ds0"]);
    println!("{}", said.trim());
    cluster.ds(0).stop();
    works.iter_mut().for_each(|work| work.does_more(2));
    check_files(&pnfs);
    check_files_of(&v3, &pnfs);
    for (work, version) in works.into_iter().zip(["4.2", "3"]) {
        let (said, stalls) = work.end();
        let longest = tests::copies::longest(&stalls);
        println!("vers={version}, {} rounds: longest operation {longest:.2} s", said.trim());
    }
    until_whole(&cluster);
    pnfs.run("sync");
    v3.run("sync");
    cluster.admin(&["clean"]);
    check_copies(&cluster, 1..AFTER, 2);
}

/// The other client reads the files by its own protocol.
fn check_files_of(client: &Client, with_sums: &Client) {
    let sums = with_sums.run("cat /tmp/sums");
    client.run(&format!("cat >/tmp/sums <<'END'\n{sums}END"));
    check_files(client);
}
