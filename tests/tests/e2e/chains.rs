//! Files with copies under real clients: data servers are killed one after another, and all at once, while clients
//! write. Nothing is lost, the copies come back by themselves, and all copies are equal in the end.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tests::stalls::{self, Work};
use tests::{Client, Cluster, Lab, MOUNT_POINT};

const DATA_SERVERS: usize = 4;
/// Longest wait until all chains have all members again, on a busy machine.
const WHOLE_TIME_MAX: Duration = Duration::from_secs(120);
/// Size of the file that is there before the first kill, in MiB.
const FILE_MIB: u32 = 48;
/// Size of the file that is written meanwhile, in MiB.
const DATA_MIB: &str = "4";

fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < WHOLE_TIME_MAX, "not after {WHOLE_TIME_MAX:?}: {what}");
        std::thread::sleep(Duration::from_millis(200)); // between two looks
    }
}

/// Numbers of chains, by the state of their members.
fn chains(cluster: &Cluster) -> serde_json::Value {
    let status: serde_json::Value = serde_json::from_str(&cluster.status_json()).expect("the status is JSON");
    status["chains"].clone()
}

/// Waits until all chains have all their members.
fn until_whole(cluster: &Cluster) {
    until("all chains have all members", || {
        let chains = chains(cluster);
        chains["count"].as_u64() > Some(0)
            && ["refilling", "incomplete", "waiting"].iter().all(|state| chains[*state] == 0)
    });
}

fn cluster_with_copies(lab: &Lab, copies: usize) -> Cluster {
    let cluster = Cluster::separate(lab, DATA_SERVERS);
    cluster.admin(&["stripe", "set", "/", "--copies", &copies.to_string()]);
    until_whole(&cluster);
    cluster
}

/// Makes a file, durably, and keeps its content on the client.
fn make_file(client: &Client) {
    client.run(&format!(
        "head -c {FILE_MIB}M /dev/urandom >/mnt/before; cp /mnt/before {MOUNT_POINT}/before; sync {MOUNT_POINT}/before"
    ));
}

/// Reads the file at the data servers, and compares.
fn check_file(client: &Client) {
    client.run(&format!("echo 3 >/proc/sys/vm/drop_caches; cmp /mnt/before {MOUNT_POINT}/before"));
}

/// Files of objects below a directory, each with its name.
fn objects(dir: &Path, found: &mut BTreeMap<String, Vec<PathBuf>>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        // volume, inode, generation and column
        let is_object = name.split('.').count() == 4 && name.len() == 43;
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && name != "trash" => objects(&path, found),
            Ok(kind) if kind.is_file() && is_object => found.entry(name).or_default().push(path),
            _ => {}
        }
    }
}

/// Checks that each object is on as many targets of these data servers as its file has copies, with the same bytes.
fn check_copies(cluster: &Cluster, data_servers: impl IntoIterator<Item = usize>, copies: usize) {
    let mut found = BTreeMap::new();
    for number in data_servers {
        objects(&cluster.folder().join(format!("ds{number}")), &mut found);
    }
    assert!(found.len() >= 2, "{found:?}");
    for (name, paths) in found {
        assert_eq!(paths.len(), copies, "{name}: {paths:?}");
        let contents = paths.iter().map(|path| fs::read(path).expect("reads an object"));
        let contents: Vec<Vec<u8>> = contents.collect();
        assert!(contents.windows(2).all(|pair| pair[0] == pair[1]), "{name} differs: {paths:?}");
    }
}

fn longest(stalls: &[stalls::Stall]) -> f64 {
    stalls.iter().map(|stall| stall.took.as_secs_f64()).fold(0.0, f64::max)
}

#[test]
fn copies_survive_data_servers_that_are_killed_one_after_another() {
    for copies in [2, 3] {
        let lab = Lab::open();
        let mut cluster = cluster_with_copies(&lab, copies);
        let (pnfs, v3) = (lab.client("pnfs"), lab.client("v3"));
        cluster.mount(&pnfs, "vers=4.2");
        cluster.mount(&v3, "vers=3");
        make_file(&pnfs);
        let begin = |client, name: &str| {
            Work::begin(client, "data", stalls::DATA, &[&format!("{MOUNT_POINT}/{name}"), DATA_MIB])
        };
        let mut works = [begin(&pnfs, "pnfs"), begin(&v3, "v3")];
        works.iter_mut().for_each(|work| work.does_more(1));
        for killed in 0..DATA_SERVERS {
            cluster.ds(killed).kill();
            works.iter_mut().for_each(|work| work.does_more(2));
            check_file(&pnfs);
            cluster.ds(killed).start();
            until_whole(&cluster);
        }
        for (work, version) in works.into_iter().zip(["4.2", "3"]) {
            let (said, stalls) = work.end();
            let longest = longest(&stalls);
            println!(
                "{copies} copies, vers={version}, {} rounds: longest operation {longest:.2} s",
                said.trim()
            );
        }
        pnfs.run("sync");
        v3.run("sync");
        check_copies(&cluster, 0..DATA_SERVERS, copies);
    }
}

#[test]
fn acknowledged_data_survive_all_data_servers_killed_at_once() {
    let lab = Lab::open();
    let mut cluster = cluster_with_copies(&lab, 2);
    let client = lab.client("writer");
    cluster.mount(&client, "vers=4.2");
    make_file(&client);
    let path = format!("{MOUNT_POINT}/work");
    let mut work = Work::begin(&client, "data", stalls::DATA, &[&path, DATA_MIB]);
    work.does_more(1);
    for _ in 0..2 {
        (0..DATA_SERVERS).for_each(|number| cluster.ds(number).kill());
        (0..DATA_SERVERS).for_each(|number| cluster.ds(number).start());
        work.does_more(2);
        check_file(&client);
        until_whole(&cluster);
    }
    let (said, stalls) = work.end();
    println!("all killed at once, {} rounds: longest operation {:.2} s", said.trim(), longest(&stalls));
    client.run("sync");
    check_copies(&cluster, 0..DATA_SERVERS, 2);
}

#[test]
fn copies_move_off_a_data_server_that_drains_and_replace_those_of_a_lost_one() {
    let lab = Lab::open();
    let mut cluster = cluster_with_copies(&lab, 2);
    cluster.admin(&["set", "replace_after", "10s"]);
    let client = lab.client("writer");
    cluster.mount(&client, "vers=4.2");
    make_file(&client);
    let path = format!("{MOUNT_POINT}/work");
    let mut work = Work::begin(&client, "data", stalls::DATA, &[&path, DATA_MIB]);
    work.does_more(1);
    cluster.admin(&["node", "drain", "ds0"]);
    until("the drained data server is empty", || {
        cluster.try_admin(&["node", "remove", "ds0", "--role", "ds"]).is_ok()
    });
    cluster.ds(0).stop();
    work.does_more(2);
    check_file(&client);
    until_whole(&cluster);
    cluster.ds(1).kill();
    until("a copy is missing", || chains(&cluster)["incomplete"] != 0);
    until_whole(&cluster);
    work.does_more(2);
    check_file(&client);
    let (said, stalls) = work.end();
    println!("drained, then lost, {} rounds: longest operation {:.2} s", said.trim(), longest(&stalls));
    client.run("sync");
    check_copies(&cluster, 2..DATA_SERVERS, 2);
}
