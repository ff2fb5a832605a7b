//! Members of chains move while servers are killed: the leader, one that has the data, one that gets them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;

use crate::servers::{Client, Cluster, PORT, ask, until};

pub const DATA_SERVERS: usize = 4;
pub const FILES: usize = 8;
const FILE_BYTES: usize = 8 << 20;

pub fn leader(cluster: &Cluster) -> usize {
    let name = cluster.status()["leader"].as_str().map(str::to_owned).expect("a leader");
    (0..cluster.metaservers.len()).find(|n| name == format!("mds{n}")).expect("one of them leads")
}

/// Files with bytes on a target, by name.
fn objects(cluster: &Cluster, n: usize) -> BTreeMap<String, Vec<u8>> {
    let dirs = std::fs::read_dir(cluster.file(&format!("target{n}")).join("objects")).unwrap();
    let files = dirs.flat_map(|dir| std::fs::read_dir(dir.unwrap().path()).unwrap());
    let object = |file: std::fs::DirEntry| {
        (file.file_name().into_string().unwrap(), std::fs::read(file.path()).unwrap_or_default())
    };
    let all = files.map(|file| object(file.unwrap()));
    all.filter(|(name, bytes)| !name.ends_with(".sums") && !bytes.is_empty()).collect()
}

/// Two targets have each object with data, with equal bytes.
pub fn check_copies(cluster: &Cluster) {
    let mut copies = BTreeMap::<String, Vec<Vec<u8>>>::new();
    for n in 0..DATA_SERVERS {
        objects(cluster, n).into_iter().for_each(|(name, bytes)| copies.entry(name).or_default().push(bytes));
    }
    assert!(copies.len() >= FILES, "{} objects", copies.len());
    for (name, copies) in copies {
        assert_eq!(copies.len(), 2, "{name}");
        assert!(copies[0] == copies[1], "the copies of {name} differ");
    }
}

/// A client that writes files and reads them back, at a metaserver that is not killed.
pub struct Worker {
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

pub fn bytes(file: usize, round: usize) -> Bytes {
    Bytes::from(vec![(7 * file + round) as u8; FILE_BYTES])
}

impl Worker {
    pub fn start(client: Client, files: Vec<Bytes>) -> Self {
        let (stop, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (stops, counts) = (Arc::clone(&stop), Arc::clone(&rounds));
        let task = tokio::spawn(async move {
            while !stops.load(Ordering::Relaxed) {
                let round = counts.load(Ordering::Relaxed) + 1;
                for (n, file) in files.iter().enumerate() {
                    write(&client, file, bytes(n, round)).await;
                    for at in (0..FILE_BYTES).step_by(1 << 20) {
                        let read = client.read(file.clone(), at as u64, 64).await.expect("a read");
                        assert_eq!(
                            read.as_ref(),
                            &bytes(n, round)[at..at + 64],
                            "file {n}, round {round}, at {at}"
                        );
                    }
                }
                counts.store(round, Ordering::Relaxed);
            }
        });
        Self { stop, rounds, task }
    }

    pub async fn end(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.expect("no error at the client");
        self.rounds.load(Ordering::Relaxed)
    }
}

/// Writes and commits.
pub async fn write(client: &Client, file: &Bytes, bytes: Bytes) {
    nfs_rs::write_all(&**client, file.clone(), 0, bytes).await.expect("a write");
    client.commit(file.clone(), 0, 0).await.expect("a commit");
}

/// Each data server drains in turn; in the midst of it a server is killed, and comes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_move_off_each_data_server_while_others_and_the_leader_are_killed() {
    let mut cluster = Cluster::start(3, DATA_SERVERS);
    cluster.ask(0, &["set", "rebalance", "false"]).unwrap();
    cluster.ask(0, &["set", "trash_time", "0s"]).unwrap();
    cluster.ask(0, &["stripe", "set", "/", "--copies", "2"]).unwrap();
    until("chains", || cluster.status()["chains"]["count"].as_u64() > Some(0) && cluster.is_whole());
    let spared = (leader(&cluster) + 1) % 3;
    let ip = cluster.metaservers[spared].0;
    let url = format!("nfs://{ip}:{PORT}/?version=3&mountport={PORT}&noresvport=true");
    let client: Client = nfs_rs::parse_url_and_mount(&url).await.unwrap().into();
    let mut files = Vec::new();
    for n in 0..FILES {
        let file = client.create_path(&format!("f{n}"), Some(0o644)).await.unwrap().fh;
        write(&client, &file, bytes(n, 0)).await;
        files.push(file);
    }
    let worker = Worker::start(client, files);
    for drained in 0..DATA_SERVERS {
        let name = format!("ds{drained}");
        ask(ip, &["node", "drain", &name]).unwrap();
        until("members move", || cluster.status()["chains"]["moving"].as_u64() > Some(0));
        if drained % 2 == 0 {
            let leads = leader(&cluster);
            let victim = if leads == spared { (spared + 1) % 3 } else { leads };
            cluster.metaservers[victim].1 = None; // kill -9
            cluster.start_metaserver(victim);
        } else {
            let victim = (drained + 1) % DATA_SERVERS;
            cluster.data_servers[victim] = None;
            // Long enough for chains to go on without it.
            until("chains are without it", || cluster.status()["chains"]["incomplete"].as_u64() > Some(0));
            cluster.start_data_server(victim);
        }
        until("it is empty", || cluster.is_whole() && objects(&cluster, drained).is_empty());
        ask(ip, &["node", "undrain", &name]).unwrap();
    }
    let rounds = worker.end().await;
    assert!(rounds > 0);
    until("it is quiet", || cluster.is_whole());
    check_copies(&cluster);
}
