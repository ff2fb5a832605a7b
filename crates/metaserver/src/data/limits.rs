//! Limits of volumes, users and groups, where clients write through layouts: a data server knows no limit, and a
//! metaserver hears of the data later.
//!
//! ```text
//! room ≥ margin   layouts to write are granted; the leader asks the data servers once a second how long files are
//! room < margin   they are recalled, and none is granted: data go through metaservers, which refuse in time
//! ```
//!
//! A write through a metaserver reserves its room before the first byte is sent, and charges it when it is done
//! ([`namespace::Command::Wrote`]). Where others under way would leave it too little, it waits for their ends: so a
//! metaserver alone fills a limit to within a write. Several exceed it by what they have under way at most.
//!
//! **The greatest overshoot** is what clients write through layouts within a second, and until a recalled layout is
//! back, less the margin.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use namespace::{Inode, InodeId, Subject, Volume, VolumeId, read};
use parking_lot::Mutex;
use store::View;
use tokio::sync::Notify;

use crate::data::Data;
use crate::data::hold::wait_for_work;
use crate::data::unsettled::FILES_AT_ONCE;
use crate::errors::FileError;
use crate::state::recall::Holders;

/// Room below which no layout to write is granted.
const MARGIN_BYTES: u64 = 1 << 30;
/// Interval of the leader's questions.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Room that writes under way through this metaserver will take.
#[derive(Default)]
pub(crate) struct Reservations {
    taken: Mutex<Taken>,
    /// Notified at the end of each.
    ended: Notify,
}

#[derive(Default)]
struct Taken {
    rooms: BTreeMap<(VolumeId, Subject), u64>,
    /// Number of reservations that have ended.
    ends: u64,
}

/// Reserved room of one write; ends when it is dropped.
pub(crate) struct Reserved<'a> {
    all: &'a Reservations,
    of: Vec<(VolumeId, Subject)>,
    bytes: u64,
}

/// Whether there is room for a write.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Taken,
    /// Others that are under way may leave enough, or not.
    Wait,
    /// One has ended since the rooms were read, which may not contain it.
    ReadAgain,
    Full,
}

impl Reservations {
    /// Number of reservations that have ended.
    fn ends(&self) -> u64 {
        self.taken.lock().ends
    }

    /// Takes `bytes` from all of these rooms, which were read after `ends` had ended, if they have as much beside what
    /// is taken.
    fn take(&self, volume: VolumeId, rooms: &[(Subject, u64)], ends: u64, bytes: u64) -> Verdict {
        let mut taken = self.taken.lock();
        if taken.ends != ends {
            return Verdict::ReadAgain;
        }
        let of = |subject| taken.rooms.get(&(volume, subject)).copied().unwrap_or(0);
        if rooms.iter().any(|(_, room)| *room < bytes) {
            return Verdict::Full;
        }
        if rooms.iter().any(|(subject, room)| *room < of(*subject).saturating_add(bytes)) {
            return Verdict::Wait;
        }
        for (subject, _) in rooms {
            *taken.rooms.entry((volume, *subject)).or_default() += bytes;
        }
        Verdict::Taken
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        let mut taken = self.all.taken.lock();
        for key in &self.of {
            if let Some(bytes) = taken.rooms.get_mut(key) {
                *bytes -= self.bytes;
                if *bytes == 0 {
                    taken.rooms.remove(key);
                }
            }
        }
        taken.ends += 1;
        drop(taken);
        self.all.ended.notify_waiters();
    }
}

impl Data {
    /// Reserves room for a write of `bytes` up to `end`, before any of them is sent to data servers. What is written
    /// over data costs nothing; in a file with holes that is not known.
    ///
    /// # Errors
    /// `Quota` if a limit has no room; `Delay` if others under way take it up for longer than a request can be held.
    pub(crate) async fn reserve(
        &self,
        inode: &Inode,
        end: u64,
        bytes: u64,
    ) -> Result<Reserved<'_>, FileError> {
        let (all, volume) = (&self.reservations, inode.id.volume());
        let bytes = inode.space_of_write(end, bytes);
        if bytes == 0 {
            return Ok(Reserved { all, of: vec![], bytes });
        }
        loop {
            // Before the look: an end after it is noticed.
            let (ended, ends) = (all.ended.notified(), all.ends());
            let rooms = read::rooms(&*self.machine.view()?, inode, self.machine.now())?;
            match all.take(volume, &rooms, ends, bytes) {
                Verdict::Taken => {
                    let of = rooms.into_iter().map(|(subject, _)| (volume, subject)).collect();
                    return Ok(Reserved { all, of, bytes });
                }
                Verdict::Full => return Err(FileError::Quota),
                Verdict::Wait => wait_for_work(ended).await?,
                Verdict::ReadAgain => {}
            }
        }
    }

    /// True if the file is so near to a limit that its data go through metaservers.
    pub(crate) fn is_near_limit(&self, view: &dyn View, inode: &Inode) -> Result<bool, FileError> {
        Ok(read::room_bytes(view, inode, self.machine.now())? < MARGIN_BYTES)
    }

    /// Asks for the sizes of files that are written in volumes with limits, and recalls layouts near a limit. Never
    /// returns.
    pub(crate) async fn watch_limits(self: Arc<Self>) {
        let asked = Arc::new(Mutex::new(BTreeSet::new()));
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let mut after = Some(InodeId(0));
            while let Some(from) = after.filter(|_| self.machine.replica.leads()) {
                after = self.look_at_limits(from, &asked).await.unwrap_or_else(|error| {
                    tracing::debug!(?error, "files near a limit are looked at again");
                    None
                });
            }
        }
    }

    /// Looks at some files above `after`, and asks for the layouts of those near a limit that are not `asked`. Returns
    /// the last one; none after all of them.
    async fn look_at_limits(
        self: &Arc<Self>,
        after: InodeId,
        asked: &Arc<Mutex<BTreeSet<InodeId>>>,
    ) -> Result<Option<InodeId>, FileError> {
        let (written, is_all) = self.written_with_limits(after)?;
        if !written.is_empty() {
            self.observe(&written, false).await?;
        }
        let view = self.machine.view()?;
        for file in &written {
            let Some(inode) = read::inode(&*view, *file)? else { continue };
            // The others do not wait for a client that is dead.
            if self.is_near_limit(&*view, &inode)? && asked.lock().insert(inode.id) {
                let (data, asked) = (Arc::clone(self), Arc::clone(asked));
                tokio::spawn(async move {
                    data.ask_back(&inode).await;
                    asked.lock().remove(&inode.id);
                });
            }
        }
        Ok(written.last().copied().filter(|_| !is_all))
    }

    /// Recalls the layouts to write of a file, until they are back or revoked.
    async fn ask_back(&self, inode: &Inode) {
        tracing::debug!(inode = inode.id.0, "layouts to write are asked back: the file is near a limit");
        while self.machine.replica.leads() {
            match self.state.recall_layouts(inode.id, inode.generation, Holders::Writers).await {
                Err(FileError::Delay) => {}
                Ok(()) => return,
                Err(error) => {
                    tracing::debug!(?error, inode = inode.id.0, "layouts near a limit are asked back again");
                    return;
                }
            }
        }
    }

    /// Files above `after` with layouts to write in volumes with limits, and whether there are no more.
    fn written_with_limits(&self, after: InodeId) -> Result<(Vec<InodeId>, bool), FileError> {
        let view = self.machine.view()?;
        let mut found = Vec::new();
        for volume in read::volumes(&*view)?.into_iter().filter(has_limit) {
            let left = FILES_AT_ONCE - found.len();
            found.extend(read::written(&*view, volume.id, after, left)?);
            if found.len() >= FILES_AT_ONCE {
                return Ok((found, false));
            }
        }
        Ok((found, true))
    }
}

fn has_limit(volume: &Volume) -> bool {
    volume.limited > 0 || volume.usage.limits.bytes_hard > 0 || volume.usage.limits.bytes_soft > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_under_way_counts_until_it_ends() {
        let all = Reservations::default();
        let (volume, user) = (VolumeId(1), Subject::User(7));
        let reserved = |subjects: &[Subject], bytes| Reserved {
            all: &all,
            of: subjects.iter().map(|subject| (volume, *subject)).collect(),
            bytes,
        };
        let of_both = [(Subject::Volume, 100), (user, 60)];
        let take = |volume, rooms: &[(Subject, u64)], bytes| all.take(volume, rooms, all.ends(), bytes);
        assert_eq!(take(volume, &of_both, 50), Verdict::Taken);
        let first = reserved(&[Subject::Volume, user], 50);
        assert_eq!(take(volume, &of_both, 11), Verdict::Wait);
        assert_eq!(take(volume, &of_both, 61), Verdict::Full, "whatever the others do");
        assert_eq!(take(volume, &of_both[..1], 50), Verdict::Taken, "of another user");
        let second = reserved(&[Subject::Volume], 50);
        assert_eq!(take(volume, &of_both[..1], 1), Verdict::Wait);
        assert_eq!(take(VolumeId(2), &of_both, 60), Verdict::Taken);
        let ends = all.ends();
        drop(first);
        assert_eq!(all.take(volume, &of_both, ends, 50), Verdict::ReadAgain, "the rooms may be from before");
        assert_eq!(take(volume, &of_both, 50), Verdict::Taken);
        drop((second, reserved(&[Subject::Volume, user], 50)));
        drop(Reserved {
            all: &all,
            of: vec![(VolumeId(2), Subject::Volume), (VolumeId(2), user)],
            bytes: 60,
        });
        assert!(all.taken.lock().rooms.is_empty());
    }
}
