//! What the objects of a story must hold.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// Bytes that are written, lost and compared as one, filled with one number.
pub const CELL: u64 = 8 << 10;

/// All objects, by inode.
pub type Model = Arc<Mutex<BTreeMap<u64, Object>>>;

/// Value of a cell, and when its write began.
#[derive(Debug, Clone, Copy)]
pub struct Written {
    pub at: u64,
    pub value: u64,
}

#[derive(Debug, Clone, Default)]
pub struct Cell {
    /// Value that a COMMIT has made durable.
    pub durable: u64,
    /// Values of the writes since, in their order.
    pub since: Vec<Written>,
}

impl Cell {
    fn last(&self) -> u64 {
        self.since.last().map_or(self.durable, |written| written.value)
    }

    pub fn may_be_zero(&self) -> bool {
        self.durable == 0 || self.since.iter().any(|written| written.value == 0)
    }
}

#[derive(Debug, Clone, Default)]
pub struct Object {
    pub epoch: u32,
    pub cells: Vec<Cell>,
    pub is_removed: bool,
    /// Changes other than writes that are under way, and syncs.
    pub busy: u32,
    /// A call that syncs was not answered, and may be carried out until all is at rest.
    pub straggles: bool,
    /// What was written before may have been synced by another call than COMMIT.
    pub maybe_synced: u64,
    /// Losses of all members that its cells are exact after.
    pub seen_losses: u64,
}

impl Object {
    /// Of what is not synced, all may be lost.
    pub fn may_lose(&self) -> bool {
        self.busy == 0 && !self.straggles && !self.is_removed
    }

    /// Notes a write that begins now.
    pub fn write(&mut self, cells: std::ops::Range<usize>, at: u64, value: u64) {
        if self.cells.len() < cells.end {
            self.cells.resize_with(cells.end, Cell::default);
        }
        self.cells[cells].iter_mut().for_each(|cell| cell.since.push(Written { at, value }));
    }

    /// Notes a copy of `cells` of another object; each has the last of its values, or after a loss any.
    pub fn copy(&mut self, first: usize, cells: &[Cell], at: u64) {
        self.write(first..first + cells.len(), at, 0);
        for (cell, source) in self.cells[first..].iter_mut().zip(cells) {
            cell.since.pop();
            let values = [source.durable].into_iter().chain(source.since.iter().map(|written| written.value));
            cell.since.extend(values.map(|value| Written { at, value }));
        }
    }

    /// Notes a COMMIT that was answered.
    pub fn commit(&mut self) {
        for cell in &mut self.cells {
            *cell = Cell { durable: cell.last(), since: vec![] };
        }
    }

    /// Checks the object's bytes. `losses`: those that all members together had until now; after a new one each cell
    /// holds what was durable, or any value of since then, and that one is exact.
    pub fn check(&mut self, bytes: &[u8], losses: u64, now: u64) -> Result<(), String> {
        if bytes.len() as u64 != self.cells.len() as u64 * CELL {
            return Err(format!("{} bytes, and {} cells are there", bytes.len(), self.cells.len()));
        }
        let is_exact = self.seen_losses == losses;
        for (n, (cell, found)) in self.cells.iter_mut().zip(bytes.chunks(CELL as usize)).enumerate() {
            let value = u64::from_le_bytes(found[..8].try_into().expect("eight bytes"));
            if found.chunks(8).any(|word| word != value.to_le_bytes()) {
                return Err(format!("cell {n} is torn"));
            }
            let may_be = match is_exact {
                true => value == cell.last(),
                false => value == cell.durable || cell.since.iter().any(|written| written.value == value),
            };
            if !may_be {
                return Err(format!("cell {n} is {value}, exact: {is_exact}, {cell:?}"));
            }
            if !is_exact && value != cell.last() {
                cell.since.push(Written { at: now, value });
            }
        }
        self.seen_losses = losses;
        Ok(())
    }
}
