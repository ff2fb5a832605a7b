//! A writer of a story: it has objects of its own, makes all kinds of changes, and reads what must be there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use wire::data::{
    Piece, Procedure, Status, allocate, commit, copy, make, punch, read, remove, stat, truncate, write,
};
use wire::xdr::{Decode, Encode};

use super::model::{CELL, Model, Object};
use crate::caller::{Called, Caller, Members};

/// Objects of a writer, and cells of an object, at most.
const OBJECTS: u64 = 3;
const CELLS: u64 = 300;
/// Cells of one write, at most.
const CELLS_OF_WRITE: u64 = 100;

/// What the parts of a story share.
#[derive(Clone, Default)]
pub struct Shared {
    pub members: Members,
    pub model: Model,
    /// Count of all that happened.
    pub now: Arc<AtomicU64>,
    /// Times that all members together have lost what was not synced.
    pub losses: Arc<AtomicU64>,
    pub ends: Arc<AtomicBool>,
    /// Writers are to pause, and how many do.
    pub pauses: Arc<AtomicBool>,
    pub resting: Arc<AtomicU64>,
}

impl Shared {
    pub fn tick(&self) -> u64 {
        self.now.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn losses(&self) -> u64 {
        self.losses.load(Ordering::SeqCst)
    }

    pub fn with<T>(&self, inode: u64, look: impl FnOnce(&mut Object) -> T) -> T {
        look(self.model.lock().entry(inode).or_default())
    }

    /// A call that syncs the object begins; returns the object's epoch.
    pub fn begin_sync(&self, inode: u64) -> u32 {
        self.with(inode, |object| {
            object.busy += 1;
            object.epoch
        })
    }

    /// It was answered; `straggles`: one of its tries was not.
    pub fn end_sync(&self, inode: u64, straggles: bool) {
        let now = self.tick();
        self.with(inode, |object| {
            object.busy -= 1;
            object.straggles |= straggles;
            object.maybe_synced = now;
        });
    }

    /// Pauses while the story says so.
    pub async fn rest_if_told(&self) {
        if self.pauses.load(Ordering::SeqCst) {
            self.resting.fetch_add(1, Ordering::SeqCst);
            while self.pauses.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            self.resting.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

pub struct Writer {
    pub shared: Shared,
    pub caller: Caller,
    /// Its objects; one that is removed gets another inode.
    inodes: Vec<u64>,
    next: u64,
}

impl Writer {
    pub fn new(shared: &Shared, seed: u64, first: u64) -> Self {
        let caller = Caller::new(&shared.members, seed);
        Self { shared: shared.clone(), caller, inodes: vec![], next: first }
    }

    /// Works until the story ends.
    pub async fn work(mut self) {
        while !self.shared.ends.load(Ordering::SeqCst) {
            self.shared.rest_if_told().await;
            if (self.inodes.len() as u64) < OBJECTS {
                self.make().await;
                continue;
            }
            let inode = self.inodes[self.caller.below(OBJECTS) as usize];
            match self.caller.below(20) {
                0 => self.remove(inode).await,
                1 => self.truncate(inode).await,
                2 => self.punch(inode).await,
                3 | 4 => self.commit(inode).await,
                5..8 => self.check(inode).await,
                8 => self.raise(inode).await,
                9 => self.allocate(inode).await,
                10 | 11 => self.copy(inode).await,
                _ => self.write(inode).await,
            }
        }
    }

    async fn make(&mut self) {
        let inode = self.next;
        self.next += 1;
        let losses = self.shared.losses();
        self.shared.with(inode, |object| {
            object.busy += 1;
            object.seen_losses = losses;
        });
        self.caller
            .call::<make::ResOk, _>((inode, 0), Procedure::Make, |handle| make::Args {
                handles: vec![handle],
            })
            .await;
        self.shared.with(inode, |object| object.busy -= 1);
        self.inodes.push(inode);
    }

    async fn remove(&mut self, inode: u64) {
        let epoch = self.shared.begin_sync(inode);
        let args = |handle| remove::Args { handles: vec![handle], only: remove::Only::All };
        self.caller.call::<remove::ResOk, _>((inode, epoch), Procedure::Remove, args).await;
        self.shared.with(inode, |object| object.is_removed = true);
        self.inodes.retain(|other| *other != inode);
    }

    /// A change of bytes. After a try without an answer it raises the epoch, as a metaserver does: the try may still be
    /// under way, and would be carried out over the next change.
    async fn change<T, A: Encode + Sync>(
        &mut self,
        object: (u64, u32),
        procedure: Procedure,
        args: impl Fn(Bytes) -> A,
    ) where
        Result<T, Status>: Decode,
    {
        let args = |member: &Called| args(member.handle(object));
        let done = self.caller.repeat::<T, _>(object, procedure, args, |_| false).await;
        assert!(done.result.is_ok(), "a refused call is repeated");
        if done.unanswered > 0 {
            self.raise(object.0).await;
        }
    }

    async fn write(&mut self, inode: u64) {
        let first = self.caller.below(CELLS);
        let count = 1 + self.caller.below(CELLS_OF_WRITE).min(CELLS - first - 1);
        let now = self.shared.tick();
        let epoch = self.shared.with(inode, |object| {
            object.write(first as usize..(first + count) as usize, now, now);
            object.epoch
        });
        let data = Bytes::from(now.to_le_bytes().repeat((count * CELL / 8) as usize));
        let args = |handle| write::Args {
            handle,
            offset: first * CELL,
            stable: false,
            sums: vec![],
            data: data.clone().into(),
        };
        self.change::<write::ResOk, _>((inode, epoch), Procedure::Write, args).await;
    }

    async fn punch(&mut self, inode: u64) {
        let (epoch, len) = self.shared.with(inode, |object| (object.epoch, object.cells.len() as u64));
        if len == 0 {
            return;
        }
        let first = self.caller.below(len);
        let count = 1 + self.caller.below(len - first);
        let now = self.shared.tick();
        self.shared.with(inode, |object| object.write(first as usize..(first + count) as usize, now, 0));
        let args = |handle| punch::Args { handle, offset: first * CELL, len: count * CELL };
        self.change::<punch::ResOk, _>((inode, epoch), Procedure::Punch, args).await;
    }

    /// Truncates the object, in a new epoch as a metaserver does.
    async fn truncate(&mut self, inode: u64) {
        self.check(inode).await; // exact: what is cut off does not come back
        let (epoch, len) = self.shared.with(inode, |object| {
            object.busy += 1;
            object.epoch += 1;
            (object.epoch, object.cells.len() as u64)
        });
        let cells = self.caller.below(len + 1);
        let args = |handle| truncate::Args { handle, len: cells * CELL };
        let done =
            self.caller.try_call::<truncate::ResOk, _>((inode, epoch), Procedure::Truncate, args).await;
        done.result.unwrap_or_else(|status| panic!("object {inode}: {status:?}"));
        self.shared.with(inode, |object| object.cells.truncate(cells as usize));
        self.shared.end_sync(inode, done.unanswered > 0);
    }

    async fn commit(&mut self, inode: u64) {
        let (epoch, seen) =
            (self.shared.begin_sync(inode), self.shared.with(inode, |object| object.seen_losses));
        let args = |handle| commit::Args { handle };
        let done = self.caller.try_call::<commit::ResOk, _>((inode, epoch), Procedure::Commit, args).await;
        done.result.unwrap_or_else(|status| panic!("object {inode}: {status:?}"));
        if seen == self.shared.losses() {
            self.shared.with(inode, Object::commit);
        }
        self.shared.end_sync(inode, done.unanswered > 0);
    }

    /// Raises the object's epoch, and compares its length: calls with the epoch before are refused from then on.
    async fn raise(&mut self, inode: u64) {
        let (epoch, len) = self.shared.with(inode, |object| {
            object.epoch += 1;
            (object.epoch, object.cells.len() as u64 * CELL)
        });
        let args = |handle| stat::Args { handles: vec![handle], sync: false };
        let stat: stat::ResOk = self.caller.call((inode, epoch), Procedure::Stat, args).await;
        assert_eq!(stat.objects[0].map(|object| object.len), Some(len), "object {inode}");
    }

    async fn allocate(&mut self, inode: u64) {
        let first = self.caller.below(CELLS);
        let count = 1 + self.caller.below(CELLS_OF_WRITE).min(CELLS - first - 1);
        let now = self.shared.tick();
        let epoch = self.shared.with(inode, |object| {
            let (len, end) = (object.cells.len(), (first + count) as usize);
            object.write(len..len.max(end), now, 0);
            object.epoch
        });
        let args = |handle| allocate::Args { handle, offset: first * CELL, len: count * CELL, ask: false };
        self.change::<allocate::ResOk, _>((inode, epoch), Procedure::Allocate, args).await;
    }

    /// Copies cells of another object of its own.
    async fn copy(&mut self, inode: u64) {
        let source = self.inodes[self.caller.below(OBJECTS) as usize];
        let (source_epoch, len) =
            self.shared.with(source, |object| (object.epoch, object.cells.len() as u64));
        if source == inode || len == 0 {
            return;
        }
        self.check(source).await; // exact
        let from = self.caller.below(len);
        let range = from as usize..(from + 1 + self.caller.below(len - from)) as usize;
        let mut copied = self.shared.with(source, |object| object.cells[range].to_vec());
        // A hole at the end does not lengthen the object.
        while copied.pop_if(|cell| cell.may_be_zero()).is_some() {}
        if copied.is_empty() {
            return;
        }
        let count = copied.len() as u64;
        let to = self.caller.below(CELLS - count + 1);
        let (stable, now) = (self.caller.below(2) == 0, self.shared.tick());
        let epoch = self.shared.begin_sync(inode);
        self.shared.with(inode, |object| object.copy(to as usize, &copied, now));
        let args = |member: &Called| copy::Args {
            source: member.handle((source, source_epoch)),
            address: Bytes::from(member.address.to_string()),
            handle: member.handle((inode, epoch)),
            pieces: vec![Piece { from: from * CELL, to: to * CELL, len: count * CELL }],
            stable,
        };
        let done =
            self.caller.repeat::<copy::ResOk, _>((inode, epoch), Procedure::Copy, args, |_| false).await;
        done.result.unwrap_or_else(|status| panic!("object {inode}: {status:?}"));
        self.shared.end_sync(inode, done.unanswered > 0);
        if done.unanswered > 0 {
            self.raise(inode).await;
        }
    }

    /// Reads the whole object.
    async fn check(&mut self, inode: u64) {
        loop {
            let (epoch, len) = self.shared.with(inode, |object| (object.epoch, object.cells.len() as u64));
            let losses = self.shared.losses();
            let mut bytes = Vec::new();
            while (bytes.len() as u64) < len * CELL {
                let (offset, count) =
                    (bytes.len() as u64, (len * CELL - bytes.len() as u64).min(1 << 20) as u32);
                let args = |handle| read::Args { handle, offset, count };
                let read: read::ResOk = self.caller.call((inode, epoch), Procedure::Read, args).await;
                let piece = read.payload.to_bytes();
                assert!(!piece.is_empty(), "object {inode} ends at {offset}, and has {len} cells");
                bytes.extend_from_slice(&piece);
            }
            // The members may have lost what this read.
            if losses == self.shared.losses() {
                let now = self.shared.tick();
                let checked = self.shared.with(inode, |object| object.check(&bytes, losses, now));
                checked.unwrap_or_else(|why| panic!("object {inode}, epoch {epoch}: {why}"));
                return;
            }
        }
    }
}
