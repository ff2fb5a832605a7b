//! Settling of files that were written through layouts, by the leader: see [`crate::data::unsettled`].
//!
//! A file waits while one of its targets does not answer, or has lost an object. Such a target, or file, is
//! tried again after a pause that grows, and apart from the other files: a data server that hangs does not
//! hold them up.
//!
//! ```text
//! files to settle ─┬─ all targets answered last time ─▶ round, each 250 ms
//!                  ├─ one did not, its pause is over  ─▶ a round of their own, one at a time
//!                  └─ in a pause                       ─▶ left out
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use host::Repeated;
use namespace::{InodeId, TargetId, VolumeId, read};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::data::Data;
use crate::data::deferred::backlog::Pause;
use crate::data::unsettled::FILES_AT_ONCE;
use crate::errors::FileError;

/// Interval of the leader's search for files to settle: after a close, operations ask the data servers at
/// most for this long.
const SETTLE_EVERY: Duration = Duration::from_millis(250);
/// Files with a lost object that are remembered; more of them are tried with each round.
const FILES_MAX: usize = 10_000;

/// Targets and files that could not be settled last time.
#[derive(Default)]
pub(crate) struct Settling {
    behind: Mutex<Behind>,
    lost: Repeated,
}

#[derive(Default)]
struct Behind {
    targets: BTreeMap<TargetId, Pause>,
    files: BTreeMap<InodeId, Pause>,
}

/// Time to settle a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum When {
    Now,
    Apart,
    Later,
}

impl Settling {
    /// Notes whether a target has answered.
    pub(crate) fn note(&self, target: TargetId, is_answered: bool) {
        let mut behind = self.behind.lock();
        if is_answered {
            behind.targets.remove(&target);
        } else {
            let now = Instant::now();
            behind.targets.entry(target).or_insert_with(|| Pause::none(now)).grow(now);
        }
    }

    /// Ends the pauses of these targets: their data server answers again.
    pub(crate) fn retry_now(&self, targets: &[TargetId]) {
        let mut behind = self.behind.lock();
        for target in targets {
            behind.targets.remove(target);
        }
        behind.files.clear();
    }

    /// Notes a file with a column out of reach. Returns how many there were, if that is to be logged.
    fn note_lost(&self, file: InodeId) -> Option<u64> {
        let now = Instant::now();
        let mut behind = self.behind.lock();
        let is_new = !behind.files.contains_key(&file);
        if !is_new || behind.files.len() < FILES_MAX {
            behind.files.entry(file).or_insert_with(|| Pause::none(now)).grow(now);
        }
        if is_new { self.lost.count() } else { None }
    }

    fn when(&self, file: InodeId, targets: &[TargetId], now: Instant) -> When {
        let behind = self.behind.lock();
        let pauses = targets.iter().filter_map(|target| behind.targets.get(target));
        let pauses = pauses.chain(behind.files.get(&file));
        pauses
            .map(|pause| if pause.is_over(now) { When::Apart } else { When::Later })
            .max()
            .unwrap_or(When::Now)
    }

    /// Forgets files that have nothing to be settled any more.
    fn retain(&self, has_mark: impl Fn(InodeId) -> bool) {
        self.behind.lock().files.retain(|file, _| has_mark(*file));
    }
}

impl Data {
    /// Settles files that were written through layouts: after a client closed the file, died, or lost its
    /// layout, and files that an earlier leader did not settle. Never returns.
    pub(crate) async fn settle_files(self: Arc<Self>) {
        let mut apart = None;
        loop {
            if self.machine.replica.leads()
                && let Err(status) = self.settle_round(&mut apart).await
            {
                tracing::debug!(?status, "files whose layouts ended wait to be settled");
            }
            tokio::time::sleep(SETTLE_EVERY).await;
        }
    }

    async fn settle_round(
        self: &Arc<Self>,
        apart: &mut Option<tokio::task::JoinHandle<()>>,
    ) -> Result<(), FileError> {
        let mut after = InodeId(0);
        let is_free = apart.as_ref().is_none_or(tokio::task::JoinHandle::is_finished);
        let mut to_do_apart = Vec::new();
        loop {
            let files = read::to_settle(&*self.machine.view()?, after, FILES_AT_ONCE)?;
            let Some(last) = files.last() else { break };
            after = *last;
            let mut now = Vec::new();
            for file in files {
                match self.when_to_settle(file)? {
                    When::Now => now.push(file),
                    When::Apart if is_free && to_do_apart.len() < FILES_AT_ONCE => to_do_apart.push(file),
                    When::Apart | When::Later => {}
                }
            }
            self.settle(&now).await?;
        }
        if !to_do_apart.is_empty() {
            let data = Arc::clone(self);
            *apart = Some(tokio::spawn(async move {
                if let Err(status) = data.settle(&to_do_apart).await {
                    tracing::debug!(?status, "files whose layouts ended wait to be settled");
                }
            }));
        }
        let view = self.machine.view()?;
        self.settling.retain(|file| matches!(read::unsettled(&*view, file), Ok(Some(_))));
        Ok(())
    }

    fn when_to_settle(&self, file: InodeId) -> Result<When, FileError> {
        let targets = match read::inode(&*self.machine.view()?, file)? {
            Some(inode) if inode.columns().is_some() => {
                let chains = self.file_data(&inode)?.chains;
                chains.into_iter().map(|chain| self.cluster.head_of(chain)).collect()
            }
            _ => Vec::new(),
        };
        Ok(self.settling.when(file, &targets, Instant::now()))
    }

    /// Settles the files of a volume whose layouts to write were returned.
    ///
    /// # Errors
    /// Those of the view, and of the command.
    pub(crate) async fn settle_volume(&self, volume: VolumeId) -> Result<(), FileError> {
        let mut after = volume.snapshots_directory(); // before all files
        loop {
            let mut files = read::to_settle(&*self.machine.view()?, after, FILES_AT_ONCE)?;
            files.retain(|file| file.volume() == volume);
            let Some(last) = files.last() else { return Ok(()) };
            after = *last;
            self.settle(&files).await?;
        }
    }

    async fn settle(&self, files: &[InodeId]) -> Result<(), FileError> {
        for (file, why) in self.observe(files, true).await? {
            if why == FileError::Io
                && let Some(count) = self.settling.note_lost(file)
            {
                tracing::error!(
                    inode = file.0,
                    count,
                    "the size of a file is not known: an object of it is lost, or its target failed. Opens of the file fail. \
                     Bring the object or the target back, or remove the file"
                );
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: TargetId = TargetId(1);
    const B: TargetId = TargetId(2);
    const F: InodeId = InodeId(7);

    #[test]
    fn files_of_a_target_that_does_not_answer_wait_and_the_others_do_not() {
        let settling = Settling::default();
        let now = Instant::now();
        let soon = now + Duration::from_secs(1);
        settling.note(A, false);
        settling.note(B, true);
        assert_eq!(settling.when(F, &[A, B], now), When::Later);
        assert_eq!(settling.when(F, &[A, B], soon), When::Apart);
        assert_eq!(settling.when(F, &[B], now), When::Now);
        settling.note(A, false);
        settling.note(A, false);
        assert_eq!(settling.when(F, &[A], soon), When::Later, "the pause grows");
        settling.retry_now(&[A]);
        assert_eq!(settling.when(F, &[A], now), When::Now);
        assert_eq!(settling.note_lost(F), Some(1));
        assert_eq!(settling.note_lost(F), None, "said once");
        assert_eq!(settling.when(F, &[A], now), When::Later);
        settling.retain(|_| false);
        assert_eq!(settling.when(F, &[A], now), When::Now);
    }
}
