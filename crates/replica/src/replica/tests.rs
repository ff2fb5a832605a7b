//! Replica with its log and its disk.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use host::{File, Files, Opened, SystemFiles};
use namespace::{
    ApplyError, Command, Create, Exists, InodeId, NewAttributes, NewNode, Outcome, Proposal, Reply, Stamp,
};
use openraft::RaftLogReader;
use openraft::raft::AppendEntriesRequest;
use openraft::storage::RaftLogStorage;
use store::{MemoryStore, Store, View};

use super::{Opening, Replica, ReplicaConfig};
use crate::consensus;
use crate::environment::{Environment, LogRetention};
use crate::state::digest::Digest;
use crate::transport::{self, Request};
use crate::types::{Change, LeaderId, Vote};

/// Longest time of a step; a test that needs more hangs.
const LIMIT: Duration = Duration::from_secs(30);

fn mkdir(name: &str) -> Proposal {
    let attributes = NewAttributes { mode: 0o755, uid: 0, gid: 0, accessed: None, modified: None };
    let (dir, node) = (InodeId::ROOT, NewNode::Directory);
    let create = Create { dir, name: name.into(), node, attributes, exists: Exists::Refuse };
    Proposal::new(Stamp::default(), None, Command::Create(create))
}

/// An environment without threads, whose disk takes no time.
fn immediate() -> Environment {
    Environment { disk_delay: Some(Arc::new(|| Duration::ZERO)), ..Environment::default() }
}

/// A group of one in `dir`, on this store.
async fn open(environment: Environment, dir: &Path, store: &Arc<MemoryStore>) -> Replica {
    let (config, store) = (ReplicaConfig::alone(dir.to_owned(), 0), Arc::clone(store));
    let replica = Replica::open_in(environment, config, store, Stamp::default(), Arc::new(()), Arc::new(()));
    replica.await.unwrap()
}

/// Size of a log's segments.
fn bytes_of_log(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir.join("log")).unwrap().map(|file| file.unwrap());
    let segments = files.filter(|file| file.path().extension().is_some_and(|e| e == "log"));
    segments.map(|segment| segment.metadata().unwrap().len()).sum()
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_of_the_log_for_members_who_were_away_is_there_after_a_purge() {
    const KEPT: u64 = 32 << 10;
    let dir = tempfile::tempdir().unwrap();
    let log_retention = LogRetention { always: KEPT, for_lagging_members: KEPT };
    let environment = Environment { segment_bytes: 4096, log_retention, ..immediate() };
    let replica = open(environment, dir.path(), &Arc::default()).await;
    let mut log = replica.service.log.clone();
    let mut before = None;
    for round in 0..4 {
        for n in 0..1000 {
            replica.propose(mkdir(&format!("d{round}.{n}"))).await.unwrap();
        }
        // Until the store was written to disk, and the log purged.
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

/// State machine that breaks an invariant when it has planned.
fn breaks_on_poison(view: &dyn View, proposal: &Proposal) -> Result<Outcome, ApplyError> {
    let outcome = namespace::plan(view, proposal)?;
    match &proposal.command {
        Command::Create(create) if create.name == b"poison" => panic!("an invariant does not hold"),
        _ => Ok(outcome),
    }
}

#[tokio::test(start_paused = true)]
async fn a_command_that_breaks_an_invariant_is_given_up_whole_and_all_goes_on_also_after_a_replay() {
    let dir = tempfile::tempdir().unwrap();
    let environment = || Environment { plan: breaks_on_poison, ..immediate() };
    let mut seen = vec![];
    // The second time with an empty store: all commands are applied again.
    for _ in 0..2 {
        let store = Arc::new(MemoryStore::new());
        let before = crate::faults();
        let replica = open(environment(), dir.path(), &store).await;
        if seen.is_empty() {
            replica.propose(mkdir("before")).await.unwrap();
            for _ in 0..2 {
                let reply = replica.propose(mkdir("poison")).await.unwrap();
                assert_eq!(reply, Reply::Refused(namespace::Error::Fault));
            }
            replica.propose(mkdir("after")).await.unwrap();
        }
        assert_eq!(crate::faults() - before, 2);
        let view = store.snapshot().unwrap();
        assert_eq!(namespace::check(&*view).unwrap(), Vec::<String>::new());
        let named = |name: &[u8]| namespace::read::lookup(&*view, InodeId::ROOT, name).unwrap();
        assert_eq!(named(b"poison"), None);
        let (digest, last) = (Digest::of_view(&*view).unwrap(), replica.service.history.last().unwrap().1);
        assert_eq!(digest, last, "the digest is that of what is there");
        seen.push((named(b"before"), named(b"after")));
        assert!(seen[0].0.is_some() && seen[0].1.is_some() && seen[0] == *seen.last().unwrap());
        replica.stop_tasks().await;
    }
}

#[tokio::test(start_paused = true)]
async fn times_of_commands_never_go_back_whatever_clocks_say() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(MemoryStore::new());
    let replica = open(immediate(), dir.path(), &store).await;
    let mut modified = vec![];
    for seconds in [100, 107, 103, 108] {
        let proposal = mkdir(&format!("d{seconds}"));
        let stamp = Stamp { time: namespace::Time { seconds, nanoseconds: 0 }, random: 7 };
        replica.propose(Proposal { stamp, ..proposal }).await.unwrap();
        let root = namespace::read::inode(&*store.snapshot().unwrap(), InodeId::ROOT).unwrap().unwrap();
        modified.push(root.modified.seconds);
    }
    assert_eq!(modified, [100, 107, 107, 108]);
    replica.stop_tasks().await;
}

#[tokio::test(start_paused = true)]
async fn a_message_of_another_incarnation_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let replica = open(immediate(), dir.path(), &Arc::default()).await;
    let own = replica.incarnation().expect("it has one from its first command on");
    let who = transport::encode(&Request::Propose(Change(Arc::new(mkdir("d")))));
    let message = |head: &[u8]| [head, &who[..]].concat();
    let from = |id: [u8; 16]| [&[1][..], &id].concat();
    let refused = replica.serve(&message(&from([9; 16]))).await.unwrap_err();
    assert!(refused.contains("another incarnation of the group"), "{refused}");
    let root = |replica: &Replica| {
        namespace::read::inode(&*replica.view().unwrap(), InodeId::ROOT).unwrap().unwrap().change
    };
    let before = root(&replica);
    assert!(replica.serve(&message(&[1, 2, 3])).await.is_err(), "cut short");
    assert_eq!(root(&replica), before);
    replica.serve(&message(&from(own.id))).await.unwrap();
    assert_ne!(root(&replica), before);
    replica.stop_tasks().await;
}

/// ```text
/// leader: Append with an unknown command -> the member fails, says which version to install, changes nothing
/// peer:   an unknown question            -> refused; the member goes on
/// ```
#[tokio::test(start_paused = true)]
async fn a_member_that_is_sent_a_command_of_a_newer_version_stops_and_says_what_to_install() {
    let dir = tempfile::tempdir().unwrap();
    let replica = open(immediate(), dir.path(), &Arc::default()).await;
    let own = replica.incarnation().expect("it has one from its first command on");
    let message = |body: &[u8]| [&[1][..], &own.id, &[transport::VERSION], body].concat();
    let question = postcard::to_stdvec(&(99_u32, "what a later version asks")).unwrap();
    let refused = replica.serve(&message(&question)).await.unwrap_err();
    assert!(refused.contains("of a newer version"), "{refused}");
    // For another member that had this address before.
    let other = postcard::to_stdvec(&(0_u32, 7_u64, 0_u32)).unwrap();
    assert!(replica.serve(&message(&other)).await.is_err());
    replica.propose(mkdir("goes-on")).await.unwrap();
    let before = replica.service.log.next();

    let entries = vec![openraft::entry::RaftEntry::new_blank(crate::types::LogId {
        leader_id: LeaderId { term: 9, node_id: 2 },
        index: before,
    })];
    let append = AppendEntriesRequest::<crate::types::Types> {
        vote: Vote::new_committed(9, 2),
        prev_log_id: None,
        entries,
        leader_commit: None,
    };
    let append = Request::Consensus(replica.service.id, crate::transport::Consensus::Append(append));
    let mut append = transport::encode(&append)[1..].to_vec();
    // The payload's kind is the byte before `leader_commit`, which is None: make it an unknown one.
    let payload = append.len() - 2;
    append[payload] = 99;
    let refused = replica.serve(&message(&append)).await.unwrap_err();
    assert!(refused.contains("of a newer version"), "{refused}");
    let why = replica.failed().await;
    assert!(why.contains("a change that this version of heorot does not understand"), "{why}");
    assert!(why.ends_with("install the version of the others") && replica.is_out_of_service(), "{why}");
    assert_eq!(replica.service.log.next(), before, "nothing of it is in the log");
    replica.stop_tasks().await;
}

/// Disk on which no file can be created while it is full.
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
    let environment =
        Environment { files: Arc::clone(&disk) as _, segment_bytes: 4096, ..Environment::default() };
    let (config, store) = (ReplicaConfig::alone(dir.path().to_owned(), 0), Arc::new(MemoryStore::new()));
    let opened = Opening::new(environment, config, store, Stamp::default(), Arc::new(()), Arc::new(()));
    let (context, opening) = opened.unwrap();
    let replica = opening.replica(consensus::start(context).unwrap());
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
    // Another member leads: that is saved before anything else.
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
