//! Copying between objects of this machine, inside the kernel. Where both are on one file system that can
//! share data between files (reflink), that is what the kernel does, and nothing is copied at all.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::MutexGuard;
use rustix::io::Errno;
use wire::data::Piece;

use crate::attached::Attached;
use crate::checksums::{BLOCK, BlockSum, Changing, ZEROS};
use crate::disk::Place;
use crate::epoch::ObjectRef;
use crate::object::{ObjectName, OpenObject};
use crate::objects::{ObjectError, Objects, end_of};

/// Copied at a time where the kernel cannot do it.
const BUFFER_BYTES: u64 = 1 << 20;
/// Copied at a time by the kernel: writers of both objects wait for so much.
const KERNEL_BYTES: u64 = 16 << 20;

/// An open object, with its name for messages.
type Named<'a> = (&'a ObjectName, &'a Arc<OpenObject>);

impl Objects {
    /// Copies `pieces` of `from`, an object of `source`, into `to`, an object of this target. What lies
    /// beyond the end of `from` is a hole in `to` afterwards. Durable only after a commit.
    ///
    /// # Errors
    /// [`ObjectError`]; some of the bytes may have been copied.
    pub fn copy(
        &self,
        to: ObjectRef,
        source: &Objects,
        from: ObjectRef,
        pieces: &[Piece],
    ) -> Result<(), ObjectError> {
        self.check()?;
        source.check()?;
        let mut bytes = 0u64;
        for piece in pieces {
            end_of(piece.from, piece.len)?;
            self.end_in_file(piece.to, piece.len)?;
            bytes = bytes.saturating_add(piece.len);
        }
        let from_object = source.find(from.name)?;
        let _from_entered = source.enter(&from_object, from)?;
        self.take_room(bytes)?;
        let to_object = self.find(to.name)?;
        let _to_entered = self.enter(&to_object, to)?;
        let (from, to) = ((&from.name, &from_object), (&to.name, &to_object));
        let outcome = pieces.iter().try_for_each(|piece| {
            let range = piece.to..piece.to + piece.len;
            self.changing(to.0, to.1, range, || match from.1.attachment.get() {
                None => self.copy_piece(source, from, to, *piece),
                Some(attached) => self.copy_shown(source, from, &attached, to, *piece),
            })
        });
        to_object.touch();
        outcome
    }

    /// Makes a range read as zeros: a hole, where the file system can. The length stays. Durable only after a
    /// commit.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub fn clear(&self, object: ObjectRef, offset: u64, len: u64) -> Result<(), ObjectError> {
        self.check()?;
        end_of(offset, len)?;
        let open = self.find(object.name)?;
        let _entered = self.enter(&open, object)?;
        let zero = || self.zero(&object.name, &open, offset, len);
        let outcome = self.changing(&object.name, &open, offset..offset + len, zero);
        open.touch();
        outcome
    }

    /// Copies a piece of an attached object, by hand: its regions are in several files.
    fn copy_shown(
        &self,
        source: &Objects,
        from: Named<'_>,
        attached: &Attached,
        to: Named<'_>,
        piece: Piece,
    ) -> Result<(), ObjectError> {
        let mut done = 0;
        while done < piece.len {
            let count = (piece.len - done).min(BUFFER_BYTES) as usize;
            let read = source.read_attached(from.0, from.1, attached, piece.from + done, count, true)?;
            if read.data.is_empty() {
                return self.zero(to.0, to.1, piece.to + done, piece.len - done);
            }
            let copied = read.data.len() as u64;
            self.write_open(to.0, to.1, piece.to + done, &read.data.into(), None)?;
            done += copied;
        }
        Ok(())
    }

    /// Copies a piece of an object whose bytes there are its own, into one that is not attached there.
    pub(crate) fn copy_piece(
        &self,
        source: &Objects,
        from: Named<'_>,
        to: Named<'_>,
        piece: Piece,
    ) -> Result<(), ObjectError> {
        let seek = |place, at| {
            let found = source.disk.seek(&from.1.file, place, at);
            found.map_err(|e| source.trouble("seek in", from.0, e))
        };
        let end = piece.from + piece.len;
        let mut at = piece.from;
        while at < end {
            let data = seek(Place::Data, at)?.map_or(end, |data| data.clamp(at, end));
            if data > at {
                self.zero(to.0, to.1, piece.to + (at - piece.from), data - at)?;
                at = data;
                continue;
            }
            let hole = seek(Place::Hole, at)?.filter(|hole| *hole > at).map_or(end, |hole| hole.min(end));
            let to_offset = piece.to + (at - piece.from);
            let copied = self.copy_some(source, from, at, to, to_offset, hole - at)?;
            if copied == 0 {
                // The source was truncated meanwhile: the rest is zeros now.
                return self.zero(to.0, to.1, to_offset, end - at);
            }
            at += copied;
        }
        Ok(())
    }

    /// Copies some bytes: whole blocks in the kernel, their sums with them; the others by hand, which verifies
    /// them. Returns how many.
    fn copy_some(
        &self,
        source: &Objects,
        from: Named<'_>,
        from_offset: u64,
        to: Named<'_>,
        to_offset: u64,
        len: u64,
    ) -> Result<u64, ObjectError> {
        let is_aligned = from_offset.abs_diff(to_offset).is_multiple_of(BLOCK);
        let to_next_block = from_offset.next_multiple_of(BLOCK) - from_offset;
        let whole = len.saturating_sub(to_next_block) / BLOCK * BLOCK;
        let by_hand = match (is_aligned && whole > 0, to_next_block) {
            (false, _) => len.min(BUFFER_BYTES),
            (true, 0) => {
                let len = whole.min(KERNEL_BYTES);
                let copied = self.copy_in_kernel(source, from, from_offset, to, to_offset, len)?;
                if let Some(copied) = copied {
                    return Ok(copied);
                }
                len.min(BUFFER_BYTES)
            }
            (true, bytes) => bytes,
        };
        self.copy_by_hand(source, from, from_offset, to, to_offset, by_hand)
    }

    /// Copies whole blocks and their sums. None: the kernel cannot, or the source cannot be believed.
    fn copy_in_kernel(
        &self,
        source: &Objects,
        from: Named<'_>,
        from_offset: u64,
        to: Named<'_>,
        to_offset: u64,
        len: u64,
    ) -> Result<Option<u64>, ObjectError> {
        let (_from_alone, mut changing) = lock_both(from.1, to.1);
        let (first, to_first, count) = (from_offset / BLOCK, to_offset / BLOCK, len / BLOCK);
        let Some(sums) = from.1.sums.get() else { return Ok(None) };
        let sums = sums.list(&*source.disk, first, count);
        let sums = sums.map_err(|e| source.trouble("read the sums of", from.0, e))?;
        let doubtful = (first..first + count).any(|block| source.is_doubtful(from.0, from.1, block));
        let Ok(sums) = sums.into_iter().collect::<Result<Vec<_>, _>>() else { return Ok(None) };
        // Their bytes by hand: those of a damaged block are not copied, and take the place of one durably.
        if doubtful || sums.contains(&BlockSum::Damaged) {
            return Ok(None);
        }
        let now = to.1.file.metadata().map_err(|e| self.trouble("look at", to.0, e))?.len();
        let end = to_offset + len;
        self.note_change(to.0, &mut changing, to_offset..end, end > now)?;
        let to_sums = self.sum_file(to.0, to.1)?;
        let was_damaged = to_sums.has_damaged(&*self.disk, to_first, count);
        if was_damaged.map_err(|e| self.trouble("read the sums of", to.0, e))? {
            return Ok(None);
        }
        let put = to_sums.put(&*self.disk, to_first, &sums);
        let mut copied = 0;
        let outcome = put.and_then(|()| {
            while copied < len {
                let left = usize::try_from(len - copied).unwrap_or(usize::MAX);
                let (from_at, to_at) = (from_offset + copied, to_offset + copied);
                match self.disk.copy(&from.1.file, from_at, &to.1.file, to_at, left)? {
                    0 => break, // the source is shorter than it was
                    some => copied += some as u64,
                }
            }
            Ok(())
        });
        let blocks = to_first..to_first + count;
        if copied == len {
            self.checksums.findings.mended(to.0, blocks);
            return Ok(Some(len));
        }
        self.mend_sums(to.0, to.1, blocks);
        match outcome {
            Ok(()) => Ok(Some(copied)),
            Err(e) if cannot_copy(&e) && copied == 0 => Ok(None),
            Err(e) => Err(self.trouble("copy into", to.0, e)),
        }
    }

    fn copy_by_hand(
        &self,
        source: &Objects,
        from: Named<'_>,
        from_offset: u64,
        to: Named<'_>,
        to_offset: u64,
        len: u64,
    ) -> Result<u64, ObjectError> {
        let read: Bytes = source.read_blocks(from.0, from.1, from_offset, len as usize, true)?.data;
        let copied = read.len() as u64;
        self.write_open(to.0, to.1, to_offset, &read.into(), None)?;
        Ok(copied)
    }

    fn zero(
        &self,
        name: &ObjectName,
        open: &Arc<OpenObject>,
        offset: u64,
        len: u64,
    ) -> Result<(), ObjectError> {
        let mut changing = open.writing.lock();
        self.zero_summed(name, open, &mut changing, offset..offset + len, |offset, len| {
            match self.disk.punch(&open.file, offset, len) {
                Ok(()) => return Ok(()),
                Err(e) if cannot_copy(&e) => {}
                Err(e) => return Err(self.trouble("punch a hole in", name, e)),
            }
            let (mut at, end) = (offset, offset + len);
            while at < end {
                let zeros = &ZEROS[..ZEROS.len().min((end - at) as usize)];
                let written = self.disk.write_all_at(&open.file, zeros, at);
                written.map_err(|e| self.trouble("write", name, e))?;
                at += zeros.len() as u64;
            }
            Ok(())
        })
    }
}

/// The locks of both objects, always in the same order; none of the first if they are the same object.
fn lock_both<'a>(
    from: &'a Arc<OpenObject>,
    to: &'a Arc<OpenObject>,
) -> (Option<MutexGuard<'a, Changing>>, MutexGuard<'a, Changing>) {
    if Arc::ptr_eq(from, to) {
        return (None, to.writing.lock());
    }
    if Arc::as_ptr(from) < Arc::as_ptr(to) {
        let from = from.writing.lock();
        return (Some(from), to.writing.lock());
    }
    let to = to.writing.lock();
    (Some(from.writing.lock()), to)
}

/// True if the kernel reported that it cannot copy here, and not a failed copy.
fn cannot_copy(error: &std::io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::XDEV | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::PERM))
}
