//! Snapshots that an operator makes and removes while clients write: files leave their objects to them, and go on with copies.

use crate::cluster::Cluster;
use crate::rng::Rng;

/// Names of snapshots: so many may be there at a time.
const NAMES: usize = 3;

impl Cluster {
    /// Asks one of the metaservers to make a snapshot, or to remove one, or neither.
    pub(crate) fn take_snapshots(&mut self, rng: &mut Rng) {
        let makes = match rng.below(4) {
            0 | 1 => true,
            2 => false,
            _ => return,
        };
        let name = format!("s{}", rng.below(NAMES));
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
