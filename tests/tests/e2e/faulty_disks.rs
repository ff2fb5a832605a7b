//! Files with copies on disks that become full, read-only, or fail, or lose files, while real clients write. No
//! operation fails, and all copies are equal in the end.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use tests::copies::{chains, check_copies, check_file, longest, make_file, until, until_whole};
use tests::stalls::{self, Work};
use tests::{Client, Cluster, Lab, MOUNT_POINT, SmallDisk};

const DATA_SERVERS: usize = 4;
/// What a data server leaves alone on each disk.
const RESERVE_BYTES: u64 = 128 << 20;
const MIB: u64 = 1 << 20;

/// A cluster whose first data server has its target on `disk`.
fn cluster_with_copies(lab: &Lab, disk: impl FnOnce(&Path) -> SmallDisk) -> (Cluster, SmallDisk) {
    let disk = disk(&lab.folder().join("data/ds0/target"));
    let cluster = Cluster::separate(lab, DATA_SERVERS);
    cluster.admin(&["stripe", "set", "/", "--copies", "2"]);
    // Else removed files are room.
    cluster.admin(&["set", "trash_time", "0s"]);
    cluster.admin(&["set", "rebalance", "false"]);
    until_whole(&cluster);
    (cluster, disk)
}

/// State of the target of the first data server.
fn state(cluster: &Cluster) -> String {
    let status: serde_json::Value = serde_json::from_str(&cluster.status_json()).expect("the status is JSON");
    let servers = status["data_servers"].as_array().expect("data servers");
    let first = servers.iter().find(|server| server["name"] == "ds0").expect("the first one");
    first["targets"][0]["state"].as_str().expect("a state").to_owned()
}

fn begin<'a>(clients: [&'a Client; 2], perl: &str, mib: &str) -> Vec<Work<'a>> {
    let begin = |client: &'a Client| {
        Work::begin(client, "data", perl, &[&format!("{MOUNT_POINT}/{}", client.name()), mib])
    };
    let mut works: Vec<Work<'a>> = clients.into_iter().map(begin).collect();
    works.iter_mut().for_each(|work| work.does_more(1));
    works
}

fn end(works: Vec<Work<'_>>, what: &str) {
    for (work, version) in works.into_iter().zip(["4.2", "3"]) {
        let (said, stalls) = work.end();
        let longest = longest(&stalls);
        println!("{what}, vers={version}, {} rounds: longest operation {longest:.2} s", said.trim());
    }
}

#[test]
fn new_files_avoid_chains_with_a_full_member() {
    let lab = Lab::open();
    let (cluster, disk) = cluster_with_copies(&lab, |path| SmallDisk::mount(path, "400m"));
    let (pnfs, v3) = (lab.client("pnfs"), lab.client("v3"));
    cluster.mount(&pnfs, "vers=4.2");
    cluster.mount(&v3, "vers=3");
    let mut works = begin([&pnfs, &v3], stalls::FILES, "2");
    // Room for the files that are being written.
    disk.fill_but(RESERVE_BYTES + 12 * MIB);
    until("the target is full", || state(&cluster) == "full");
    works.iter_mut().for_each(|work| work.does_more(2));
    let filler = disk.fill();
    works.iter_mut().for_each(|work| work.does_more(8));
    assert_eq!((state(&cluster).as_str(), chains(&cluster)["waiting"].as_u64()), ("full", Some(0)));
    fs::remove_file(filler).expect("the file of another program");
    until("the target has room", || state(&cluster) == "ok");
    works.iter_mut().for_each(|work| work.does_more(2));
    end(works, "full");
    until_whole(&cluster);
    pnfs.run("sync");
    v3.run("sync");
    cluster.admin(&["clean"]);
    check_copies(&cluster, 0..DATA_SERVERS, 2);
}

/// Chains move to other targets under clients with layouts to read and to write.
#[test]
fn data_move_off_a_disk_that_other_programs_fill_while_clients_write() {
    let lab = Lab::open();
    // Of a size, and apart: the others' room is not that of the machine's disk.
    let target = |n: usize| lab.folder().join(format!("data/ds{n}/target"));
    let _others: Vec<SmallDisk> = (1..DATA_SERVERS).map(|n| SmallDisk::mount(&target(n), "1800m")).collect();
    let (cluster, disk) = cluster_with_copies(&lab, |path| SmallDisk::mount(path, "900m"));
    let (pnfs, v3) = (lab.client("pnfs"), lab.client("v3"));
    cluster.mount(&pnfs, "vers=4.2");
    cluster.mount(&v3, "vers=3");
    make_file(&pnfs);
    let mut works = begin([&pnfs, &v3], stalls::DATA, "16");
    let objects = || files(&cluster.folder().join("ds0/target/objects")).len();
    let before = objects();
    assert!(before > 2);
    disk.fill_but(RESERVE_BYTES + 20 * MIB);
    cluster.admin(&["set", "rebalance", "true"]);
    until("chains move", || chains(&cluster)["moving"].as_u64() > Some(0));
    until("objects have left the full disk", || objects() * 2 <= before);
    cluster.admin(&["set", "rebalance", "false"]);
    works.iter_mut().for_each(|work| work.does_more(2));
    check_file(&pnfs);
    end(works, "chains moved");
    until_whole(&cluster);
    pnfs.run("sync");
    v3.run("sync");
    cluster.admin(&["clean"]);
    check_copies(&cluster, 0..DATA_SERVERS, 2);
}

#[test]
fn copies_survive_a_disk_that_turns_read_only_and_one_that_fails() {
    let lab = Lab::open();
    let (mut cluster, disk) = cluster_with_copies(&lab, |path| SmallDisk::ext4(path, 500));
    let (pnfs, v3) = (lab.client("pnfs"), lab.client("v3"));
    cluster.mount(&pnfs, "vers=4.2");
    cluster.mount(&v3, "vers=3");
    make_file(&pnfs);
    let is_named = |cluster: &Cluster, words: &[&str]| words.contains(&state(cluster).as_str());
    for what in ["read-only", "EIO"] {
        let mut works = begin([&pnfs, &v3], stalls::DATA, "4");
        // A sync on a disk that has turned read-only fails the target.
        let words: &[&str] = match what {
            "EIO" => {
                disk.fail();
                &["failed"]
            }
            _ => {
                disk.read_only();
                &["read-only", "failed"]
            }
        };
        works.iter_mut().for_each(|work| work.does_more(3));
        until("status names the target", || is_named(&cluster, words));
        check_file(&pnfs);
        end(works, what);
        cluster.ds(0).kill();
        disk.mend();
        cluster.ds(0).start();
        until_whole(&cluster);
        assert_eq!(state(&cluster), "ok");
    }
    pnfs.run("sync");
    v3.run("sync");
    check_copies(&cluster, 0..DATA_SERVERS, 2);
    // Where nothing is written.
    disk.fail();
    let began = Instant::now();
    check_file(&pnfs);
    println!("a file was read beside a disk that fails in {:.2} s", began.elapsed().as_secs_f64());
    until("status names the target", || is_named(&cluster, &["failed"]));
}

/// Files below a directory of objects, those of checksums too.
pub(crate) fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).expect("a directory of objects").map(|entry| entry.expect("an entry"));
    let below = |entry: fs::DirEntry| match entry.file_type().expect("a type").is_dir() {
        true => files(&entry.path()),
        false => vec![entry.path()],
    };
    entries.flat_map(below).collect()
}

#[test]
fn objects_that_are_removed_below_a_data_server_come_back_while_clients_write() {
    let lab = Lab::open();
    let cluster = Cluster::separate(&lab, DATA_SERVERS);
    cluster.admin(&["stripe", "set", "/", "--copies", "2"]);
    until_whole(&cluster);
    let (pnfs, v3) = (lab.client("pnfs"), lab.client("v3"));
    cluster.mount(&pnfs, "vers=4.2");
    cluster.mount(&v3, "vers=3");
    make_file(&pnfs);
    let mut works = begin([&pnfs, &v3], stalls::DATA, "4");
    for number in [0, 1] {
        let objects = cluster.folder().join(format!("ds{number}/target/objects"));
        let removed = files(&objects);
        assert!(removed.len() > 2, "{removed:?}");
        removed.iter().for_each(|file| fs::remove_file(file).expect("a file is removed"));
        works.iter_mut().for_each(|work| work.does_more(2));
        until("the objects are back", || removed.iter().all(|file| file.exists()));
        check_file(&pnfs);
        until_whole(&cluster);
    }
    works.iter_mut().for_each(|work| work.does_more(1));
    end(works, "objects lost");
    pnfs.run("sync");
    v3.run("sync");
    check_copies(&cluster, 0..DATA_SERVERS, 2);
}
