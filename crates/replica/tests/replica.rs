//! A replica's answers survive a crash; commands that the store already has are not applied twice.

use std::path::Path;
use std::sync::Arc;

use namespace::{Command, Create, Exists, InodeId, NewAttributes, NewNode, Proposal, Reply, Stamp, read};
use replica::{Replica, ReplicaConfig, ReplicaError};
use store::{Durability, Edit, MemoryStore, Pairs, Store, StoreError, View};

fn open(dir: &Path, store: Arc<dyn Store>, reserve_bytes: u64) -> Result<Replica, ReplicaError> {
    let config = ReplicaConfig::alone(dir.to_owned(), reserve_bytes);
    Replica::open(config, store, Stamp::default(), Arc::new(()), Arc::new(()))
}

fn mkdir(name: &str) -> Proposal {
    let attributes = NewAttributes { mode: 0o755, uid: 0, gid: 0, accessed: None, modified: None };
    let command = Command::Create(Create {
        dir: InodeId::ROOT,
        name: name.into(),
        node: NewNode::Directory,
        attributes,
        exists: Exists::Refuse,
    });
    Proposal::new(Stamp::default(), None, command)
}

fn has(replica: &Replica, name: &str) -> bool {
    let view = replica.view().unwrap();
    read::lookup(&*view, InodeId::ROOT, name.as_bytes()).unwrap().is_some()
}

#[tokio::test]
async fn commands_of_many_callers_are_all_there_after_a_restart_with_an_empty_store() {
    let dir = tempfile::tempdir().unwrap();
    let replica = open(dir.path(), Arc::new(MemoryStore::default()), 0).unwrap();
    let mut callers = tokio::task::JoinSet::new();
    for n in 0..200 {
        let replica = replica.clone();
        callers.spawn(async move { replica.propose(mkdir(&format!("d{n}"))).await });
    }
    while let Some(reply) = callers.join_next().await {
        assert!(matches!(reply.unwrap().unwrap(), Reply::Created { existed: false, .. }));
    }
    assert!(matches!(replica.propose(mkdir("d7")).await.unwrap(), Reply::Refused(namespace::Error::Exists)));
    replica.stop();

    // The store is lost; the log has everything.
    let replica = open(dir.path(), Arc::new(MemoryStore::default()), 0).unwrap();
    assert!((0..200).all(|n| has(&replica, &format!("d{n}"))));
    assert_eq!(namespace::check(&*replica.view().unwrap()).unwrap(), Vec::<String>::new());
    replica.stop();
}

#[tokio::test]
async fn a_process_whose_session_was_forgotten_for_others_begins_another() {
    let dir = tempfile::tempdir().unwrap();
    let replica = open(dir.path(), Arc::new(MemoryStore::default()), 0).unwrap();
    replica.propose(mkdir("before")).await.unwrap();
    for member in 100..100 + namespace::SERVERS_MAX as u64 {
        let command = Command::ServerStarts { member, age_ms: 0 };
        replica.propose(Proposal::new(Stamp::default(), None, command)).await.unwrap();
    }
    assert_eq!(replica.propose(mkdir("d")).await, Err(ReplicaError::Unknown));
    assert!(matches!(replica.propose(mkdir("d")).await, Ok(Reply::Created { existed: false, .. })));
    replica.stop();
}

#[tokio::test]
async fn a_nearly_full_disk_refuses_what_makes_something_and_lets_the_rest_pass() {
    let dir = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let replica = open(dir.path(), Arc::clone(&store), 0).unwrap();
    replica.propose(mkdir("d")).await.unwrap();
    replica.stop();

    let replica = open(dir.path(), store, u64::MAX).unwrap();
    assert_eq!(replica.propose(mkdir("e")).await, Err(ReplicaError::NoSpace));
    let expect = namespace::Expect::Directory;
    let command = Command::Remove { dir: InodeId::ROOT, name: "d".into(), expect };
    let reply = replica.propose(Proposal::new(Stamp::default(), None, command)).await.unwrap();
    assert!(matches!(reply, Reply::Removed { .. }));
    assert!(!has(&replica, "d") && !has(&replica, "e"));
    replica.stop();
}

/// Record that arrived from the network, with one byte of it that is written.
struct Received {
    _record: Arc<()>,
}

impl AsRef<[u8]> for Received {
    fn as_ref(&self) -> &[u8] {
        &[7; 4096]
    }
}

/// The log keeps its last entries in memory: each of a thousand writes of one byte would keep a whole record.
#[tokio::test]
async fn a_write_that_is_in_the_log_keeps_no_record_of_the_network() {
    let dir = tempfile::tempdir().unwrap();
    let replica = open(dir.path(), Arc::new(MemoryStore::default()), 0).unwrap();
    let record = Arc::new(());
    let data = bytes::Bytes::from_owner(Received { _record: Arc::clone(&record) }).slice(9..10);
    // That there is no such file is the reply of a command that is in the log.
    let command = Command::WriteInline { inode: InodeId(99), offset: 0, data };
    let reply = replica.propose(Proposal::new(Stamp::default(), None, command)).await.unwrap();
    assert_eq!(reply, Reply::Refused(namespace::Error::Stale));
    assert_eq!(Arc::strong_count(&record), 1, "the record is free");
    replica.stop();
}

/// Store whose disk fails on request.
struct Failing(MemoryStore, std::sync::atomic::AtomicBool);

impl Store for Failing {
    fn snapshot(&self) -> Result<Box<dyn View + Send + Sync>, StoreError> {
        self.0.snapshot()
    }

    fn batch(
        &self,
        durability: Durability,
        edit: &mut dyn FnMut(&mut dyn Edit) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        if self.1.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(StoreError::failed("commit", "EIO"));
        }
        self.0.batch(durability, edit)
    }

    fn replace(&self, pairs: &mut Pairs<'_>) -> Result<(), StoreError> {
        self.0.replace(pairs)
    }
}

#[tokio::test]
async fn a_failed_store_ends_the_service_and_a_restart_finds_what_was_logged() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(Failing(MemoryStore::default(), false.into()));
    let replica = open(dir.path(), Arc::clone(&store) as Arc<dyn Store>, 0).unwrap();
    replica.propose(mkdir("c")).await.unwrap();
    store.1.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(matches!(replica.propose(mkdir("d")).await, Err(ReplicaError::Failed(_))));
    assert!(replica.failed().await.contains("EIO"));
    assert!(matches!(replica.propose(mkdir("e")).await, Err(ReplicaError::Failed(_))));
    replica.stop();

    store.1.store(false, std::sync::atomic::Ordering::Relaxed);
    let replica = open(dir.path(), store, 0).unwrap();
    assert!(has(&replica, "d"), "nobody was told, but the log has it");
    assert!(!has(&replica, "e"));
    replica.stop();
}

#[tokio::test]
async fn a_damaged_applied_index_is_said_and_nothing_is_applied_twice() {
    let dir = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let replica = open(dir.path(), Arc::clone(&store), 0).unwrap();
    replica.propose(mkdir("d")).await.unwrap();
    replica.stop();
    for damage in [&[0; 12][..], &[], &7u64.to_be_bytes()] {
        store.batch(Durability::Immediate, &mut |edit| edit.put(b"\xffapplied", damage)).unwrap();
        let failure = open(dir.path(), Arc::clone(&store), 0).err().unwrap();
        assert!(failure.to_string().contains("applied index"), "{failure}");
    }
}
