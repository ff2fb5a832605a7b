//! What a replica does with its log and its disk.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use host::{File, Files, Opened, SystemFiles};
use namespace::{Command, Create, Exists, InodeId, NewAttributes, NewNode, Proposal, Stamp};
use openraft::RaftLogReader;
use openraft::raft::AppendEntriesRequest;
use openraft::storage::RaftLogStorage;
use store::MemoryStore;

use super::{Opening, Replica, ReplicaConfig};
use crate::consensus;
use crate::types::{LeaderId, Vote};
use crate::work::{Ground, LogKept};

/// Nothing here takes longer, unless it never ends.
const LIMIT: Duration = Duration::from_secs(30);

fn mkdir(name: &str) -> Proposal {
    let attributes = NewAttributes { mode: 0o755, uid: 0, gid: 0, accessed: None, modified: None };
    let (dir, node) = (InodeId::ROOT, NewNode::Directory);
    let create = Create { dir, name: name.into(), node, attributes, exists: Exists::Refuse };
    Proposal { stamp: Stamp::default(), origin: None, command: Command::Create(create) }
}

/// Bytes of the segments in a log.
fn bytes_of_log(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir.join("log")).unwrap().map(|file| file.unwrap());
    let segments = files.filter(|file| file.path().extension().is_some_and(|e| e == "log"));
    segments.map(|segment| segment.metadata().unwrap().len()).sum()
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_of_the_log_for_members_who_were_away_is_there_after_a_purge() {
    const KEPT: u64 = 32 << 10;
    let dir = tempfile::tempdir().unwrap();
    let log_kept = LogKept { always: KEPT, for_lagging: KEPT };
    let ground = Ground {
        segment_bytes: 4096,
        log_kept,
        pace: Some(Arc::new(|| Duration::ZERO)),
        ..Ground::default()
    };
    let (config, store) = (ReplicaConfig::alone(dir.path().to_owned(), 0), Arc::new(MemoryStore::new()));
    let replica = Replica::open_on(ground, config, store, Stamp::default(), Arc::new(()), Arc::new(()));
    let replica = replica.await.unwrap();
    let mut log = replica.service.log.clone();
    let mut before = None;
    for round in 0..4 {
        for n in 0..1000 {
            replica.propose(mkdir(&format!("d{round}.{n}"))).await.unwrap();
        }
        // Until the store was brought to disk, and the log given up from its beginning.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let purged = log.get_log_state().await.unwrap().last_purged_log_id;
        assert!(purged > before, "round {round}: {purged:?} after {before:?}");
        before = purged;
        let first = purged.unwrap().index + 1;
        let left = log.limited_get_log_entries(0, u64::MAX).await.unwrap();
        assert_eq!(left[0].log_id.index, first, "the first that is there follows what was given up");
        let kept = bytes_of_log(dir.path());
        assert!((KEPT..KEPT + 2 * 4096).contains(&kept), "round {round}: {kept} bytes are kept");
    }
    replica.stop_tasks().await;
}

/// A disk on which no file can be made while it is full.
#[derive(Default)]
struct FullDisk(AtomicBool);

impl Files for FullDisk {
    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        SystemFiles.make_dir(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        SystemFiles.list(dir)
    }

    fn open(&self, path: &Path, how: Opened) -> io::Result<Box<dyn File>> {
        match how == Opened::New && self.0.load(Ordering::Relaxed) {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => SystemFiles.open(path, how),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        SystemFiles.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        SystemFiles.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        SystemFiles.sync_dir(dir)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_replica_whose_vote_waits_behind_a_full_disk_can_be_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(FullDisk::default());
    let ground = Ground { files: Arc::clone(&disk) as _, segment_bytes: 4096, ..Ground::default() };
    let (config, store) = (ReplicaConfig::alone(dir.path().to_owned(), 0), Arc::new(MemoryStore::new()));
    let opened = Opening::new(ground, config, store, Stamp::default(), Arc::new(()), Arc::new(()));
    let (parts, opening) = opened.unwrap();
    let replica = opening.replica(consensus::start(parts).unwrap());
    disk.0.store(true, Ordering::Relaxed);
    for n in 0..200 {
        let replica = replica.clone();
        tokio::spawn(async move { replica.propose(mkdir(&format!("d{n}"))).await });
    }
    let asked = tokio::time::Instant::now();
    while !replica.service.log.is_full() {
        assert!(asked.elapsed() < LIMIT, "the log finds no room");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Another one leads: that is noted on disk before anything else.
    let raft = replica.service.raft.clone();
    tokio::spawn(async move {
        let vote = Vote { leader_id: LeaderId { term: 99, node_id: 2 }, committed: true };
        let from_leader =
            AppendEntriesRequest { vote, prev_log_id: None, entries: vec![], leader_commit: None };
        raft.append_entries(from_leader).await
    });
    tokio::time::sleep(Duration::from_millis(300)).await;

    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        replica.stop();
        tell.send(())
    });
    let stopped = tokio::task::spawn_blocking(move || told.recv_timeout(LIMIT)).await.unwrap();
    disk.0.store(false, Ordering::Relaxed);
    stopped.expect("it stops while the disk is full");
}
