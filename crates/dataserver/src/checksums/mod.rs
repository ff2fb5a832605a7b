//! Checksums: a CRC-32C for each 64 KiB block of each object, kept beside the object, and verified at each
//! read.
//!
//! ```text
//! write    ─▶ change log (once for a region) ─▶ sums into the sum file ─▶ data into the object's file
//! read     ─▶ data, whole blocks ─▶ sums ─▶ equal? ─ no ─▶ both once more, without a writer ─▶ damaged
//! settle   ─▶ sync of the data ─▶ sync of the sums ─▶ change log: the records so far do not count
//! restart  ─▶ regions in the change log are doubtful ─▶ their blocks that do not fit are summed anew
//! ```
//!
//! Within a process the sums that the kernel has in its cache fit the data in it whenever no write of the
//! object is under way: both change under the object's lock `writing`. On the disk they may differ, in the
//! order in which the kernel happens to write. [`change_log`] has the regions where they may, and was synced
//! before. So a COMMIT syncs the data and nothing else; sums follow some seconds later ([`settle`]).
//!
//! - No false alarm: a region that is not in the change log has the sums of its data on the disk.
//! - No silent gap: data that were acknowledged are in a region whose sums are on the disk, or which is in
//!   the change log. After a crash, blocks of the latter that do not fit are summed as they are found, counted
//!   and logged. Damage that happens between a write and its settling, and is followed by a crash, is not told
//!   apart from a write that was cut short.
//! - A write that covers a part of a block first verifies the block as it was. So no sum ever vouches for
//!   damage beside the bytes that were written.
//!
//! docs/decisions/0011-checksums.md has the alternatives and the cost.

mod block_sum;
mod blocks;
mod change;
mod change_log;
mod findings;
mod mend;
mod open;
mod regions;
mod scrub;
mod scrub_record;
mod settle;
mod shorten;
mod span;
mod sum_file;
mod verify;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use host::Clock;
use parking_lot::Mutex;

pub use block_sum::BLOCK_BYTES;
pub use blocks::BlockState;
pub use findings::ChecksumCounts;
pub use scrub::{Scrub, ScrubStep};
pub use scrub_record::{ScrubRecord, ScrubRun};
pub use settle::Settling;

pub(crate) use block_sum::{BLOCK, BlockSum, ZEROS};
pub(crate) use change::{Changing, Noted, sums_of_pieces, sums_of_whole_blocks};
pub(crate) use change_log::{ChangeLog, FILE as CHANGE_LOG, LeftObject, NEXT as CHANGE_LOG_NEXT};
pub(crate) use regions::{REGION_BLOCKS, Regions};
pub(crate) use span::Span;
pub(crate) use sum_file::{SUFFIX, SumFile};

use crate::object::ObjectName;
use findings::Findings;

/// When blocks are verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verify {
    /// At each read, and by the scrubber.
    #[default]
    Read,
    /// By the scrubber alone.
    Scrub,
}

/// Checksums of one target.
pub(crate) struct Checksums {
    pub log: ChangeLog,
    /// Regions whose sums need not fit their data: they were changing when the last process ended, or have
    /// no sums. Such a region is verified by nobody until it is settled.
    pub doubts: Mutex<BTreeMap<ObjectName, Regions>>,
    pub findings: Findings,
    /// Held by the thread that settles.
    pub settling: Mutex<()>,
    verifies_reads: AtomicBool,
    clock: Arc<dyn Clock>,
}

impl Checksums {
    pub(crate) fn new(log: ChangeLog, doubts: BTreeMap<ObjectName, Regions>, clock: Arc<dyn Clock>) -> Self {
        Self {
            log,
            doubts: Mutex::new(doubts),
            findings: Findings::default(),
            settling: Mutex::default(),
            verifies_reads: AtomicBool::new(true),
            clock,
        }
    }

    fn now(&self) -> u64 {
        self.clock.monotonic().as_secs()
    }

    pub(crate) fn verifies_reads(&self) -> bool {
        self.verifies_reads.load(Ordering::Relaxed)
    }

    pub(crate) fn set_verify(&self, verify: Verify) {
        self.verifies_reads.store(verify == Verify::Read, Ordering::Relaxed);
    }

    /// True if a region of these offsets is doubtful.
    fn doubts(&self, name: &ObjectName, offset: u64, end: u64) -> bool {
        self.doubts.lock().get(name).is_some_and(|regions| regions.touches(offset, end))
    }
}
