//! Ranges of an object: finding data and holes, reading with holes told apart, reserving room, and making
//! holes.

use std::os::unix::fs::MetadataExt;

use bytes::Bytes;

use crate::disk::Place;
use crate::epoch::ObjectRef;
use crate::held_dir::STAT_BLOCK_BYTES;
use crate::objects::{ObjectError, Objects, end_of};

/// Upper limit of the runs of one read, so that a reply is not made of crumbs; the rest is read as data.
const RUNS_MAX: usize = 64;

/// Some bytes of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Run {
    /// Bytes of the object.
    Data(Bytes),
    /// Number of zeros, which the disk need not store.
    Hole(u64),
}

/// Bytes of the disk that a range takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reserve {
    /// Bytes that the disk does not have for it yet: at most this many.
    pub needed: u64,
    /// Bytes that it has free.
    pub free: u64,
}

impl Objects {
    /// The next data or hole at or after `offset`. All beyond the end is a hole; none: there is no more data.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub fn seek(&self, object: ObjectRef, place: Place, offset: u64) -> Result<Option<u64>, ObjectError> {
        self.check()?;
        let beyond = match place {
            Place::Data => None,
            Place::Hole => Some(offset),
        };
        if end_of(offset, 0).is_err() {
            return Ok(beyond);
        }
        let open = self.find(object.name)?;
        let _entered = self.enter(&open, object)?;
        let found = match open.attachment.get() {
            None => self
                .disk
                .seek(&open.file, place, offset)
                .map_err(|e| self.trouble("seek in", &object.name, e)),
            Some(attached) => self.seek_attached(&object.name, &open, &attached, place, offset),
        };
        Ok(found?.or(beyond))
    }

    /// Its length in bytes.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub fn length(&self, object: ObjectRef) -> Result<u64, ObjectError> {
        self.check()?;
        let open = self.find(object.name)?;
        let _entered = self.enter(&open, object)?;
        Ok(open.file.metadata().map_err(|e| self.trouble("look at", &object.name, e))?.len())
    }

    /// Reads as [`Objects::read`] does, with holes as separate runs. The runs end with the object. The blocks are verified,
    /// whatever the pool says: the bytes are for another object, whose checksums would fit damaged ones.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub fn read_runs(&self, object: ObjectRef, offset: u64, count: usize) -> Result<Vec<Run>, ObjectError> {
        let len = self.length(object)?;
        let end = end_of(offset, count as u64).unwrap_or(offset).min(len);
        let mut runs = Vec::new();
        let mut at = offset;
        while at < end {
            let data = if runs.len() + 2 < RUNS_MAX { self.seek(object, Place::Data, at)? } else { Some(at) };
            let data = data.map_or(end, |data| data.clamp(at, end));
            if data > at {
                runs.push(Run::Hole(data - at));
                at = data;
                continue;
            }
            let hole = if runs.len() + 2 < RUNS_MAX { self.seek(object, Place::Hole, at)? } else { None };
            // A hole that was made since we looked is read as the zeros that it holds.
            let hole = hole.filter(|hole| *hole > at).map_or(end, |hole| hole.min(end));
            let read = self.read_as(object, at, (hole - at) as usize, true)?;
            if read.data.is_empty() {
                break;
            }
            at += read.data.len() as u64;
            runs.push(Run::Data(read.data));
        }
        Ok(runs)
    }

    /// Bytes of the disk that the reservation of a range takes.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub fn reserve(&self, object: ObjectRef, offset: u64, len: u64) -> Result<Reserve, ObjectError> {
        self.check()?;
        let end = end_of(offset, len)?;
        let free = self.space()?.free;
        let open = self.find(object.name)?;
        let _entered = self.enter(&open, object)?;
        let now = open.file.metadata().map_err(|e| self.trouble("look at", &object.name, e))?;
        // The kernel does not say cheaply which blocks are in the range: the whole object lacks no fewer.
        let lacking = end.max(now.len()).saturating_sub(now.blocks().saturating_mul(STAT_BLOCK_BYTES));
        Ok(Reserve { needed: len.min(lacking), free })
    }

    /// Reserves a range on the disk, durably, and makes the object long enough. Returns the bytes that it
    /// took.
    ///
    /// # Errors
    /// [`ObjectError`]. Nothing was reserved if the disk has not enough free; some may be if others took it
    /// meanwhile.
    pub fn allocate(&self, object: ObjectRef, offset: u64, len: u64) -> Result<Reserve, ObjectError> {
        let reserve = self.reserve(object, offset, len)?;
        if reserve.needed > reserve.free {
            return Err(ObjectError::NoSpace);
        }
        self.end_in_file(offset, len)?;
        if len > 0 {
            self.take_room(reserve.needed)?;
            let open = self.find(object.name)?;
            let _entered = self.enter(&open, object)?;
            self.begin_sums(&object.name, &open, offset)?;
            let attached = open.attachment.get();
            let _quiet = attached.as_ref().map(|attached| attached.quiet());
            let outcome = self.disk.allocate(&open.file, offset, len);
            open.touch();
            outcome.map_err(|e| self.trouble("allocate in", &object.name, e))?;
            self.sync(&object.name, &open)?;
        }
        Ok(reserve)
    }

    /// Makes a range a hole, durably. The length stays.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub fn punch(&self, object: ObjectRef, offset: u64, len: u64) -> Result<(), ObjectError> {
        self.check()?;
        let end = end_of(offset, len)?;
        let open = self.find(object.name)?;
        let _entered = self.enter(&open, object)?;
        let punch = |offset, len| {
            let punched = self.disk.punch(&open.file, offset, len);
            punched.map_err(|e| self.trouble("punch a hole in", &object.name, e))
        };
        let zero = || self.zero_summed(&object.name, &open, &mut open.writing.lock(), offset..end, punch);
        let outcome = self.changing(&object.name, &open, offset..end, zero);
        open.touch();
        outcome?;
        // Also when there was nothing to do: the thread that made the hole may not have synced it yet.
        self.sync(&object.name, &open)
    }
}
