//! Copying between objects of this machine, inside the kernel. Where both are on one file system that can
//! share data between files (reflink), that is what the kernel does, and nothing is copied at all.

use std::fs::File;

use rustix::io::Errno;
use wire::data::Piece;

use crate::disk::Place;
use crate::epoch::ObjectRef;
use crate::object::ObjectName;
use crate::objects::{ObjectError, Objects, end_of};

/// Copied at a time where the kernel cannot do it.
const BUFFER_BYTES: usize = 1 << 20;
/// Zeros where the file system cannot make holes.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

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
            end_of(piece.to, piece.len)?;
            bytes = bytes.saturating_add(piece.len);
        }
        let from_object = source.find(from.name)?;
        let _from_entered = source.enter(&from_object, from)?;
        self.take_room(bytes)?;
        let to_object = self.find(to.name)?;
        let _to_entered = self.enter(&to_object, to)?;
        let outcome = pieces.iter().try_for_each(|piece| {
            self.copy_piece(source, (&from.name, &from_object.file), (&to.name, &to_object.file), *piece)
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
        let outcome = self.zero(&object.name, &open.file, offset, len);
        open.touch();
        outcome
    }

    fn copy_piece(
        &self,
        source: &Objects,
        (from, from_file): (&ObjectName, &File),
        (to, to_file): (&ObjectName, &File),
        piece: Piece,
    ) -> Result<(), ObjectError> {
        let seek = |place, at| {
            let found = source.disk.seek(from_file, place, at);
            found.map_err(|e| source.trouble("seek in", from, e))
        };
        let end = piece.from + piece.len;
        let mut at = piece.from;
        while at < end {
            let data = seek(Place::Data, at)?.map_or(end, |data| data.clamp(at, end));
            if data > at {
                self.zero(to, to_file, piece.to + (at - piece.from), data - at)?;
                at = data;
                continue;
            }
            let hole = seek(Place::Hole, at)?.filter(|hole| *hole > at).map_or(end, |hole| hole.min(end));
            let len = usize::try_from(hole - at).unwrap_or(usize::MAX);
            let to_offset = piece.to + (at - piece.from);
            let copied = match self.disk.copy(from_file, at, to_file, to_offset, len) {
                Ok(copied) => copied,
                Err(e) if cannot_copy(&e) => {
                    self.copy_by_hand(source, (from, from_file), at, (to, to_file), to_offset, len)?
                }
                Err(e) => return Err(self.trouble("copy into", to, e)),
            };
            if copied == 0 {
                // The source was truncated meanwhile: the rest is zeros now.
                return self.zero(to, to_file, to_offset, end - at);
            }
            at += copied as u64;
        }
        Ok(())
    }

    fn copy_by_hand(
        &self,
        source: &Objects,
        (from, from_file): (&ObjectName, &File),
        from_offset: u64,
        (to, to_file): (&ObjectName, &File),
        to_offset: u64,
        len: usize,
    ) -> Result<usize, ObjectError> {
        let mut buffer = self.pool.take(len.min(BUFFER_BYTES));
        let read = source.disk.read_at(from_file, &mut buffer, from_offset);
        let read = read.map_err(|e| source.trouble("read", from, e))?;
        let written = self.disk.write_all_at(to_file, &buffer[..read], to_offset);
        written.map_err(|e| self.trouble("write", to, e))?;
        Ok(read)
    }

    fn zero(&self, name: &ObjectName, file: &File, offset: u64, len: u64) -> Result<(), ObjectError> {
        let now = file.metadata().map_err(|e| self.trouble("look at", name, e))?.len();
        let end = (offset + len).min(now);
        if offset >= end {
            return Ok(());
        }
        match self.disk.punch(file, offset, end - offset) {
            Ok(()) => return Ok(()),
            Err(e) if cannot_copy(&e) => {}
            Err(e) => return Err(self.trouble("punch a hole in", name, e)),
        }
        let mut at = offset;
        while at < end {
            let zeros = &ZEROS[..ZEROS.len().min((end - at) as usize)];
            self.disk.write_all_at(file, zeros, at).map_err(|e| self.trouble("write", name, e))?;
            at += zeros.len() as u64;
        }
        Ok(())
    }
}

/// True if the kernel reported that it cannot copy here, and not a failed copy.
fn cannot_copy(error: &std::io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::XDEV | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::PERM))
}
