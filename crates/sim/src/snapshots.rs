//! Snapshots that an operator makes and removes while clients write: files leave their objects to them, and go on with copies.

use namespace::{InodeId, read};

use crate::cluster::Cluster;
use crate::rng::Rng;

/// Names of snapshots: so many may be there at a time.
const NAMES: usize = 8;
/// Longest time in which all are removed.
const REMOVED_MS_MAX: u64 = 60_000;
/// Time after which a removal is asked for again.
const AGAIN_MS: u64 = 1_000;

impl Cluster {
    /// Asks one of the metaservers to make a snapshot, or to remove one.
    pub(crate) fn take_snapshots(&mut self, rng: &mut Rng) {
        let makes = rng.below(3) > 0;
        self.ask_for_snapshot(makes, rng.below(NAMES), rng);
    }

    /// Removes all snapshots, mostly: files with one copy stay on a data server that drains as long as one shows them.
    pub(crate) fn snapshots_come_to_rest(&mut self) -> Result<(), String> {
        let mut rng = self.rng.fork();
        if !self.shared.data.is_operated && rng.below(3) == 0 {
            return Ok(());
        }
        let end_ms = self.shared.now_ms() + REMOVED_MS_MAX;
        while self.has_snapshots() {
            if self.shared.now_ms() >= end_ms {
                return Err("snapshots are not removed".into());
            }
            (0..NAMES).for_each(|name| self.ask_for_snapshot(false, name, &mut rng));
            self.until(AGAIN_MS, |cluster| !cluster.has_snapshots());
        }
        Ok(())
    }

    fn has_snapshots(&self) -> bool {
        let Some((_, member)) = self.newest() else { return true };
        let left = read::snapshots(&member.store.now(), InodeId::ROOT.volume());
        left.map_or(true, |left| !left.is_empty())
    }

    fn ask_for_snapshot(&self, makes: bool, name: usize, rng: &mut Rng) {
        let name = format!("s{name}");
        let member = &self.members[rng.below(self.members.len())];
        let Some(metaserver) = member.metaserver() else { return };
        let (shared, id) = (self.shared.clone(), member.id);
        let what = if makes { "make" } else { "remove" };
        self.shared.note(|| format!("member {id} is asked to {what} the snapshot {name}"));
        member.spawn(move |_| async move {
            let done = match makes {
                true => metaserver.snapshot_create("/", &name).await.map(|made| format!("{made:?}")),
                false => metaserver.snapshot_remove("/", &name, true).await,
            };
            shared.note(|| format!("member {id} answers: {what} {name}: {done:?}"));
        });
    }
}
