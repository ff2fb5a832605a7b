//! What a replica does with its log and its disk.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use namespace::{Command, Create, Exists, InodeId, NewAttributes, NewNode, Proposal, Stamp};
use openraft::RaftLogReader;
use openraft::storage::RaftLogStorage;
use store::MemoryStore;

use super::{Replica, ReplicaConfig};
use crate::work::{Ground, LogKept};

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
