//! Backup, loss of all machines, and restore of the group, as `heorot backup` and `heorot restore` do. One
//! machine of the old group, believed lost, still runs.

use std::sync::Arc;
use std::time::Duration;

use namespace::{Command, InodeId, Proposal, SetAttributes, Stamp, read};
use replica::{BackupReader, Replica};
use store::{Store, View};
use tokio::runtime::Builder;

use crate::bug::Bug;
use crate::member::{Member, replica_member};
use crate::net::{Address, CLIENTS};
use crate::rng::Rng;
use crate::shared::Shared;

/// Address of the machine of the old group, at which the new group never had a member.
const LEFT_OVER: Address = CLIENTS - 1;
/// Random bits of its proposals, which no other proposal has.
pub const OLD_MEMBER_RANDOM: u64 = 0x01d_c1a0_0000_0001;
/// Interval of its proposals.
const PROPOSES_EVERY_MS: u64 = 100;

/// Backup of a group.
pub struct Backup {
    /// Moment of its request.
    pub asked: u64,
    /// Index after its last command.
    pub applied: u64,
    /// Contents of the file.
    bytes: Vec<u8>,
}

/// Takes a backup, as a metaserver does.
async fn back_up(replica: &Replica, shared: &Shared) -> Result<Backup, String> {
    let asked = shared.history().moment();
    replica.barrier().await.map_err(|e| e.to_string())?;
    let view: Arc<dyn View + Send + Sync> = replica.view().map_err(|e| e.to_string())?.into();
    let mut backup = replica::Backup::taken(view, [7; 16], 0, "sim").map_err(|e| e.to_string())?;
    let mut bytes = vec![];
    while let Some(piece) = backup.next_piece().map_err(|e| e.to_string())? {
        bytes.extend(piece);
    }
    let (_, head) = BackupReader::open(&bytes[..]).map_err(|e| e.to_string())?;
    Ok(Backup { asked, applied: head.applied, bytes })
}

impl Member {
    /// Requests a backup from this member.
    pub(crate) fn back_up(&self) {
        let (shared, id) = (Arc::clone(self.shared()), self.id);
        self.spawn(move |replica| async move {
            match back_up(&replica, &shared).await {
                Ok(backup) => {
                    shared.note(|| format!("member {id} gives a backup of what is below {}", backup.applied));
                    *shared.backup() = Some(backup);
                }
                Err(why) => shared.note(|| format!("member {id} gives no backup: {why}")),
            }
        });
    }

    /// Restores a backup on this machine, whose disk is empty, as the first one of a new group. `expected`:
    /// the hash of a store with all of the backup.
    pub(crate) fn restore(&mut self, backup: &Backup, expected: Option<u64>) -> Result<(), String> {
        let (reader, _) = BackupReader::open(&backup.bytes[..]).map_err(|e| e.to_string())?;
        self.store.replace(&mut reader.pairs()).map_err(|e| e.to_string())?;
        if expected.is_some_and(|expected| expected != self.store.now().sum()) {
            return Err("the backup holds other things than the member did that it was taken of".into());
        }
        let stamp = self.stamp();
        let (environment, mut config, observer) =
            (self.environment(stamp.random), self.config(), self.observer());
        let store: Arc<dyn Store> = self.store.clone();
        let founder = (self.id, replica_member(self.address));
        if self.shared().bug == Some(Bug::RestoredStoreNotCovered) {
            config.founds = true;
        } else {
            let begun = replica::begin_restored(&environment, &config.dir, &*store, founder, backup.applied);
            begun.map_err(|e| e.to_string())?;
        }
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.map_err(|e| e.to_string())?;
        runtime.block_on(async {
            let alone = Replica::open_in(environment, config, store, stamp, Arc::new(()), observer).await;
            let alone = alone.map_err(|e| e.to_string())?;
            let ended = end_clients(&alone, stamp).await;
            alone.stop_tasks().await;
            ended
        })?;
        self.mark_joined();
        Ok(())
    }
}

/// Ends the state of clients before any request is served.
async fn end_clients(replica: &Replica, stamp: Stamp) -> Result<(), String> {
    let view = replica.view().map_err(|e| e.to_string())?;
    for client in read::clients(&*view).map_err(|e| e.to_string())? {
        for command in [Command::LapseLease { client, sequence: None }, Command::ExpireClient { client }] {
            replica.propose(Proposal::new(stamp, None, command)).await.map_err(|e| e.to_string())?;
        }
    }
    Ok(())
}

/// Machine of the old group.
pub struct OldMember {
    member: Member,
    shared: Arc<Shared>,
    rng: Rng,
    next_ms: u64,
}

impl OldMember {
    /// Creates it with the current disk of `member`, at another address.
    pub(crate) fn new(member: &mut Member, shared: &Arc<Shared>, rng: Rng) -> Self {
        member.kill(true);
        let mut member = member.moved(LEFT_OVER);
        member.start();
        Self { member, shared: Arc::clone(shared), rng, next_ms: 0 }
    }

    /// Runs one millisecond: now and then it proposes a command, which it forwards to the member that it
    /// takes for the leader.
    pub(crate) fn step(&mut self, now_ms: u64) {
        self.member.advance(1);
        if now_ms < self.next_ms {
            return;
        }
        self.next_ms = now_ms + self.rng.within(1..=PROPOSES_EVERY_MS);
        let stamp = Stamp { random: OLD_MEMBER_RANDOM, ..self.member.stamp() };
        let set = SetAttributes { mode: Some(0o700), ..SetAttributes::default() };
        let command = Command::SetAttributes { inode: InodeId::ROOT, set };
        let shared = Arc::clone(&self.shared);
        self.member.spawn(move |replica| async move {
            let was_alone = replica.is_alone();
            let limit = Duration::from_secs(1);
            let proposed = replica.propose(Proposal::new(stamp, None, command));
            if let Ok(Ok(reply)) = tokio::time::timeout(limit, proposed).await
                && !was_alone
            {
                shared.report_failure(
                    shared.incarnation(),
                    format!("a member of the old group was answered {reply:?}"),
                );
            }
        });
    }
}
