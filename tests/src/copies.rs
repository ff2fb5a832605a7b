//! Files with copies: what a cluster tells of its chains, and a comparison of the copies below the data servers.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::stalls::Stall;
use crate::{Client, Cluster, MOUNT_POINT};

/// Longest wait until all chains have all members again, on a busy machine.
const WHOLE_TIME_MAX: Duration = Duration::from_secs(120);
/// Size of the file that is there before the first fault, in MiB.
const FILE_MIB: u32 = 48;

/// Waits until something is so.
#[track_caller]
pub fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < WHOLE_TIME_MAX, "not after {WHOLE_TIME_MAX:?}: {what}");
        std::thread::sleep(Duration::from_millis(200)); // between two looks
    }
}

/// Numbers of chains, by the state of their members.
#[track_caller]
pub fn chains(cluster: &Cluster) -> serde_json::Value {
    let status: serde_json::Value = serde_json::from_str(&cluster.status_json()).expect("the status is JSON");
    status["chains"].clone()
}

/// Waits until all chains have all their members.
#[track_caller]
pub fn until_whole(cluster: &Cluster) {
    until("all chains have all members", || {
        let chains = chains(cluster);
        chains["count"].as_u64() > Some(0)
            && ["refilling", "moving", "incomplete", "waiting"].iter().all(|state| chains[*state] == 0)
    });
}

/// Makes a file, durably, and keeps its content on the client.
#[track_caller]
pub fn make_file(client: &Client) {
    client.run(&format!(
        "head -c {FILE_MIB}M /dev/urandom >/mnt/before; cp /mnt/before {MOUNT_POINT}/before; sync {MOUNT_POINT}/before"
    ));
}

/// Reads the file at the data servers, and compares.
#[track_caller]
pub fn check_file(client: &Client) {
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
#[track_caller]
pub fn check_copies(cluster: &Cluster, data_servers: impl IntoIterator<Item = usize>, copies: usize) {
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

/// The longest of these operations, in seconds.
pub fn longest(stalls: &[Stall]) -> f64 {
    stalls.iter().map(|stall| stall.took.as_secs_f64()).fold(0.0, f64::max)
}
