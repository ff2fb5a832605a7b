//! Disks that lose what was not synced when their machine loses power.

use std::os::unix::fs::FileExt;

use super::Story;
use super::model::CELL;

/// Cell of a file that goes back to what was durable.
#[derive(Debug, Clone)]
pub struct Loss {
    inode: u64,
    cell: u64,
    /// Values that were not synced: the file has one of them, or one that nothing is known of.
    unsynced: Vec<u64>,
    durable: u64,
}

impl Story {
    /// Some of the cells that this member has, and that no call is known to have synced.
    pub fn what_may_be_lost(&self, node: usize) -> Vec<Loss> {
        let (model, synced) = (self.shared.model.lock(), self.synced[node]);
        let objects = model.iter().filter(|(_, object)| object.may_lose());
        let cells = objects.flat_map(|(inode, object)| {
            let is_unsynced = move |at: u64| at > synced.max(object.maybe_synced);
            let cells = object.cells.iter().enumerate();
            let unsynced =
                cells.filter(move |(_, cell)| cell.since.first().is_some_and(|w| is_unsynced(w.at)));
            unsynced.map(|(n, cell)| Loss {
                inode: *inode,
                cell: n as u64,
                unsynced: cell.since.iter().map(|written| written.value).collect(),
                durable: cell.durable,
            })
        });
        cells.filter(|_| self.choice.below(2) == 0).collect()
    }

    /// Changes the files of a member that is down.
    pub fn lose(&mut self, node: usize) {
        let mut lost = 0;
        for loss in std::mem::take(&mut self.losses[node]) {
            let options =
                std::fs::File::options().read(true).write(true).open(self.world.file(node, loss.inode));
            let Ok(file) = options else { continue };
            let mut word = [0; 8];
            if file.read_exact_at(&mut word, loss.cell * CELL).is_ok()
                && loss.unsynced.contains(&u64::from_le_bytes(word))
            {
                let durable = loss.durable.to_le_bytes().repeat(CELL as usize / 8);
                file.write_all_at(&durable, loss.cell * CELL).expect("the file can be written");
                lost += 1;
            }
        }
        self.lost += lost;
        self.told.push(format!("{node} has lost {lost} cells"));
    }
}
