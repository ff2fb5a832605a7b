//! Counts of the records that one command reads and changes, and its time.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // a test may look at the clock

use std::cell::Cell;
use std::time::{Duration, Instant};

use namespace::*;
use store::{Durability, Edit, StoreError, View, Visitor};

use crate::world::*;

/// Records that one command read, and that it changed.
#[derive(Debug, Default)]
pub struct Counts {
    pub reads: Cell<usize>,
    pub changes: usize,
    /// Without the commit of the batch.
    pub time: Duration,
}

struct Counted<'a> {
    edit: &'a mut dyn Edit,
    counts: &'a mut Counts,
}

impl View for Counted<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.counts.reads.update(|reads| reads + 1);
        self.edit.get(key)
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: &mut Visitor<'_>) -> Result<(), StoreError> {
        self.edit.scan(from, to, &mut |key, value| {
            self.counts.reads.update(|reads| reads + 1);
            visit(key, value)
        })
    }
}

impl Edit for Counted<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.counts.changes += 1;
        self.edit.put(key, value)
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.counts.changes += 1;
        self.edit.delete(key)
    }
}

impl World {
    /// Carries out one command without a look at the whole store, and counts.
    pub fn counted(&mut self, command: Command) -> (Reply, Counts) {
        self.seconds += 1;
        let stamp = Stamp { time: at(self.seconds), random: 0x1111_2222_3333_0000 + self.seconds as u64 };
        let proposal = Proposal::new(stamp, None, command);
        let (mut reply, mut counts) = (None, Counts::default());
        self.store
            .batch(Durability::Deferred, &mut |edit| {
                let began = Instant::now();
                let mut counted = Counted { edit, counts: &mut counts };
                reply = Some(apply(&mut counted, &proposal)?);
                counts.time = began.elapsed();
                Ok::<(), StoreError>(())
            })
            .expect("applies");
        (reply.expect("the batch ran"), counts)
    }

    /// The same, with no more work than any command may take.
    pub fn bounded(&mut self, command: Command) -> Reply {
        let told = format!("{command:?}");
        let (reply, Counts { reads, changes, time: _ }) = self.counted(command);
        assert!(changes <= CHANGES_MAX, "{told}: {changes} changes");
        assert!(reads.get() <= READS_MAX, "{told}: {} reads", reads.get());
        reply
    }

    pub fn findings(&self) -> Vec<String> {
        check(&*self.view()).expect("checks")
    }

    /// Removes all leftovers, in how many commands.
    pub fn remove_leftovers(&mut self) -> usize {
        let mut commands = 0;
        while read::has_leftovers(&*self.view()).expect("reads") {
            assert_eq!(self.bounded(Command::RemoveLeftovers), Reply::Done);
            commands += 1;
        }
        commands
    }
}

/// What a command takes up at most, and the last piece of work that it takes up.
const CHANGES_MAX: usize = RECORDS_OF_COMMAND_MAX + 512;
/// A few for each change.
const READS_MAX: usize = 8 * RECORDS_OF_COMMAND_MAX;
