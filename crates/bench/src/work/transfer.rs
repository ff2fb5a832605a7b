//! Transfer of records of one file.

use std::io;

use crate::aligned::AlignedBuffer;
use crate::data;
use crate::phase::Phase;
use crate::result::Cache;
use crate::target::{Open, OpenFile, Target};
use crate::task::{Direction, Order, Transfer as Task};
use crate::trouble::Trouble;
use crate::work::{Turn, Work};

struct Transfer {
    task: Task,
    verify: bool,
    direct: bool,
    file: Box<dyn OpenFile>,
    /// Shuffled record numbers, if not in order.
    shuffled: Option<Vec<u64>>,
    buffer: AlignedBuffer,
}

/// Opens the file, and applies the phase's treatment of caches.
pub(super) fn prepare(task: &Task, phase: &Phase, target: &dyn Target) -> Result<Box<dyn Work>, Trouble> {
    let direct = phase.cache == Cache::Direct;
    let (open, verb) = match task.direction {
        Direction::Write => (Open::Write { direct }, "write"),
        Direction::Read => (Open::Read { direct }, "read"),
    };
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::InvalidInput if direct => Trouble(format!(
            "open {}: there is no O_DIRECT on this file system: leave out --direct",
            task.path
        )),
        _ => Trouble::io(&format!("open {} to {verb}", task.path), &error),
    };
    let file = target.open(&task.path, open).map_err(failed)?;
    if task.direction == Direction::Read && phase.cache == Cache::Dropped {
        file.forget().map_err(|e| Trouble::io(&format!("drop the cached pages of {}", task.path), &e))?;
    }
    let shuffled = match task.order {
        Order::Forward => None,
        Order::Shuffled => Some(shuffled(task.records.count, task.seed)),
    };
    let record_bytes = usize::try_from(task.records.record_bytes)
        .map_err(|_| Trouble(format!("records of {} bytes: too large", task.records.record_bytes)))?;
    let buffer = AlignedBuffer::new(record_bytes);
    Ok(Box::new(Transfer { task: task.clone(), verify: phase.verify, direct, file, shuffled, buffer }))
}

impl Work for Transfer {
    fn carry_out(mut self: Box<Self>, turn: &mut Turn<'_>) -> Result<(), Trouble> {
        for i in 0..self.task.records.count {
            let record = self.shuffled.as_ref().map_or(i, |order| order[i as usize]);
            let offset = self.task.records.offset(record);
            if !turn.goes_on() {
                break;
            }
            match self.task.direction {
                Direction::Write => self.write(offset)?,
                Direction::Read => self.read(offset, turn)?,
            }
            turn.did(self.task.records.record_bytes);
        }
        let Self { task, file, .. } = *self;
        if task.direction == Direction::Write {
            file.sync().map_err(|e| Trouble::io(&format!("bring {} to disk", task.path), &e))?;
            file.close().map_err(|e| Trouble::io(&format!("close {}", task.path), &e))?;
        }
        Ok(())
    }
}

impl Transfer {
    fn write(&mut self, offset: u64) -> Result<(), Trouble> {
        data::fill(self.task.seed, offset, self.buffer.bytes_mut());
        self.file.write_at(offset, self.buffer.bytes()).map_err(|e| self.failed("write", offset, &e))
    }

    fn read(&mut self, offset: u64, turn: &mut Turn<'_>) -> Result<(), Trouble> {
        let wanted = self.buffer.bytes().len();
        let n = self
            .file
            .read_at(offset, self.buffer.bytes_mut())
            .map_err(|e| self.failed("read", offset, &e))?;
        if n < wanted {
            return Err(Trouble(format!(
                "{}: the file ends after {n} bytes: it was written longer, so data are lost, or somebody cut it",
                self.at("read", offset)
            )));
        }
        if self.verify {
            if let Some(wrong) = data::first_wrong(self.task.seed, offset, self.buffer.bytes()) {
                return Err(Trouble::wrong(&self.task.path, wrong));
            }
            turn.verified(wanted as u64);
        }
        Ok(())
    }

    fn failed(&self, verb: &str, offset: u64, error: &io::Error) -> Trouble {
        if self.direct && error.kind() == io::ErrorKind::InvalidInput {
            return Trouble(format!(
                "{}: O_DIRECT wants whole blocks of the disk here: choose records of a multiple of 4096 bytes, or \
                 leave out --direct",
                self.at(verb, offset)
            ));
        }
        Trouble::io(&self.at(verb, offset), error)
    }

    fn at(&self, verb: &str, offset: u64) -> String {
        format!("{verb} {} bytes of {} at {offset}", self.task.records.record_bytes, self.task.path)
    }
}

/// Random permutation of the numbers below `count` (Fisher and Yates).
fn shuffled(count: u64, seed: u64) -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..count).collect();
    for (i, left) in (1..=numbers.len()).rev().enumerate() {
        let mut random = [0; 8];
        data::fill(seed, 8 * i as u64, &mut random);
        numbers.swap(left - 1, (u64::from_le_bytes(random) % left as u64) as usize);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffled_file_has_each_record_once_and_in_no_order() {
        let order = shuffled(1000, 7);
        assert_eq!(order, shuffled(1000, 7));
        assert_ne!(order, shuffled(1000, 8));
        let neighbours = order.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
        assert!(neighbours < 10, "{neighbours} pairs are in order");
        let mut sorted = order;
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..1000));
    }
}
