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

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use namespace::{Inode, InodeId, IoMode, LayoutState, Subject, Volume, VolumeId, read};
use parking_lot::Mutex;
use store::View;
use tokio::sync::Notify;

use crate::data::Data;
use crate::data::hold::wait_for_work;
use crate::data::unsettled::FILES_AT_ONCE;
use crate::errors::FileError;

/// Room below which no layout to write is granted.
const MARGIN_BYTES: u64 = 1 << 30;
/// Interval of the leader's questions.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Room that writes under way through this metaserver will take.
#[derive(Default)]
pub(crate) struct Reservations {
    taken: Mutex<BTreeMap<(VolumeId, Subject), u64>>,
    /// Notified at the end of each.
    ended: Notify,
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
    Full,
}

impl Reservations {
    /// Takes `bytes` from all of these rooms, if they have as much beside what is taken.
    fn take(&self, volume: VolumeId, rooms: &[(Subject, u64)], bytes: u64) -> Verdict {
        let mut taken = self.taken.lock();
        let of = |subject| taken.get(&(volume, subject)).copied().unwrap_or(0);
        if rooms.iter().any(|(_, room)| *room < bytes) {
            return Verdict::Full;
        }
        if rooms.iter().any(|(subject, room)| *room < of(*subject).saturating_add(bytes)) {
            return Verdict::Wait;
        }
        for (subject, _) in rooms {
            *taken.entry((volume, *subject)).or_default() += bytes;
        }
        Verdict::Taken
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        let mut taken = self.all.taken.lock();
        for key in &self.of {
            if let Some(bytes) = taken.get_mut(key) {
                *bytes -= self.bytes;
                if *bytes == 0 {
                    taken.remove(key);
                }
            }
        }
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
        loop {
            // Before the look: an end after it is noticed.
            let ended = all.ended.notified();
            let rooms = match bytes {
                0 => vec![],
                _ => read::rooms(&*self.machine.view()?, inode, self.machine.now())?,
            };
            match all.take(volume, &rooms, bytes) {
                Verdict::Taken => {
                    let of = rooms.into_iter().map(|(subject, _)| (volume, subject)).collect();
                    return Ok(Reserved { all, of, bytes });
                }
                Verdict::Full => return Err(FileError::Quota),
                Verdict::Wait => wait_for_work(ended).await?,
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
        let mut after = InodeId(0);
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            if !self.machine.replica.leads() {
                continue;
            }
            match self.look_at_limits(after).await {
                Ok(last) => after = last,
                Err(error) => tracing::debug!(?error, "files near a limit are looked at again"),
            }
        }
    }

    /// Looks at some files above `after`; returns the last one, or 0 after all of them.
    async fn look_at_limits(self: &Arc<Self>, after: InodeId) -> Result<InodeId, FileError> {
        let (written, is_all) = self.written_with_limits(after)?;
        if written.is_empty() {
            return Ok(InodeId(0));
        }
        self.observe(&written, false).await?;
        let view = self.machine.view()?;
        let mut is_near = false;
        for file in &written {
            let inode = read::inode(&*view, *file)?;
            is_near |= inode.map(|inode| self.is_near_limit(&*view, &inode)).transpose()?.unwrap_or(false);
        }
        drop(view);
        if is_near {
            let data = Arc::clone(self);
            let is_to_return = move |layout: &LayoutState| {
                let view = data.machine.view()?;
                let inode = read::inode(&*view, layout.inode)?;
                let is_near = inode.map(|inode| data.is_near_limit(&*view, &inode)).transpose()?;
                Ok(layout.mode == IoMode::ReadWrite && is_near == Some(true))
            };
            let files = Arc::clone(&self.state).recall_all(is_to_return).await.unwrap_or_default();
            tracing::debug!(files, "layouts to write were asked back: their files are near a limit");
        }
        Ok(if is_all { InodeId(0) } else { written.last().copied().unwrap_or(InodeId(0)) })
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
        assert_eq!(all.take(volume, &of_both, 50), Verdict::Taken);
        let first = reserved(&[Subject::Volume, user], 50);
        assert_eq!(all.take(volume, &of_both, 11), Verdict::Wait);
        assert_eq!(all.take(volume, &of_both, 61), Verdict::Full, "whatever the others do");
        assert_eq!(all.take(volume, &of_both[..1], 50), Verdict::Taken, "of another user");
        let second = reserved(&[Subject::Volume], 50);
        assert_eq!(all.take(volume, &of_both[..1], 1), Verdict::Wait);
        assert_eq!(all.take(VolumeId(2), &of_both, 60), Verdict::Taken);
        drop(first);
        assert_eq!(all.take(volume, &of_both, 50), Verdict::Taken);
        drop((second, reserved(&[Subject::Volume, user], 50)));
        drop(Reserved {
            all: &all,
            of: vec![(VolumeId(2), Subject::Volume), (VolumeId(2), user)],
            bytes: 60,
        });
        assert!(all.taken.lock().is_empty());
    }
}
