//! Changing data and sums together. All of it is done with the object's lock `writing` held.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use wire::xdr::Payload;

use super::block_sum::{BLOCK, BLOCK_BYTES, BlockSum, is_zeros};
use super::regions::{Regions, region_of};
use super::sum_file::{SUFFIX, SumFile};
use crate::object::{ObjectName, OpenObject};
use crate::objects::{ObjectError, Objects};

/// Blocks whose sums are mended at once after a write that failed; more are left to the settling.
const MENDED_MAX: u64 = 64;

/// What the holder of an object's lock `writing` knows of the change log.
#[derive(Debug, Default)]
pub(crate) struct Changing {
    noted: Arc<Noted>,
    /// The records of the object in the log were looked up.
    is_known: bool,
}

/// Regions of an object that may change: their records are on the disk.
#[derive(Debug, Default)]
pub(crate) struct Noted(Mutex<Regions>);

impl Changing {
    /// The regions, to be looked at without the lock.
    pub(crate) fn noted(&self) -> Arc<Noted> {
        Arc::clone(&self.noted)
    }

    /// From here on each region is noted anew.
    pub(super) fn begin_anew(&mut self) {
        *self.noted.0.lock() = Regions::default();
        self.is_known = true;
    }
}

impl Noted {
    /// True if all regions of these bytes may change.
    pub(crate) fn has(&self, bytes: &Range<u64>) -> bool {
        let (first, last) = first_and_last(bytes, bytes.end == u64::MAX);
        self.0.lock().contains(first, last)
    }
}

/// The regions of these bytes; `to_end`: and all after them.
fn first_and_last(bytes: &Range<u64>, to_end: bool) -> (u32, u32) {
    let last = if to_end { u32::MAX } else { region_of(bytes.end.saturating_sub(1).max(bytes.start)) };
    (region_of(bytes.start), last)
}

/// The part of a block that a write covers.
struct Part {
    block: u64,
    /// First byte in the block.
    from: usize,
    len: usize,
    /// First byte in the payload.
    at: usize,
}

impl Part {
    fn is_whole(&self) -> bool {
        self.len == BLOCK_BYTES
    }
}

fn parts(offset: u64, len: usize) -> impl Iterator<Item = Part> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let place = offset + at as u64;
        let from = (place % BLOCK) as usize;
        let part = Part { block: place / BLOCK, from, len: (BLOCK_BYTES - from).min(len - at), at };
        at += part.len;
        (part.len > 0).then_some(part)
    })
}

/// The pieces of `len` bytes of a payload from byte `from` on.
fn pieces(payload: &Payload, from: usize, len: usize) -> impl Iterator<Item = &[u8]> + Clone {
    let (mut skip, mut left) = (from, len);
    payload.segments().iter().filter_map(move |segment| {
        let start = skip.min(segment.len());
        skip -= start;
        let piece = &segment[start..(start + left).min(segment.len())];
        left -= piece.len();
        (!piece.is_empty()).then_some(piece)
    })
}

/// CRC-32C of each piece of a write that lies in one block, in order: they go along a chain with the bytes. None of a
/// write beyond all offsets, which will be refused.
pub(crate) fn sums_of_pieces(offset: u64, payload: &Payload) -> Vec<u32> {
    if offset.checked_add(payload.len() as u64).is_none() {
        return vec![];
    }
    let sum = |part: Part| pieces(payload, part.at, part.len).fold(0, crc32c::crc32c_append);
    parts(offset, payload.len()).map(sum).collect()
}

/// Sums of the blocks that the write covers whole, computed while their bytes are in the processor's cache, unless
/// those of all pieces are `known`. Others: zeros.
pub(crate) fn sums_of_whole_blocks(offset: u64, payload: &Payload, known: Option<&[u32]>) -> Vec<BlockSum> {
    let of = |(at, part): (usize, Part)| {
        let bytes = || pieces(payload, part.at, part.len);
        if !part.is_whole() || bytes().all(is_zeros) {
            return BlockSum::Zeros;
        }
        let known = known.and_then(|sums| sums.get(at).copied());
        let crc = known.unwrap_or_else(|| bytes().fold(0, crc32c::crc32c_append));
        BlockSum::Crc { crc, len: BLOCK_BYTES as u32 }
    };
    parts(offset, payload.len()).enumerate().map(of).collect()
}

impl Objects {
    /// Makes sure that the change log has the regions of these offsets, durably, before they change.
    /// `to_end`: and all regions after them.
    pub(crate) fn note_change(
        &self,
        name: &ObjectName,
        changing: &mut Changing,
        range: Range<u64>,
        to_end: bool,
    ) -> Result<(), ObjectError> {
        let log = &self.checksums.log;
        if !changing.is_known {
            let (regions, number) = log.regions(name);
            self.sync_notes(number)?;
            *changing.noted.0.lock() = regions;
            changing.is_known = true;
        }
        let (first, last) = first_and_last(&range, to_end);
        if changing.noted.0.lock().contains(first, last) {
            return Ok(());
        }
        let noted = log.note(&*self.disk, name, first..=last, 0, self.checksums.now());
        let number = noted.map_err(|e| self.trouble("note a change of", name, e))?;
        self.sync_notes(number)?;
        changing.noted.0.lock().insert(first, last);
        Ok(())
    }

    /// Makes sure that the change log has the regions of these bytes, durably, before another member of the object's
    /// chain has the change: that one may be the next head, and know nothing of this one's lack.
    pub(crate) fn note_before_others(
        &self,
        name: &ObjectName,
        open: &OpenObject,
        bytes: Range<u64>,
    ) -> Result<(), ObjectError> {
        let to_end = bytes.end == u64::MAX;
        if bytes.is_empty() {
            Ok(())
        } else {
            self.note_change(name, &mut open.writing.lock(), bytes, to_end)
        }
    }

    /// The sum file of an object, which is made when there is none.
    pub(crate) fn sum_file<'a>(
        &self,
        name: &ObjectName,
        open: &'a OpenObject,
    ) -> Result<&'a SumFile, ObjectError> {
        if let Some(sums) = open.sums.get() {
            return Ok(sums);
        }
        let make = || {
            // The lock keeps a removal from leaving the sum file behind.
            let _name = self.name_lock(name).lock();
            self.check_not_removed(name)?;
            let path = name.path() + SUFFIX;
            let made = match self.disk.create_file(self.root.file(), &path) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => self.root.open_file(&path),
                made => made,
            };
            let sums = SumFile(made.map_err(|e| self.trouble("make the sums of", name, e))?);
            sums.put_header(&*self.disk, name).map_err(|e| self.trouble("write the sums of", name, e))?;
            self.checksums.log.made_file(name);
            Ok(sums)
        };
        match make() {
            Ok(sums) => Ok(open.sums.get_or_init(|| sums)),
            Err(ObjectError::NoSpace) => {
                self.reclaim_some()?;
                let sums = make()?;
                Ok(open.sums.get_or_init(|| sums))
            }
            Err(error) => Err(error),
        }
    }

    /// Makes sure that the change log has something of the object, durably, before anything of it changes that other
    /// members of its chain have, too.
    pub(crate) fn note_object(&self, name: &ObjectName, open: &OpenObject) -> Result<(), ObjectError> {
        self.note_change(name, &mut open.writing.lock(), 0..1, false)
    }

    /// [`Objects::note_change`] for several ranges, with one sync.
    pub(crate) fn note_changes(
        &self,
        name: &ObjectName,
        changing: &mut Changing,
        ranges: &[Range<u64>],
    ) -> Result<(), ObjectError> {
        let mut regions = Regions::default();
        for range in ranges.iter().filter(|range| !range.is_empty()) {
            let (first, last) = first_and_last(range, range.end == u64::MAX);
            regions.insert(first, last);
        }
        let mut number = 0;
        for range in regions.ranges() {
            let noted = self.checksums.log.note(&*self.disk, name, range, 0, self.checksums.now());
            number = noted.map_err(|e| self.trouble("note a change of", name, e))?;
        }
        self.sync_notes(number)?;
        for range in regions.ranges() {
            changing.noted.0.lock().insert(*range.start(), *range.end());
        }
        Ok(())
    }

    /// An object is about to be made on this chain (0: none): all of it may change. Returns the number of the record in
    /// the change log. The caller has the lock of its name.
    pub(crate) fn note_new(&self, name: &ObjectName, chain: u64) -> Result<u64, ObjectError> {
        // Of an object that had the name before, and whose removal was cut short by a crash.
        match self.root.remove_file(&(name.path() + SUFFIX)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(self.trouble("remove old sums of", name, e));
            }
            _ => {}
        }
        self.remove_old_attachment(name).map_err(|e| self.trouble("remove the old bases of", name, e))?;
        self.note_whole(name, chain)
    }

    /// Notes durably that an object of this chain was removed: a member that is away has it. The next process knows it.
    pub(crate) fn note_removal(&self, name: &ObjectName, chain: u64) -> Result<(), ObjectError> {
        self.check()?;
        let number = self.note_whole(name, chain)?;
        self.sync_notes(number)
    }

    fn note_whole(&self, name: &ObjectName, chain: u64) -> Result<u64, ObjectError> {
        let log = &self.checksums.log;
        let noted = log.note(&*self.disk, name, 0..=u32::MAX, chain, self.checksums.now());
        noted.map_err(|e| self.trouble("note a change of", name, e))
    }

    /// Makes the records of the change log up to `number` durable.
    pub(crate) fn sync_notes(&self, number: u64) -> Result<(), ObjectError> {
        self.checksums.log.sync(&*self.disk, number).map_err(|e| self.log_failed(e))
    }

    /// Takes the sum file of an object that was just removed to the trash. The caller has the lock of its
    /// name.
    pub(crate) fn remove_sums(&self, name: &ObjectName) -> Result<(), ObjectError> {
        match self.trash.own().take(&self.root, &(name.path() + SUFFIX), &format!("{name}{SUFFIX}")) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(self.trouble("remove the sums of", name, e));
            }
            _ => {}
        }
        self.checksums.doubts.lock().remove(name);
        self.checksums.findings.mended(name, 0..u64::MAX);
        let log = &self.checksums.log;
        let settled = log.settled(&*self.disk, name, log.number());
        settled.map_err(|e| self.trouble("note the removal of", name, e))
    }

    /// Makes the sum file of an object that gets longer by zeros, which need no sums: an object with a length
    /// and without a sum file has lost it.
    pub(crate) fn begin_sums(
        &self,
        name: &ObjectName,
        open: &OpenObject,
        offset: u64,
    ) -> Result<(), ObjectError> {
        if open.sums.get().is_none() {
            let mut changing = open.writing.lock();
            self.note_change(name, &mut changing, offset..offset, true)?;
            self.sum_file(name, open)?;
        }
        Ok(())
    }

    /// Writes a payload, and the sums of its blocks. `sums` has those of the blocks that it covers whole.
    pub(crate) fn write_summed(
        &self,
        name: &ObjectName,
        open: &OpenObject,
        changing: &mut Changing,
        offset: u64,
        payload: &Payload,
        mut sums: Vec<BlockSum>,
    ) -> Result<(), ObjectError> {
        let end = offset + payload.len() as u64;
        let len = open.file.metadata().map_err(|e| self.trouble("look at", name, e))?.len();
        self.note_change(name, changing, offset..end, end > len)?;
        let file = self.sum_file(name, open)?;
        for (part, sum) in parts(offset, payload.len()).zip(&mut sums) {
            if !part.is_whole() {
                let pieces = pieces(payload, part.at, part.len);
                *sum = self.sum_of_part(name, open, part.block, part.from, part.len, pieces)?;
            }
        }
        let first = offset / BLOCK;
        let was_damaged = file.has_damaged(&*self.disk, first, sums.len() as u64);
        let was_damaged = was_damaged.map_err(|e| self.trouble("read the sums of", name, e))?;
        let write = || {
            // The sums first: where there is no room for them, no data have changed.
            if !was_damaged {
                file.put(&*self.disk, first, &sums)?;
            }
            if self.write_past_cache(open, offset, payload)? {
                return Ok(());
            }
            let mut at = offset;
            for piece in payload.segments() {
                self.disk.write_all_at(&open.file, piece, at)?;
                at += piece.len() as u64;
            }
            Ok(())
        };
        let blocks = first..end.div_ceil(BLOCK);
        if let Err(error) = write() {
            self.mend_sums(name, open, blocks);
            return Err(self.trouble("write", name, error));
        }
        if was_damaged {
            self.put_after_data(name, open, || file.put(&*self.disk, first, &sums))?;
        }
        self.checksums.findings.mended(name, blocks);
        Ok(())
    }

    /// Puts sums in place of those that say that blocks are damaged: after their data, and durably. A crash before that
    /// leaves them damaged, and no crash after it makes them so again.
    pub(crate) fn put_after_data(
        &self,
        name: &ObjectName,
        open: &OpenObject,
        put: impl FnOnce() -> io::Result<()>,
    ) -> Result<(), ObjectError> {
        open.touch();
        self.sync(name, open)?;
        let sums = self.sum_file(name, open)?;
        let is_put = put().and_then(|()| self.disk.sync_sums(&sums.0));
        is_put.map_err(|error| self.sums_sync_failed(name, open, &error))
    }

    /// The sum of a block after `len` bytes are written at `from` in it. The block is verified before, unless
    /// the new bytes are appended to it, or take the place of all of it.
    pub(crate) fn sum_of_part<'a>(
        &self,
        name: &ObjectName,
        open: &OpenObject,
        block: u64,
        from: usize,
        len: usize,
        pieces: impl Iterator<Item = &'a [u8]>,
    ) -> Result<BlockSum, ObjectError> {
        let Some(sums) = open.sums.get() else { return Err(ObjectError::Io) };
        let fail = |e| self.trouble("read the sums of", name, e);
        let old = sums.get(&*self.disk, block).map_err(fail)?;
        let is_doubtful = self.is_doubtful(name, open, block);
        if let (Ok(old), false) = (old, is_doubtful) {
            if old.len() <= from {
                return Ok(old.appended(from, pieces));
            }
            if from == 0 && old.len() <= len {
                return Ok(BlockSum::Zeros.appended(0, pieces));
            }
        }
        let mut buffer = self.pool.take(BLOCK_BYTES);
        let read = self.disk.read_at(&open.file, &mut buffer, block * BLOCK);
        let read = read.map_err(|e| self.trouble("read", name, e))?;
        if from > 0 || len < read {
            self.verify_block(name, open, block, &buffer[..read])?;
        }
        // A buffer has bytes of its last use.
        buffer[read..].fill(0);
        let mut at = from;
        for piece in pieces {
            buffer[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        Ok(BlockSum::of(&buffer[..read.max(at)]))
    }

    /// Computes the sums of blocks from the data as they are: a write to them failed halfway. Where that
    /// fails too, their regions are doubtful from now on.
    pub(crate) fn mend_sums(&self, name: &ObjectName, open: &OpenObject, blocks: Range<u64>) {
        let Some(sums) = open.sums.get() else { return };
        let mend = || {
            let mut buffer = self.pool.take(BLOCK_BYTES);
            for block in blocks.clone() {
                if sums.get(&*self.disk, block)? == Ok(BlockSum::Damaged) {
                    continue; // nothing vouches for what is left of it
                }
                let read = self.disk.read_at(&open.file, &mut buffer, block * BLOCK)?;
                sums.put(&*self.disk, block, &[BlockSum::of(&buffer[..read])])?;
            }
            Ok::<_, io::Error>(())
        };
        if blocks.end - blocks.start > MENDED_MAX || mend().is_err() {
            self.doubt(name, open, blocks.start * BLOCK..blocks.end.saturating_mul(BLOCK));
        }
    }

    /// The sums of these offsets need not fit from now on.
    pub(crate) fn doubt(&self, name: &ObjectName, open: &OpenObject, range: Range<u64>) {
        let last = region_of(range.end.saturating_sub(1).max(range.start));
        self.checksums.doubts.lock().entry(*name).or_default().insert(region_of(range.start), last);
        open.set_doubtful(true);
    }

    /// A sync of the change log failed: nothing can be believed of the target before a restart.
    fn log_failed(&self, error: io::Error) -> ObjectError {
        self.fail();
        tracing::error!(
            target = %self.root.path().display(), %error,
            "sync of the change log failed: nothing is served from this target any more. Check its disk (dmesg, smartctl), \
             then restart the data server"
        );
        ObjectError::Io
    }
}
