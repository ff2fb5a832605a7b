//! Settling: sums follow their data to the disk some seconds later, and doubtful regions are summed anew.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use rustix::io::Errno;

use super::block_sum::{BLOCK, BLOCK_BYTES, BlockSum};
use super::change_log::Changed;
use super::regions::{REGION_BLOCKS, Regions};
use crate::object::{ObjectName, OpenObject};
use crate::objects::{ObjectError, Objects, answer_to};

/// Time from the first change of an object until its sums are brought to the disk: many writes share one
/// sync, and a restart looks at the writes of the last seconds.
pub(crate) const SETTLE_AFTER_SECONDS: u64 = 10;
/// The same for an object with data that no client has committed: its data are synced with the sums.
const SETTLE_UNCOMMITTED_AFTER_SECONDS: u64 = 60;
/// Objects that are settled together. Each stays open meanwhile.
const TOGETHER_MAX: usize = 128;
/// Blocks that are summed with the object's lock held: a writer waits for the reading of 1 MiB at most.
const BLOCKS_AT_ONCE: u64 = 16;

/// Options of settling.
pub struct Settling<'a> {
    /// Called after each read of so many bytes.
    pub pace: &'a dyn Fn(u64),
    /// True if it is to end early, between some objects and the next.
    pub ends: &'a dyn Fn() -> bool,
    /// True if what is settled may be forgotten: what the change log says of changes that only some members of a chain
    /// have is elsewhere, too. Asked when objects have been settled: for all changes from before that.
    pub may_forget: &'a dyn Fn() -> bool,
    /// Ranges of an object of which changes are under way: the other members of its chain may not have them yet, so
    /// their regions stay in the change log, settled or not.
    pub under_way: &'a dyn Fn(&ObjectName) -> Vec<Range<u64>>,
}

impl Default for Settling<'_> {
    fn default() -> Self {
        Self { pace: &|_| (), ends: &|| false, may_forget: &|| true, under_way: &|_| Vec::new() }
    }
}

/// An object whose data and sums are on the disk.
struct Synced {
    name: ObjectName,
    /// It stays in the cache of open files: another opening would read the log before its end. None: it was removed.
    _open: Option<Arc<OpenObject>>,
    up_to: u64,
}

impl Objects {
    /// Brings the sums of objects that changed a while ago to the disk, and sums doubtful regions anew. Blocks.
    pub fn settle(&self, with: &Settling<'_>) {
        let _one = self.checksums.settling.lock();
        if self.check().is_err() {
            return;
        }
        let doubtful: Vec<ObjectName> = self.checksums.doubts.lock().keys().copied().collect();
        let mut summed = 0;
        for name in &doubtful {
            match self.settle_doubts(name, with.pace) {
                Ok(blocks) => summed += blocks,
                Err(ObjectError::Stale | ObjectError::Lost) => {
                    self.checksums.doubts.lock().remove(name);
                }
                Err(_) => {} // logged; the next call tries again
            }
        }
        if summed > 0 {
            tracing::warn!(
                target = %self.root.path().display(), blocks = summed, objects = doubtful.len(),
                "blocks did not fit their checksums after a crash, or a failed write, and were summed as they are: writes to \
                 them may have been cut short. Nothing is to be done if a crash explains it"
            );
        }
        let now = self.checksums.now();
        let before = (now + 1).saturating_sub(SETTLE_AFTER_SECONDS);
        let changed = self.checksums.log.changed(before);
        self.settle_changed(&changed, now, with);
    }

    /// Brings the sums of all objects to the disk, as [`Objects::settle`] does after a while. Blocks.
    pub fn settle_all(&self, with: &Settling<'_>) {
        self.settle(with);
        let _one = self.checksums.settling.lock();
        let changed = self.checksums.log.changed(u64::MAX);
        self.settle_changed(&changed, u64::MAX, with);
    }

    fn settle_changed(&self, changed: &[(ObjectName, Changed)], now: u64, with: &Settling<'_>) {
        let mut together = changed.chunks(TOGETHER_MAX).take_while(|_| !(with.ends)());
        while let Some(true) = together.next().map(|together| self.settle_together(together, now, with)) {}
    }

    /// False: nothing may be forgotten now.
    fn settle_together(&self, changed: &[(ObjectName, Changed)], now: u64, with: &Settling<'_>) -> bool {
        let mut directories = BTreeSet::new();
        let mut synced = Vec::new();
        for (name, changed) in changed {
            // Otherwise it is written to; or the failure is logged, and it is tried again.
            if let Ok(Some(done)) = self.sync_sums(name, now.saturating_sub(changed.since), with) {
                if changed.is_new {
                    directories.insert(name.directory());
                }
                synced.push(done);
            }
        }
        if directories.into_iter().try_for_each(|directory| self.sync_directory(directory)).is_err() {
            return false;
        }
        if synced.is_empty() {
            return true;
        }
        if !(with.may_forget)() {
            return false;
        }
        for done in synced {
            // Without this record the object is looked at once more after a crash, and nothing else.
            if let Err(error) = self.checksums.log.settled(&*self.disk, &done.name, done.up_to) {
                tracing::debug!(target = %self.root.path().display(), %error, "cannot note a settled object");
            }
        }
        true
    }

    /// Syncs the data and the sums of an object. None: another time.
    fn sync_sums(
        &self,
        name: &ObjectName,
        age_seconds: u64,
        with: &Settling<'_>,
    ) -> Result<Option<Synced>, ObjectError> {
        let up_to = self.checksums.log.number();
        let open = match self.find(*name) {
            Ok(open) => open,
            Err(ObjectError::Stale | ObjectError::Lost) => {
                // Otherwise it is being made.
                let is_gone = (with.under_way)(name).is_empty();
                return Ok(is_gone.then_some(Synced { name: *name, _open: None, up_to }));
            }
            Err(error) => return Err(error),
        };
        if open.is_doubtful() || open.is_dirty() && age_seconds < SETTLE_UNCOMMITTED_AFTER_SECONDS {
            return Ok(None);
        }
        let up_to = {
            let mut changing = open.writing.lock();
            // A write from here on is noted anew.
            changing.begin_anew();
            let up_to = self.checksums.log.number();
            self.note_changes(name, &mut changing, &(with.under_way)(name))?;
            up_to
        };
        self.sync(name, &open)?;
        if let Some(sums) = open.sums.get()
            && let Err(error) = self.disk.sync_sums(&sums.0)
        {
            return Err(self.sums_sync_failed(name, &open, &error));
        }
        Ok(Some(Synced { name: *name, _open: Some(open), up_to }))
    }

    pub(crate) fn sums_sync_failed(
        &self,
        name: &ObjectName,
        open: &OpenObject,
        error: &std::io::Error,
    ) -> ObjectError {
        let target = self.root.path().display();
        if answer_to(error) == ObjectError::ReadOnly {
            // Data can be read on, but for their sums, should the kernel drop them.
            self.doubt(name, open, 0..u64::MAX);
            let error = std::io::Error::from_raw_os_error(Errno::ROFS.raw_os_error());
            return self.trouble("sync the checksums of", name, error);
        }
        if answer_to(error) == ObjectError::NoSpace {
            // Sums may be lost, and no data.
            self.doubt(name, open, 0..u64::MAX);
            tracing::error!(%target, %name, %error, "sync of an object's checksums failed: the target is full. Make room, or add targets");
            return ObjectError::NoSpace;
        }
        self.fail();
        tracing::error!(
            %target, %name, %error,
            "sync of an object's checksums failed: nothing is served from this target any more. Check its disk (dmesg, \
             smartctl), then restart the data server"
        );
        ObjectError::Io
    }

    /// Sums the doubtful regions of an object anew. Returns the number of blocks that did not fit.
    fn settle_doubts(&self, name: &ObjectName, pace: &dyn Fn(u64)) -> Result<u64, ObjectError> {
        let open = self.find(*name)?;
        // After a removal of the object from the cache of open files, its doubts are noted here alone.
        let regions = self.checksums.doubts.lock().get(name).cloned().unwrap_or_default();
        {
            // If this is cut short by a crash, the regions are to be doubtful again.
            let mut changing = open.writing.lock();
            for range in regions.ranges() {
                let (first, last) = (u64::from(*range.start()), u64::from(*range.end()));
                let start = first.saturating_mul(REGION_BLOCKS * BLOCK);
                let end = (last + 1).saturating_mul(REGION_BLOCKS * BLOCK);
                self.note_change(name, &mut changing, start..end, *range.end() == u32::MAX)?;
            }
        }
        let had_sums = open.sums.get().is_some();
        if self.blocks_of(name, &open)? > 0 {
            // Also of one that is all zeros: without sums it would be unverified for ever.
            let _alone = open.writing.lock();
            self.sum_file(name, &open)?;
        }
        let mut summed = 0;
        loop {
            let Some((region, is_tail)) = self.checksums.doubts.lock().get(name).and_then(Regions::first)
            else {
                break;
            };
            let first = u64::from(region) * REGION_BLOCKS;
            let is_behind_the_end = {
                let _alone = open.writing.lock();
                first >= self.blocks_of(name, &open)?
            };
            if is_behind_the_end && is_tail {
                self.checksums.doubts.lock().remove(name);
                break;
            }
            let mut at = first;
            while at < first + REGION_BLOCKS {
                let (read, unfit) = self.sum_anew(name, &open, at)?;
                summed += unfit;
                at += BLOCKS_AT_ONCE;
                if read == 0 && at >= self.blocks_of(name, &open)? {
                    break;
                }
                pace(read);
            }
            if let Some(regions) = self.checksums.doubts.lock().get_mut(name) {
                regions.remove(region);
            }
        }
        let mut doubts = self.checksums.doubts.lock();
        if doubts.get(name).is_none_or(|regions| regions.first().is_none()) {
            doubts.remove(name);
            open.set_doubtful(false);
        }
        drop(doubts);
        self.checksums.findings.summed_anew(if had_sums { summed } else { 0 });
        Ok(if had_sums { summed } else { 0 })
    }

    /// Blocks of the object, or of its sum file if that has more.
    pub(crate) fn blocks_of(&self, name: &ObjectName, open: &OpenObject) -> Result<u64, ObjectError> {
        let fail = |e| self.trouble("look at", name, e);
        let data = open.file.metadata().map_err(fail)?.len().div_ceil(BLOCK);
        let sums = open.sums.get().map_or(Ok(0), |sums| sums.blocks()).map_err(fail)?;
        Ok(data.max(sums))
    }

    /// Sums [`BLOCKS_AT_ONCE`] blocks anew. Returns the bytes that were read, and the number of blocks that
    /// did not fit.
    fn sum_anew(&self, name: &ObjectName, open: &OpenObject, first: u64) -> Result<(u64, u64), ObjectError> {
        let fail = |e| self.trouble("sum", name, e);
        let mut buffer = self.pool.take(BLOCKS_AT_ONCE as usize * BLOCK_BYTES);
        let _alone = open.writing.lock();
        let read = self.disk.read_at(&open.file, &mut buffer, first * BLOCK).map_err(fail)?;
        let old = match open.sums.get() {
            Some(sums) => sums.list(&*self.disk, first, BLOCKS_AT_ONCE).map_err(fail)?,
            None => vec![Ok(BlockSum::Zeros); BLOCKS_AT_ONCE as usize],
        };
        let mut unfit = 0;
        for (i, old) in old.into_iter().enumerate() {
            let from = (i * BLOCK_BYTES).min(read);
            let bytes = &buffer[from..read.min(from + BLOCK_BYTES)];
            // One that is known to be damaged stays so: after a write of its bytes its sum is another one, durably.
            if old != Ok(BlockSum::Damaged) && !old.is_ok_and(|sum| sum.matches(bytes)) {
                let sums = self.sum_file(name, open)?;
                sums.put(&*self.disk, first + i as u64, &[BlockSum::of(bytes)]).map_err(fail)?;
                unfit += 1;
            }
        }
        Ok((read as u64, unfit))
    }
}
