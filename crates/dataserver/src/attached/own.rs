//! Regions of an attached object that become its own.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::MutexGuard;
use wire::data::Piece;

use super::map::OfBase;
use super::{Attached, Number, REGION_BYTES, numbers};
use crate::checksums::{BLOCK, BLOCK_BYTES};
use crate::object::{ObjectName, ObjectStat, OpenObject};
use crate::objects::{ObjectError, Objects, answer_to};

/// True if a block is damaged in the object, too, after this error of its base: with copies another member may have it
/// whole. Without, what cannot be read now may be read later.
fn is_carried_over(open: &OpenObject, error: ObjectError) -> bool {
    match error {
        ObjectError::Damaged => true,
        ObjectError::Io => open.gate.mark().chain != 0,
        _ => false,
    }
}

/// Copied at a time.
const RUN_BYTES: u64 = 1 << 20;

impl Attached {
    /// While it is held no region is copied, and the object's time is not set back after that.
    pub(crate) fn quiet(&self) -> MutexGuard<'_, ()> {
        self.filling.lock()
    }

    /// True if the byte at `at` is that of a base.
    pub(crate) fn is_of_base(&self, at: u64) -> bool {
        self.map.lock().next_of_base(at..at + 1, 1, None).is_some()
    }
}

impl Objects {
    /// Has these bytes of an object be its own.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub(crate) fn own(
        &self,
        name: &ObjectName,
        open: &Arc<OpenObject>,
        range: Range<u64>,
    ) -> Result<(), ObjectError> {
        let Some(attached) = open.attachment.get() else { return Ok(()) };
        let _filling = attached.filling.lock();
        self.own_some(name, open, &attached, range, u64::MAX, None).map(drop)
    }

    /// [`Objects::own`] of at most about `most` bytes, and of one base alone, if it is given; the caller has `filling`. Returns
    /// how many were copied.
    pub(super) fn own_some(
        &self,
        name: &ObjectName,
        open: &Arc<OpenObject>,
        attached: &Attached,
        range: Range<u64>,
        most: u64,
        base: Option<Number>,
    ) -> Result<u64, ObjectError> {
        let start = range.start / REGION_BYTES * REGION_BYTES;
        let end = range.end.checked_next_multiple_of(REGION_BYTES).unwrap_or(u64::MAX);
        let (mut at, mut copied) = (start, 0);
        while copied < most
            && !range.is_empty()
            && let Some(run) = { attached.map.lock().next_of_base(at..end, RUN_BYTES, base) }
        {
            copied += run.range.end - run.range.start;
            at = run.range.end;
            self.copy_run(name, open, attached, run)?;
        }
        Ok(copied)
    }

    /// Copies regions from a base.
    fn copy_run(
        &self,
        name: &ObjectName,
        open: &Arc<OpenObject>,
        attached: &Attached,
        run: OfBase,
    ) -> Result<(), ObjectError> {
        let OfBase { range, base } = run;
        let fail = |e| self.trouble("copy regions of", name, e);
        let Some(base) = attached.base(base) else { return Ok(()) };
        // Nothing else changes its data meanwhile, and to clients this changes nothing.
        let modified_ns = open.stat().map_err(fail)?.modified_ns;
        self.take_room(range.end - range.start)?;
        let copied = match self.copy_of_base(name, open, &base, &range) {
            Err(error) if is_carried_over(open, error) => self.copy_blocks(name, open, &base, &range),
            copied => copied,
        };
        open.touch();
        let set = open.set_time(modified_ns);
        copied?;
        set.map_err(fail)?;
        attached.map.lock().set(range.start / REGION_BYTES..range.end.div_ceil(REGION_BYTES));
        // Again: a sync in between has not seen the entries.
        open.touch();
        Ok(())
    }

    fn copy_of_base(
        &self,
        name: &ObjectName,
        open: &Arc<OpenObject>,
        base: &Arc<OpenObject>,
        range: &Range<u64>,
    ) -> Result<(), ObjectError> {
        // What the kernel copies is not looked at, and a region that is doubtful after a crash would be summed as it is.
        let len = range.end - range.start;
        self.read_blocks(name, base, range.start, len as usize, true)?;
        let piece = Piece { from: range.start, to: range.start, len };
        self.copy_piece(self, (name, base), (name, open), piece)
    }

    /// Copies regions with damaged or unreadable blocks, block by block. They are damaged in the object, too: another member
    /// of its chain may have them whole.
    fn copy_blocks(
        &self,
        name: &ObjectName,
        open: &Arc<OpenObject>,
        base: &Arc<OpenObject>,
        range: &Range<u64>,
    ) -> Result<(), ObjectError> {
        for at in range.clone().step_by(BLOCK_BYTES) {
            let block = at..range.end.min(at + BLOCK);
            match self.copy_of_base(name, open, base, &block) {
                Err(error) if is_carried_over(open, error) => {
                    let mut buffer = self.pool.take((block.end - block.start) as usize);
                    let read = self.disk.read_at(&base.file, &mut buffer, at).unwrap_or(0);
                    self.put_damaged(name, open, at / BLOCK, &buffer[..read])?;
                }
                copied => copied?,
            }
        }
        Ok(())
    }

    /// Does a change of these bytes of an object: what it covers in part is the object's own before, and what it covers
    /// whole afterwards. Objects that are attached to it keep what they show.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub(crate) fn changing<T>(
        &self,
        name: &ObjectName,
        open: &Arc<OpenObject>,
        range: Range<u64>,
        change: impl FnOnce() -> Result<T, ObjectError>,
    ) -> Result<T, ObjectError> {
        self.before_base_changes(name, &range)?;
        let Some(attached) = open.attachment.get() else { return change() };
        let _filling = attached.filling.lock();
        let limit = attached.map.lock().limit();
        let first_whole = range.start.div_ceil(REGION_BYTES);
        let end_whole = match range.end >= limit {
            true => limit.div_ceil(REGION_BYTES),
            false => range.end / REGION_BYTES,
        };
        if first_whole >= end_whole {
            self.own_some(name, open, &attached, range, u64::MAX, None)?;
            return change();
        }
        self.own_some(name, open, &attached, range.start..first_whole * REGION_BYTES, u64::MAX, None)?;
        self.own_some(name, open, &attached, end_whole * REGION_BYTES..range.end, u64::MAX, None)?;
        let done = change()?;
        attached.map.lock().set(first_whole..end_whole);
        Ok(done)
    }

    /// Shortens an object's file to `len`, and what it is attached to with it. The caller knows that the file is longer.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub(crate) fn shorten(
        &self,
        name: &ObjectName,
        open: &Arc<OpenObject>,
        len: u64,
    ) -> Result<(), ObjectError> {
        self.before_base_changes(name, &(len..u64::MAX))?;
        let attached = open.attachment.get();
        let _filling = attached.as_ref().map(|attached| attached.filling.lock());
        let shortened = self.shorten_summed(name, open, &mut open.writing.lock(), len);
        open.touch();
        if let Some(attached) = &attached {
            // Also after a failure: its file may be shorter by now.
            let len = self.len_of(name, open)?;
            attached.map.lock().shorten(len);
            open.touch();
        }
        shortened
    }

    /// Copies bytes of an object that are about to change to those that are attached to it.
    fn before_base_changes(&self, base: &ObjectName, range: &Range<u64>) -> Result<(), ObjectError> {
        let attached = self.attachments.all.lock().objects_of(base);
        for name in &attached {
            // On the disk, before the base has other bytes there.
            let keep = |open: Arc<OpenObject>| {
                self.own(name, &open, range.clone())?;
                open.touch();
                self.sync(name, &open)
            };
            match self.find(*name).and_then(keep) {
                // It was removed meanwhile, or is lost anyway.
                Err(ObjectError::Stale | ObjectError::Lost) => {}
                done => done?,
            }
        }
        Ok(())
    }

    /// Syncs an object's data, and then its map.
    pub(crate) fn sync_with_map(
        &self,
        open: &OpenObject,
        sync: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let Some(attached) = open.attachment.get() else { return sync() };
        // Before the sync: of these regions all data are in the file by now.
        let (changes, file) = {
            let mut map = attached.map.lock();
            (map.take_changes(), map.file()?)
        };
        let synced =
            sync().and_then(|()| if changes.is_empty() { Ok(()) } else { changes.write(&*self.disk, &file) });
        match &synced {
            Ok(()) => {}
            // The kernel may have dropped pages; clients send again what they had not committed.
            Err(error) if answer_to(error) == ObjectError::NoSpace => attached.map.lock().go_back(changes),
            Err(_) => attached.map.lock().put_back(changes),
        }
        synced
    }

    /// Length, modification time and space of an open object.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub(crate) fn stat_open(&self, name: &ObjectName, open: &OpenObject) -> Result<ObjectStat, ObjectError> {
        let fail = |e| self.trouble("look at", name, e);
        let Some(attached) = open.attachment.get() else { return open.stat().map_err(fail) };
        // A region that is being copied has changed the time for a moment.
        let _filling = attached.filling.lock();
        let own = open.stat().map_err(fail)?;
        let map = attached.map.lock();
        let of_bases: u64 = numbers().map(|number| map.count(number)).sum();
        // What it would take without its bases.
        let space_used = own.space_used.saturating_add(of_bases * REGION_BYTES);
        Ok(ObjectStat { space_used: space_used.min(own.len.next_multiple_of(BLOCK)), ..own })
    }
}
