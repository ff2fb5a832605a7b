//! Data move to targets that are added, and off a data server that drains, while clients read and write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use serde_json::Value;

use crate::servers::{Client, Cluster, until};
use crate::small_disk::SmallDisk;
use crate::targets::{json, mount3};

const FILES: usize = 30;
const FILE_BYTES: usize = 8 << 20;

/// Shares of used bytes of the targets, by data server; the trash counts as free.
fn shares(cluster: &Cluster) -> Vec<f64> {
    let status = json(cluster, &["status", "--json"]);
    let share = |server: &Value| {
        let target = &server["targets"][0];
        let bytes = |key: &str| target[key].as_f64().expect("bytes");
        1.0 - bytes("free_bytes") / bytes("total_bytes")
    };
    status["data_servers"].as_array().expect("data servers").iter().map(share).collect()
}

fn spread(shares: &[f64]) -> f64 {
    let most = shares.iter().copied().fold(0.0, f64::max);
    most - shares.iter().copied().fold(1.0, f64::min)
}

/// Bytes of the files after `round` rounds of writes.
fn bytes(file: usize, round: usize) -> Bytes {
    Bytes::from(vec![(7 * file + round) as u8; FILE_BYTES])
}

/// Writes the files again and again, and reads each back, until it is told to stop. Returns the rounds.
async fn work(client: Client, files: Vec<Bytes>, stop: Arc<AtomicBool>) -> usize {
    let mut round = 0;
    while !stop.load(Ordering::Relaxed) {
        round += 1;
        for (n, file) in files.iter().enumerate() {
            nfs_rs::write_all(&*client, file.clone(), 0, bytes(n, round)).await.expect("a write");
            client.commit(file.clone(), 0, 0).await.expect("a commit");
            check(&client, file, n, round).await;
        }
    }
    round
}

/// Reads pieces of each MiB.
async fn check(client: &Client, file: &Bytes, n: usize, round: usize) {
    let wanted = bytes(n, round);
    for at in (0..FILE_BYTES).step_by(1 << 18) {
        let read = client.read(file.clone(), at as u64, 1 << 12).await.expect("a read");
        assert_eq!(read.as_ref(), &wanted[at..at + (1 << 12)], "file {n}, round {round}, at {at}");
    }
}

/// Two data servers keep two copies; two are added, then one drains, under a client that writes and reads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_move_to_added_targets_and_off_a_draining_one_while_clients_work() {
    let mut cluster = Cluster::start(1, 0);
    let mut disks = Vec::new();
    for n in 0..4 {
        disks.push(SmallDisk::mount(&cluster.file(&format!("target{n}")), "800m"));
    }
    (0..2).for_each(|n| cluster.add_data_server(n));
    until("two are there", || shares(&cluster).len() == 2);
    cluster.ask(0, &["stripe", "set", "/", "--copies", "2"]).unwrap();
    cluster.ask(0, &["set", "trash_time", "0s"]).unwrap();
    let client = mount3(&cluster).await;
    let mut files = Vec::new();
    for n in 0..FILES {
        let file = client.create_path(&format!("f{n}"), Some(0o644)).await.unwrap().fh;
        nfs_rs::write_all(&*client, file.clone(), 0, bytes(n, 0)).await.unwrap();
        client.commit(file.clone(), 0, 0).await.unwrap();
        files.push(file);
    }
    until("both are reported as equally full", || spread(&shares(&cluster)) < 0.02);
    let stop = Arc::new(AtomicBool::new(false));
    let worker = tokio::spawn(work(mount3(&cluster).await, files.clone(), Arc::clone(&stop)));

    (2..4).for_each(|n| cluster.add_data_server(n));
    until("four are there", || shares(&cluster).len() == 4);
    assert!(spread(&shares(&cluster)) > 0.1, "{:?}", shares(&cluster));
    until("data are even", || cluster.is_whole() && spread(&shares(&cluster)) <= 0.05);

    cluster.ask(0, &["node", "drain", "ds0"]).unwrap();
    let objects = |disk: &SmallDisk| {
        let dirs = std::fs::read_dir(disk.0.join("objects")).unwrap().map(|dir| dir.unwrap().path());
        dirs.map(|dir| std::fs::read_dir(dir).unwrap().count()).sum::<usize>()
    };
    until("the one that drains is empty", || cluster.is_whole() && objects(&disks[0]) == 0);
    until("the others are even", || cluster.is_whole() && spread(&shares(&cluster)[1..]) <= 0.05);
    stop.store(true, Ordering::Relaxed);
    let rounds = worker.await.expect("no error at the client");
    assert!(rounds > 0);
    for (n, file) in files.iter().enumerate() {
        check(&client, file, n, rounds).await;
    }
    cluster.ask(0, &["node", "remove", "ds0"]).unwrap();
}
