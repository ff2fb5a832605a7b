//! Orphan scan: lists the objects of every target, and removes objects that no file owns.
//!
//! Commands leave no orphans: a removal's record stays until every object is removed. Orphans can come from a
//! write that was under way while its file was removed, or from a target that was restored from a copy.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cluster::TargetReport;
use namespace::read::Owner;
use namespace::{Chain, ChainId, FileLayout, InodeId, TargetId, read};
use wire::data::remove::Only;
use wire::data::{self, ObjectEntry, Procedure};
use wire::handle::{FileHandle, ObjectHandle};

use crate::data::Data;
use crate::data::proxy::incarnation;
use crate::errors::FileError;

/// Objects in one LIST: some 20 KiB.
const LIST_MAX: u32 = 1024;
/// Objects in one REMOVE: a client's call to the same disk waits behind at most this number of objects.
const REMOVE_MAX: usize = 256;
/// Time limit of the first scan's wait for data servers to register.
const FIRST_WAIT_MAX: Duration = Duration::from_secs(60);
/// Poll interval of that wait.
const FIRST_LOOK: Duration = Duration::from_secs(1);
/// Interval between two looks for targets that left chains.
const LEFT_BEHIND_EVERY: Duration = Duration::from_secs(1);
/// Attempts, of which each lists the target. It hears that it left a chain within a heartbeat, but what has moved to
/// other chains than those it is marked with is kept from removal for longer: orphan scans remove it.
const LEFT_BEHIND_TRIES: u32 = 20;
/// Poll interval for changes of the setting of the scan interval.
const SETTINGS_EVERY: Duration = Duration::from_secs(10);

/// Time from a restore to the first scan. Files made after the backup are unknown to the group, so their
/// objects look like orphans: the operator gets time to find missing files.
const AFTER_RESTORE: Duration = Duration::from_secs(60 * 60);

/// Report of an orphan scan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CleanReport {
    /// Objects listed.
    pub objects_seen: u64,
    /// Orphans, now removed.
    pub objects_removed: u64,
    /// Targets scanned to their end.
    pub targets_cleaned: u64,
    /// Targets not scanned, with the reason: data server unreachable, or target failed.
    pub not_cleaned: Vec<String>,
}

/// An object that no file needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unneeded {
    pub object: ObjectEntry,
    /// Epoch of its file, in the view that says so; 0: it has no file.
    pub epoch: u32,
}

/// List of objects, split into owned objects and orphans.
#[derive(Debug, Default)]
pub(crate) struct ByOwner {
    /// Objects of files, in the order of the list.
    pub owned: Vec<ObjectEntry>,
    /// Objects of no file.
    pub orphans: Vec<Unneeded>,
    /// Objects of files whose column is on another chain, or on one that the target has left.
    pub left_behind: Vec<Unneeded>,
}

impl Data {
    /// Scans for orphans: once soon after the start, since orphans of a crash are older than it, then at
    /// intervals. Never returns.
    pub(crate) async fn clean_regularly(self: Arc<Self>) {
        let waits = FIRST_WAIT_MAX.as_millis() / FIRST_LOOK.as_millis();
        for _ in 0..waits {
            tokio::time::sleep(FIRST_LOOK).await;
            let targets = self.cluster.data_servers.report();
            if !targets.is_empty() && targets.iter().all(|t| t.alive) {
                break;
            }
        }
        let mut failed = Vec::new();
        loop {
            // Checked again: the wall clock of another metaserver may be some seconds off.
            while let Some(left) = self.held_back_by_restore() {
                tokio::time::sleep(left.min(SETTINGS_EVERY)).await;
            }
            if self.machine.replica.leads() {
                let report = self.clean().await;
                // Logged only when the list changes.
                if report.not_cleaned != failed {
                    match report.not_cleaned.is_empty() {
                        true => tracing::info!("objects without a file are looked for on all targets again"),
                        false => tracing::warn!(
                            targets = report.not_cleaned.join(", "),
                            "objects without a file were not looked for on these targets; start their data servers, or \
                             remove them"
                        ),
                    }
                    failed = report.not_cleaned;
                }
            }
            let began = tokio::time::Instant::now();
            // In steps: the interval may be shortened meanwhile.
            while let Some(left) = self.cluster.settings().clean_interval.checked_sub(began.elapsed()) {
                tokio::time::sleep(left.min(SETTINGS_EVERY)).await;
            }
        }
    }

    /// Removes what targets have left behind in chains that they left, soon after. Never returns.
    pub(crate) async fn clean_left_behind(self: Arc<Self>) {
        let mut tries = BTreeMap::<(TargetId, u64), u32>::new();
        loop {
            tokio::time::sleep(LEFT_BEHIND_EVERY).await;
            let left_behind = self.cluster.left_behind();
            tries.retain(|note, _| left_behind.contains(note));
            for (target, number) in left_behind {
                if self.held_back_by_restore().is_some() {
                    break;
                }
                let is_gone = self.cluster.data_servers.lost_targets().contains(&target);
                let mut report = CleanReport::default();
                let cleaned = self.clean_target(target, Only::LeftChain, &mut report).await;
                // One that is away is cleaned when it is back; meanwhile nothing waits for it.
                let lives = |report: &TargetReport| report.target == target && report.alive;
                let is_away = cleaned.is_err() && !self.cluster.data_servers.report().iter().any(lives);
                let tries = tries.entry((target, number)).or_default();
                *tries += u32::from(!is_away);
                let is_clean = cleaned.unwrap_or(is_gone) || *tries >= LEFT_BEHIND_TRIES;
                if is_clean {
                    self.cluster.forget_left_behind((target, number));
                    let objects = report.objects_removed;
                    tracing::info!(target = %format!("{:016x}", target.0), objects, "a target left chains: objects removed");
                }
            }
        }
    }

    /// Time left in which no orphans are removed, since the group was restored from a backup recently.
    #[must_use]
    pub fn held_back_by_restore(&self) -> Option<Duration> {
        let view = self.machine.view().ok()?;
        let incarnation = read::incarnation(&*view).ok()?.filter(|incarnation| incarnation.epoch > 1)?;
        let since = self.machine.now().seconds.saturating_sub(incarnation.began.seconds);
        // A clock that was ahead at the restore makes the time longer: `heorot clean --after-restore` does
        // not wait.
        let left = i64::try_from(AFTER_RESTORE.as_secs()).unwrap_or(i64::MAX).saturating_sub(since);
        u64::try_from(left).ok().filter(|left| *left > 0).map(Duration::from_secs)
    }

    /// Lists the objects of every reachable target, and removes orphans.
    pub async fn clean(&self) -> CleanReport {
        let mut report = CleanReport::default();
        for target in self.cluster.data_servers.report() {
            let id = target.target;
            let why = match target.alive {
                false => "its data server is away".to_owned(),
                true => match self.clean_target(id, Only::LeftBehind, &mut report).await {
                    Ok(_) => {
                        report.targets_cleaned += 1;
                        continue;
                    }
                    Err(status) => format!("{status:?}"),
                },
            };
            report.not_cleaned.push(format!("{:016x} ({}): {why}", id.0, target.path));
        }
        if report.objects_removed > 0 {
            tracing::info!(seen = report.objects_seen, removed = report.objects_removed, "orphans removed");
        }
        report
    }

    /// Removes orphans, and of what the target has left behind, `of_left_behind`. Returns false if objects are left of
    /// chains that the target has not left, as far as it has heard.
    async fn clean_target(
        &self,
        target: TargetId,
        of_left_behind: Only,
        report: &mut CleanReport,
    ) -> Result<bool, FileError> {
        let (mut after, mut is_clean) = (None, true);
        loop {
            let page = self.list_objects(target, after).await?;
            report.objects_seen += page.objects.len() as u64;
            let ByOwner { orphans, left_behind, .. } = self.by_owner(target, &page.objects)?;
            report.objects_removed += self.remove_orphans(target, &orphans, Only::All).await?;
            match self.remove_orphans(target, &left_behind, of_left_behind).await {
                Ok(removed) => report.objects_removed += removed,
                // Of the others of these, some are removed.
                Err(FileError::Away) => is_clean = false,
                Err(error) => return Err(error),
            }
            after = page.next();
            if after.is_none() {
                return Ok(is_clean);
            }
        }
    }

    /// Returns a page of a target's objects. Every view that is opened afterwards has all changes that any
    /// metaserver made before the objects.
    ///
    /// # Errors
    /// `Delay` when the target does not obey this incarnation of the group, or is unreachable.
    pub(crate) async fn list_objects(
        &self,
        target: TargetId,
        after: Option<data::ObjectName>,
    ) -> Result<data::list::ResOk, FileError> {
        // A target that never registered with this incarnation may belong to another running group.
        if !self.cluster.data_servers.obeys(target, incarnation(&*self.machine.view()?)?.0) {
            return Err(FileError::Delay);
        }
        let args = data::list::Args { target: target.0, after, max: LIST_MAX, chain: 0 };
        let page = self.call_target(target, Procedure::List, args).await?;
        self.machine.read_barrier().await?;
        Ok(page)
    }

    /// Splits a list of a target's objects into objects of files and orphans.
    ///
    /// The view is opened *after* the list was made. An object is made only after its file, whose Create is
    /// then in every later view; and inode numbers are never used again. So a listed object whose inode is
    /// not in a later view belongs to a file that was removed for ever. In the other order, a file made in
    /// between would lose its data.
    ///
    /// An object of a file whose column is elsewhere may be one that a relocation has made, and is about to name: its
    /// MAKE has the epoch of this view, or a later one, and the data server keeps it (`Only::LeftBehind`).
    pub(crate) fn by_owner(&self, target: TargetId, listed: &[ObjectEntry]) -> Result<ByOwner, FileError> {
        let view = self.machine.view()?;
        let mut split = ByOwner::default();
        for entry in listed.iter().filter(|entry| entry.volume == self.machine.volume) {
            let owner = read::owner(&*view, InodeId(entry.inode))?;
            let unneeded = |epoch| Unneeded { object: *entry, epoch };
            let Some((layout, epoch)) = layout_of(owner.as_ref(), entry) else {
                split.orphans.push(unneeded(0));
                continue;
            };
            let device = read::device(&*view, layout.device)?;
            // An unknown device is damage: its objects count as owned, and are not removed.
            let chain = device.map(|device| layout.chain(&device.chains, entry.column));
            // Of the same view: the column may just have been put on the chain.
            let is_its_own = |id: ChainId| {
                let chain = read::chain(&*view, id)?;
                let is_member = |chain: Chain| chain.is_in_doubt() || chain.has(target);
                Ok::<bool, FileError>(chain.map_or(id == target.into(), is_member))
            };
            let is_owned = match chain {
                None => true,
                Some(None) => false,
                Some(Some(chain)) => is_its_own(chain)?,
            };
            match is_owned {
                true => split.owned.push(*entry),
                false => split.left_behind.push(unneeded(epoch)),
            }
        }
        Ok(split)
    }

    /// Files of a list of objects, without those that are only kept for snapshots.
    pub(crate) fn files_of(&self, listed: &[ObjectEntry]) -> Result<BTreeSet<InodeId>, FileError> {
        let view = self.machine.view()?;
        let mut files = BTreeSet::new();
        for entry in listed {
            let owner = read::owner(&*view, InodeId(entry.inode))?;
            files.extend(owner.filter(|owner| !owner.is_kept).map(|owner| owner.file));
        }
        Ok(files)
    }

    /// Removes the objects of a list that no file needs on the target. Returns their number: 0 for an hour after a
    /// restore. The data server may spare some.
    pub(crate) async fn remove_unneeded(&self, target: TargetId, listed: &ByOwner) -> Result<u32, FileError> {
        if self.held_back_by_restore().is_some() {
            return Ok(0);
        }
        self.remove_orphans(target, &listed.orphans, Only::All).await?;
        // Its data server may have been told meanwhile that a chain takes it back.
        self.remove_orphans(target, &listed.left_behind, Only::LeftBehind).await?;
        Ok((listed.orphans.len() + listed.left_behind.len()) as u32)
    }

    /// Removes orphans, or objects that the target has left behind, for which the data server decides: it knows of
    /// a chain that takes the target back before any data come, and of a later placement. Returns their number.
    ///
    /// # Errors
    /// `Away` if some are spared, or the data server is away; others of them may be removed.
    pub(crate) async fn remove_orphans(
        &self,
        target: TargetId,
        orphans: &[Unneeded],
        only: Only,
    ) -> Result<u64, FileError> {
        let incarnation = incarnation(&*self.machine.view()?)?.0;
        let handle = |unneeded: &Unneeded| {
            let Unneeded { object: ObjectEntry { volume, inode, generation, column }, epoch } = *unneeded;
            let file = FileHandle { volume, inode, generation };
            // The handle only names the object for the removal: no read or write depends on these.
            let (unit, columns) = (0, 0);
            ObjectHandle {
                file,
                column,
                target: target.0,
                unit,
                columns,
                incarnation,
                epoch,
                layout_epoch: 0,
                // The object of this target alone, whatever chain it was made for.
                chain: target.0,
                chain_version: 0,
            }
            .seal(&self.machine.key)
        };
        let mut spared = Ok(());
        for some in orphans.chunks(REMOVE_MAX) {
            match self.remove_objects(target, some.iter().map(handle).collect(), only).await {
                Err(FileError::Away) => spared = Err(FileError::Away),
                removed => removed?,
            }
        }
        spared.map(|()| orphans.len() as u64)
    }
}

/// Layout and epoch of the file that the object is of; none: it is of no file.
fn layout_of<'a>(owner: Option<&'a Owner>, entry: &ObjectEntry) -> Option<(&'a FileLayout, u32)> {
    let of = owner.filter(|of| of.generation == entry.generation && entry.column < of.layout.columns)?;
    Some((&of.layout, of.epoch))
}

#[cfg(test)]
mod tests {
    use namespace::{DeviceId, StripeUnit};

    use super::*;

    #[test]
    fn an_object_is_of_the_file_with_its_generation_and_column() {
        let layout = FileLayout { device: DeviceId(1), first: 0, unit: StripeUnit::DEFAULT, columns: 2 };
        let of = Owner { file: InodeId(9), generation: 3, layout, epoch: 0, is_kept: false };
        let entry = |generation, column| ObjectEntry { volume: 1, inode: 9, generation, column };
        let is_of = |owner: Option<&Owner>, e| layout_of(owner, &e).is_some();
        assert!(is_of(Some(&of), entry(3, 1)));
        assert!(!is_of(None, entry(3, 1)), "no such file");
        assert!(!is_of(Some(&of), entry(4, 1)), "another generation");
        assert!(!is_of(Some(&of), entry(3, 2)), "the file has no such column");
    }
}
