//! The scrubber: reads all objects of a target from the disk, past the kernel's cache, and verifies them.
//!
//! ```text
//! page of names ─▶ object ─▶ 1 MiB from the disk ─▶ fits? ─ no ─▶ once more without a writer ─▶ damaged
//!                                                                  └─ the kernel's cache fits ─▶ written again
//! ```
//!
//! It goes through the objects in the order of LIST, so that the name of the last object is all that a
//! restart needs to go on.

use std::collections::VecDeque;
use std::fs::File;
use std::io;

use rustix::fs::{Advice, fadvise};
use wire::data::{ObjectEntry, list};

use super::block_sum::{BLOCK, BLOCK_BYTES, BlockSum};
use crate::object::{ObjectName, OpenObject};
use crate::objects::{ALIGNMENT, ObjectError, Objects};

/// Objects that are looked up at a time.
const PAGE: u32 = 1024;
/// Blocks that are read at a time: 1 MiB, after which clients have their turn.
const BLOCKS_AT_ONCE: u64 = 16;

/// Progress of a scrub through the objects of a target.
#[derive(Debug, Default)]
pub struct Scrub {
    /// The last object that was verified.
    pub after: Option<list::ObjectName>,
    page: VecDeque<ObjectName>,
    page_is_last: bool,
    current: Option<(ObjectName, u64)>,
    file: Option<File>,
    buffer: Vec<u8>,
    /// Bytes that were read.
    pub bytes: u64,
    /// Objects that were verified.
    pub objects: u64,
}

/// Outcome of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScrubStep {
    /// So many bytes were read; there is more.
    Read(u64),
    /// All objects were verified.
    Ended,
}

impl Scrub {
    /// A scrub that goes on after this object.
    #[must_use]
    pub fn resume(after: Option<list::ObjectName>) -> Self {
        Self { after, ..Self::default() }
    }

    fn pass(&mut self, name: &ObjectName) {
        self.objects += 1;
        self.file = None;
        self.after = Some(list::ObjectName { inode: name.inode, column: name.column });
    }
}

impl Objects {
    /// Verifies the next 1 MiB at most. An object that cannot be opened is passed over. Blocks.
    ///
    /// # Errors
    /// [`ObjectError`] of the target as a whole.
    pub fn scrub_step(&self, scrub: &mut Scrub) -> Result<ScrubStep, ObjectError> {
        self.check()?;
        let Some((name, block)) = scrub.current.take() else { return self.next_object(scrub) };
        match self.scrub_blocks(scrub, &name, block) {
            Ok((read, is_done)) => {
                scrub.bytes += read;
                if is_done {
                    scrub.pass(&name);
                } else {
                    scrub.current = Some((name, block + BLOCKS_AT_ONCE));
                }
                Ok(ScrubStep::Read(read))
            }
            // Removed meanwhile, or logged: the others are to be verified, too.
            Err(_) => {
                scrub.pass(&name);
                Ok(ScrubStep::Read(0))
            }
        }
    }

    fn next_object(&self, scrub: &mut Scrub) -> Result<ScrubStep, ObjectError> {
        if scrub.page.is_empty() {
            if scrub.page_is_last {
                return Ok(ScrubStep::Ended);
            }
            let page = self.list(scrub.after, PAGE)?;
            scrub.page_is_last = page.done;
            scrub.page = page
                .objects
                .into_iter()
                .map(|found| {
                    let ObjectEntry { volume, inode, generation, column } = found;
                    ObjectName { inode, column, volume, generation }
                })
                .collect();
        }
        scrub.current = scrub.page.pop_front().map(|name| (name, 0));
        Ok(ScrubStep::Read(0))
    }

    /// Verifies some blocks of an object. Returns the bytes that were read, and whether these were the last.
    fn scrub_blocks(
        &self,
        scrub: &mut Scrub,
        name: &ObjectName,
        first: u64,
    ) -> Result<(u64, bool), ObjectError> {
        let open = self.find(*name)?;
        let fail = |e| self.trouble("scrub", name, e);
        // Sums that are changing are in the kernel's cache, as their data are: a read past it would have both
        // written to the disk, at each pass.
        let is_changing = self.checksums.log.regions(name).0 != super::Regions::default();
        if first == 0 && !is_changing {
            scrub.file = self.root.open_past_cache(&name.path()).map_err(fail)?;
            self.scrub_header(name, &open)?;
        }
        let blocks = self.blocks_of(name, &open)?;
        if open.sums.get().is_none() {
            return Ok((0, true)); // it is summed soon
        }
        let file = scrub.file.as_ref().filter(|_| !is_changing);
        if scrub.buffer.is_empty() {
            scrub.buffer = vec![0; BLOCKS_AT_ONCE as usize * BLOCK_BYTES + ALIGNMENT];
        }
        let aligned = scrub.buffer.as_ptr().align_offset(ALIGNMENT);
        let buffer = &mut scrub.buffer[aligned..][..BLOCKS_AT_ONCE as usize * BLOCK_BYTES];
        let read = self.read_past_cache(file, &open, buffer, first * BLOCK).map_err(fail)?;
        let count = BLOCKS_AT_ONCE.min(blocks.saturating_sub(first));
        for block in first..first + count {
            if open.attachment.get().is_some_and(|attached| attached.is_of_base(block * BLOCK)) {
                continue; // it is verified there
            }
            let from = (((block - first) * BLOCK) as usize).min(read);
            let bytes = &buffer[from..read.min(from + BLOCK_BYTES)];
            let Some(sums) = open.sums.get() else { break };
            let fits = sums.get(&*self.disk, block).map_err(fail)?.is_ok_and(|sum| sum.matches(bytes));
            if !fits {
                match self.scrub_again(name, &open, file, block) {
                    Ok(()) | Err(ObjectError::Damaged) => {} // counted and logged
                    Err(error) => return Err(error),
                }
            }
        }
        Ok((read as u64, first + BLOCKS_AT_ONCE >= blocks))
    }

    /// Verifies a block that did not fit once more, without a writer.
    fn scrub_again(
        &self,
        name: &ObjectName,
        open: &OpenObject,
        file: Option<&File>,
        block: u64,
    ) -> Result<(), ObjectError> {
        let fail = |e| self.trouble("scrub", name, e);
        let mut space = vec![0; BLOCK_BYTES + ALIGNMENT];
        let aligned = space.as_ptr().align_offset(ALIGNMENT);
        let buffer = &mut space[aligned..][..BLOCK_BYTES];
        let _alone = open.writing.lock();
        let Some(sums) = open.sums.get() else { return Ok(()) };
        let read = self.read_past_cache(file, open, buffer, block * BLOCK).map_err(fail)?;
        let sum = sums.get(&*self.disk, block).map_err(fail)?;
        if !sum.is_ok_and(|sum| sum != BlockSum::Damaged && !sum.matches(&buffer[..read])) {
            // It fits by now, or its sum is the fault.
            return self.verify_block(name, open, block, &buffer[..read]);
        }
        // The kernel may have the block as it was written.
        let mut cached = self.pool.take(BLOCK_BYTES);
        let len = self.disk.read_at(&open.file, &mut cached, block * BLOCK).map_err(fail)?;
        if file.is_none() || !sum.is_ok_and(|sum| sum.matches(&cached[..len])) {
            return self.verify_block(name, open, block, &buffer[..read]);
        }
        self.disk.write_all_at(&open.file, &cached[..len], block * BLOCK).map_err(fail)?;
        open.touch();
        self.checksums.findings.rewritten();
        tracing::error!(
            target = %self.root.path().display(), object = %name, block,
            "a block on the disk does not fit its checksum, and was written again from the kernel's cache. Check the disk \
             (dmesg, smartctl)"
        );
        Ok(())
    }

    /// Verifies the header of a sum file, and the sums after the end of the object, and has the kernel read
    /// the sums from the disk.
    fn scrub_header(&self, name: &ObjectName, open: &OpenObject) -> Result<(), ObjectError> {
        let Some(sums) = open.sums.get() else { return Ok(()) };
        let fail = |e| self.trouble("scrub", name, e);
        fadvise(&sums.0, 0, None, Advice::DontNeed).map_err(|e| fail(e.into()))?;
        let _alone = open.writing.lock();
        if !sums.has_header(&*self.disk, name).map_err(fail)? {
            self.checksums.findings.sum_damaged();
            tracing::error!(
                target = %self.root.path().display(), object = %name,
                "the header of an object's sum file is damaged, and is written again. Check the disk (dmesg, smartctl)"
            );
            sums.put_header(&*self.disk, name).map_err(fail)?;
        }
        Ok(())
    }

    fn read_past_cache(
        &self,
        file: Option<&File>,
        open: &OpenObject,
        buffer: &mut [u8],
        offset: u64,
    ) -> io::Result<usize> {
        match file {
            Some(file) => self.disk.read_past_cache(file, buffer, offset),
            None => self.disk.read_at(&open.file, buffer, offset),
        }
    }

    /// Scrubs the whole target at once. Blocks.
    ///
    /// # Errors
    /// As [`Objects::scrub_step`].
    pub fn scrub_all(&self) -> Result<Scrub, ObjectError> {
        let mut scrub = Scrub::default();
        while self.scrub_step(&mut scrub)? != ScrubStep::Ended {}
        Ok(scrub)
    }
}
