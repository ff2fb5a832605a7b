//! Unsettled files: current sizes, times and change attributes. While a client writes a file through a
//! layout, and until the file is settled, the data servers know them ([`namespace::Unsettled`]). Operations
//! that return attributes of a file, or depend on its size, call [`Data::true_inode`] first.
//!
//! ```text
//! operation true_inode ─▶ marked? ─no──────────────────────────────────────────────▶ inode
//!                           └yes─▶ STAT of all columns ─▶ news? ─▶ Observe (durable) ─▶ inode
//! leader    each file without a layout to write: STAT with sync ─▶ Observe ─▶ mark deleted
//! ```
//!
//! An observation is in the log before it is sent to a client, so attributes do not go back after a
//! fail-over. The data servers of all columns are asked in parallel. Operations on one file share a round
//! that began after they came.
//!
//! A column may be out of reach for long, or for ever: its object is lost, or its target failed or lost. Its
//! data may have been acknowledged as durable, so the file is never taken for a shorter one:
//!
//! | | answer |
//! | --- | --- |
//! | OPEN, a read beyond the known size, SEEK, COPY, VERIFY, GETATTR by itself of an open file | `Io` |
//! | other GETATTR, LOOKUP, READDIR: `rm` and CLOSE must succeed | the known attributes |
//! | settling | waits |

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use namespace::{ChainId, Command, FileLayout, Inode, InodeId, Observation, TargetId, Time, Unsettled, read};
use parking_lot::Mutex;
use store::View;
use tokio::task::JoinSet;
use wire::data::{ObjectStat, Procedure, stat};
use wire::nfs4::{Bitmap, attr};

use crate::data::Data;
use crate::data::hold::{SHORT_TIME_MAX, again_until_return, unheld, wait_for_work};
use crate::data::proxy::FileData;
use crate::errors::FileError;

/// Time limit of a STAT call, which mostly reads no disk.
const STAT_TIME_MAX: Duration = Duration::from_secs(1);
/// Time limit of a STAT call with sync, which makes all unstable writes of clients durable.
const SYNC_TIME_MAX: Duration = Duration::from_secs(20);
/// Files in one round of calls and one command: with 64 columns each, 16,384 handles of about 60 bytes.
pub(crate) const FILES_AT_ONCE: usize = 256;

/// Rounds of STAT calls under way.
#[derive(Default)]
pub(crate) struct Rounds {
    files: Mutex<BTreeMap<InodeId, Arc<tokio::sync::Mutex<Option<Round>>>>>,
    /// Counter that orders rounds and operations.
    ticket: AtomicU64,
}

/// Last round of a file.
struct Round {
    began: u64,
    outcome: Result<(), FileError>,
}

impl Rounds {
    fn ticket(&self) -> u64 {
        self.ticket.fetch_add(1, Ordering::Relaxed)
    }

    fn of(&self, inode: InodeId) -> Arc<tokio::sync::Mutex<Option<Round>>> {
        let mut files = self.files.lock();
        // Files without a waiting operation are dropped, so that the map stays small.
        files.retain(|_, file| Arc::strong_count(file) > 1);
        Arc::clone(files.entry(inode).or_default())
    }
}

/// Attributes that depend on a file's data.
const OF_DATA: Bitmap =
    Bitmap::of(&[attr::CHANGE, attr::SIZE, attr::SPACE_USED, attr::TIME_METADATA, attr::TIME_MODIFY]);

/// True if any of these attributes depends on a file's data.
pub(crate) fn depend_on_data(attributes: &Bitmap) -> bool {
    !attributes.intersection(&OF_DATA).is_empty()
}

/// Columns on one target, as (index of the file in the round, column), the handles of their objects, and their
/// chains.
type Columns = (Vec<(usize, usize)>, Vec<Bytes>, Vec<ChainId>);

/// A file in a round of STAT calls.
pub(super) struct Asked {
    pub inode: InodeId,
    epoch: u32,
    mark: Unsettled,
    layout: FileLayout,
    /// STAT results by column; none: not known.
    objects: Vec<Option<ObjectStat>>,
}

impl Asked {
    pub fn new(inode: &Inode, mark: Unsettled, layout: FileLayout) -> Self {
        let objects = vec![None; layout.columns as usize];
        Self { inode: inode.id, epoch: inode.epoch, mark, layout, objects }
    }

    /// True if all columns are known.
    fn is_whole(&self) -> bool {
        self.objects.iter().all(Option::is_some)
    }

    /// Bytes that one copy of all columns takes; none: not known.
    pub fn space_used(&self) -> Option<u64> {
        self.objects
            .iter()
            .try_fold(0u64, |sum, object| object.map(|object| sum.saturating_add(object.space_used)))
    }

    fn observation(&self, durable: bool) -> Observation {
        let found = || (0..).zip(self.objects.iter().copied().map(Option::unwrap_or_default));
        let end = |(column, object): (u32, ObjectStat)| {
            object
                .len
                .checked_sub(1)
                .map_or(0, |last| self.layout.file_offset(column, last).saturating_add(1))
        };
        Observation {
            inode: self.inode,
            grant: self.mark.grant,
            epoch: self.epoch,
            end: found().map(end).max().unwrap_or(0),
            modified: time(found().map(|(_, object)| object.modified_ns).max().unwrap_or(0)),
            version: version(found().map(|(_, object)| object)),
            durable: durable && self.is_whole(),
            space_used: self.space_used(),
        }
    }
}

fn time(ns: u64) -> Time {
    const NS: u64 = 1_000_000_000;
    Time { seconds: (ns / NS) as i64, nanoseconds: (ns % NS) as u32 }
}

/// Hash of lengths and times. Each step is a bijection of one word (splitmix64), so two states that differ in
/// one word never have the same hash.
fn version(objects: impl Iterator<Item = ObjectStat>) -> u64 {
    let mix = |hash: u64, word: u64| {
        let mixed = (hash ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    objects.fold(0, |hash, object| mix(mix(hash, object.len), object.modified_ns))
}

impl Data {
    /// Returns `inode` with its current size, times and change attribute: with all writes that data servers
    /// acknowledged before the call.
    ///
    /// # Errors
    /// `Delay` when a data server of the file has not answered while the request could be held; `Io` when a
    /// column is out of reach.
    pub(crate) async fn true_inode(&self, inode: Inode) -> Result<Inode, FileError> {
        let came = self.rounds.ticket();
        if !self.is_unsettled(&*self.machine.view()?, &inode)? {
            return Ok(inode);
        }
        self.learn(inode.id, came).await?;
        let now = self.machine.inode(&*self.machine.view()?, inode.id)?;
        if now.generation == inode.generation { Ok(now) } else { Err(FileError::Stale) }
    }

    /// Like [`Data::true_inode`]; when a column is out of reach, with the attributes that are known.
    pub(crate) async fn known_inode(&self, inode: Inode) -> Result<Inode, FileError> {
        match self.true_inode(inode.clone()).await {
            Err(FileError::Io) => self.machine.inode(&*self.machine.view()?, inode.id),
            found => found,
        }
    }

    /// Checks that no column of an unsettled file is out of reach, before the file is opened: a client reads
    /// up to the size that it is told. Returns true if the data servers were asked, and have answered.
    ///
    /// # Errors
    /// `Io` when a column is out of reach.
    pub(crate) async fn check_whole(&self, inode: Inode) -> Result<bool, FileError> {
        match unheld(self.true_inode(inode)).await {
            Ok(_) => Ok(true),
            Err(FileError::Io) => Err(FileError::Io),
            // Reads of the file wait for the data server, or find it removed.
            Err(_) => Ok(false),
        }
    }

    /// Like [`Data::known_inode`], for a request that goes on without an answer of the data servers.
    pub(crate) async fn true_inode_soon(&self, inode: Inode) -> Option<Inode> {
        tokio::time::timeout(SHORT_TIME_MAX, self.known_inode(inode)).await.ok()?.ok()
    }

    /// Like [`Data::true_inode`], for an operation that depends on the size only from `end` on: bytes below
    /// the known size exist.
    pub(crate) async fn true_inode_beyond(&self, inode: Inode, end: u64) -> Result<Inode, FileError> {
        if end <= inode.size { Ok(inode) } else { self.true_inode(inode).await }
    }

    /// True if the data servers may have newer attributes of a file than its inode.
    pub(crate) fn is_unsettled(&self, view: &dyn View, inode: &Inode) -> Result<bool, FileError> {
        if inode.columns().is_none() {
            return Ok(false);
        }
        Ok(read::unsettled(view, inode.id)?.is_some())
    }

    /// Observes a file: updates its inode from the data servers, unless a round since `came` has done so.
    async fn learn(&self, inode: InodeId, came: u64) -> Result<(), FileError> {
        let file = self.rounds.of(inode);
        let mut last = wait_for_work(file.lock()).await?;
        if let Some(round) = last.as_ref().filter(|round| round.began > came) {
            return round.outcome;
        }
        let began = self.rounds.ticket();
        // Each try asks those that are the heads of the chains then: one that hangs is left.
        let outcome = again_until_return(|| async {
            let failed = self.observe(&[inode], false).await?;
            failed.get(&inode).map_or(Ok(()), |why| Err(*why))
        });
        let outcome = outcome.await;
        *last = Some(Round { began, outcome });
        outcome
    }

    /// Observes these files, as far as they are unsettled: updates their inodes from the data servers.
    /// Returns the files that are not wholly known: `Delay` for a data server that did not answer, `Io` for a
    /// column out of reach. With `durable` the data are made durable first, so that a file without layouts to
    /// write becomes settled.
    pub(crate) async fn observe(
        &self,
        files: &[InodeId],
        durable: bool,
    ) -> Result<BTreeMap<InodeId, FileError>, FileError> {
        let mut failed = BTreeMap::new();
        for some in files.chunks(FILES_AT_ONCE) {
            let (known, silent) = self.ask(some, durable).await?;
            let mut files = Vec::new();
            for (file, observation) in known {
                if !file.is_whole() {
                    failed.insert(file.inode, self.why_not_whole(&file)?);
                }
                if observation.version != file.mark.version || observation.durable {
                    files.push(observation);
                } else if !durable {
                    self.state.idle_layouts.note_look(file.inode, file.mark);
                }
            }
            if !files.is_empty() {
                self.state.propose(None, Command::Observe { files }).await?;
            }
            failed.extend(silent.into_iter().map(|file| (file, FileError::Delay)));
        }
        Ok(failed)
    }

    /// Error for a file with a column out of reach.
    fn why_not_whole(&self, file: &Asked) -> Result<FileError, FileError> {
        Ok(match read::inode(&*self.machine.view()?, file.inode)? {
            None => FileError::Stale,
            // The column has moved: its object of before was asked about.
            Some(now) if now.epoch != file.epoch || now.columns() != Some(file.layout) => FileError::Delay,
            Some(_) => FileError::Io,
        })
    }

    /// Observation of one file, if it is unsettled and all its data servers answer.
    pub(crate) async fn observation(&self, inode: InodeId) -> Option<Observation> {
        let (known, _) = unheld(self.ask(&[inode], false)).await.ok()?;
        known.into_iter().next().map(|(_, observation)| observation)
    }

    /// Sends STAT to the data servers of all unsettled files among `files`, one call to each server. The
    /// second list has the files with a data server that did not answer.
    async fn ask(
        &self,
        files: &[InodeId],
        durable: bool,
    ) -> Result<(Vec<(Asked, Observation)>, Vec<InodeId>), FileError> {
        let (mut asked, data) = self.to_ask(files)?;
        let silent = self.stat_columns(&mut asked, &data, durable).await?;
        let (silent, known): (Vec<Asked>, Vec<Asked>) =
            asked.into_iter().partition(|file| silent.contains(&file.inode));
        let seen = |file: Asked| {
            let observation = file.observation(durable);
            (file, observation)
        };
        Ok((known.into_iter().map(seen).collect(), silent.iter().map(|file| file.inode).collect()))
    }

    fn to_ask(&self, files: &[InodeId]) -> Result<(Vec<Asked>, Vec<FileData>), FileError> {
        let view = self.machine.view()?;
        let (mut asked, mut data) = (Vec::new(), Vec::new());
        for id in files {
            let Some(mark) = read::unsettled(&*view, *id)? else { continue };
            let Some(inode) = read::inode(&*view, *id)? else { continue };
            let Some(layout) = inode.columns() else { continue };
            // The objects are longer than the file until they are truncated: the size is the size that was
            // set.
            if read::pending_truncation(&*view, *id)? {
                continue;
            }
            data.push(self.file_data(&inode)?);
            asked.push(Asked::new(&inode, mark, layout));
        }
        Ok((asked, data))
    }

    /// Fills in the STAT results. Returns the files with a data server that did not answer.
    pub(super) async fn stat_columns(
        &self,
        asked: &mut [Asked],
        data: &[FileData],
        sync: bool,
    ) -> Result<Vec<InodeId>, FileError> {
        let mut by_target: BTreeMap<TargetId, Columns> = BTreeMap::new();
        for (file, data) in data.iter().enumerate() {
            for (column, (chain, target, handle)) in self.object_handles(data).into_iter().enumerate() {
                let (places, handles, chains) = by_target.entry(target).or_default();
                places.push((file, column));
                handles.push(handle);
                chains.push(chain);
            }
        }
        let limit = if sync { SYNC_TIME_MAX } else { STAT_TIME_MAX };
        let mut calls = JoinSet::new();
        for (target, (places, handles, chains)) in by_target {
            let args = stat::Args { handles, sync };
            let call = self.call_head::<_, stat::ResOk>((target, chains), Procedure::Stat, args, limit);
            calls.spawn(async move { (target, places, call.await) });
        }
        let mut silent = Vec::new();
        while let Some(done) = calls.join_next().await {
            let (target, places, answer) = done.map_err(|_| FileError::Fault)?;
            let is_answered = answer.is_ok();
            match answer {
                Ok(found) if found.objects.len() == places.len() => {
                    for ((file, column), object) in places.into_iter().zip(found.objects) {
                        asked[file].objects[column] = object;
                    }
                }
                Ok(_) => return Err(FileError::Fault),
                Err(FileError::Delay | FileError::Away | FileError::NoAnswer | FileError::StaleEpoch) => {
                    silent.extend(places.iter().map(|(file, _)| asked[*file].inode))
                }
                // The target failed, or is lost: its columns are out of reach.
                Err(status) => tracing::debug!(?status, "a target cannot say how long its objects are"),
            }
            if sync {
                self.settling.note(target, is_answered);
            }
        }
        Ok(silent)
    }

    /// [`Observation::version`] of the objects before a grant of a layout to write.
    pub(crate) async fn version_before_grant(&self, inode: &Inode) -> Result<u64, FileError> {
        // New objects get a random version: the first round finds another version, and takes the difference
        // for a write.
        let Some(layout) = inode.columns() else { return Ok(self.machine.entropy.u64()) };
        let mark = read::unsettled(&*self.machine.view()?, inode.id)?;
        if let Some(mark) = mark {
            return Ok(mark.version);
        }
        let mark = Unsettled { grant: 0, version: 0, times_set: 0 };
        let mut asked = [Asked::new(inode, mark, layout)];
        let data = self.file_data(inode)?;
        let silent = unheld(self.stat_columns(&mut asked, &[data], false)).await?;
        Ok(if silent.is_empty() { asked[0].observation(false).version } else { self.machine.entropy.u64() })
    }
}

#[cfg(test)]
mod tests {
    use namespace::{DeviceId, StripeUnit};

    use super::*;

    fn object(len: u64, modified_ns: u64) -> ObjectStat {
        ObjectStat { len, modified_ns, space_used: 4096 }
    }

    #[test]
    fn the_longest_column_ends_the_file_and_the_last_write_is_its_time() {
        let unit = StripeUnit::DEFAULT;
        let u = u64::from(unit.bytes());
        let layout = FileLayout { device: DeviceId(1), first: 1, unit, columns: 2 };
        let mark = Unsettled { grant: 7, version: 0, times_set: 0 };
        let seen = |objects| Asked { inode: InodeId(3), epoch: 2, mark, layout, objects }.observation(true);
        let both = seen(vec![Some(object(u + 5, 1_500_000_000)), Some(object(u, 20))]);
        assert_eq!((both.end, both.modified), (2 * u + 5, Time { seconds: 1, nanoseconds: 500_000_000 }));
        assert_eq!((both.grant, both.epoch, both.durable), (7, 2, true));
        let hole = seen(vec![Some(object(0, 0)), Some(object(9, 20))]);
        assert_eq!((hole.end, hole.durable), (u + 9, true));
        assert_eq!((both.space_used, hole.space_used), (Some(8192), Some(8192)));
        let unknown = seen(vec![None, Some(object(9, 20))]);
        assert_eq!((unknown.end, unknown.durable, unknown.space_used), (u + 9, false, None));
    }

    #[test]
    fn a_version_tells_lengths_times_and_columns_apart() {
        let states = [
            vec![object(0, 0), object(0, 0)],
            vec![object(1, 0), object(0, 0)],
            vec![object(0, 1), object(0, 0)],
            vec![object(0, 0), object(1, 0)],
            vec![object(0, 0), object(0, 1)],
            vec![object(0, 0)],
        ];
        let versions: std::collections::BTreeSet<u64> =
            states.iter().map(|state| version(state.iter().copied())).collect();
        assert_eq!(versions.len(), states.len());
    }
}
