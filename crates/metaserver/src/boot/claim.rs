//! Right to import into a volume, of one import in the cluster: of two at once the tree would be a mixture.
//!
//! ```text
//! /boot/.imports/VOLUME.NUMBER      a claim; the one with the largest number counts
//!   make, if there is none ─▶ change every 3 s ─▶ remove
//!                                └─ 8 s without a change: its import goes no further
//!                                └─ 12 s: the next import makes NUMBER + 1, which only one can make
//! ```
//!
//! No clocks are compared: who waits looks at whether the claim has changed.

use std::sync::Arc;
use std::time::Duration;

use cluster::AdminError;
use namespace::{Inode, InodeId, NewAttributes, NewNode, VolumeId};
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::Metaserver;
use crate::admin::server_failed;
use crate::errors::FileError;

/// Directory of the claims.
const CLAIMS: &str = "/boot/.imports";
/// Interval of the changes of a claim.
const CHANGE_EVERY: Duration = Duration::from_secs(3);
/// Time for which a claim is good after its last change.
const GOOD_FOR: Duration = Duration::from_secs(8);
/// Time without a change after which another import may take its place.
const GONE_AFTER: Duration = Duration::from_secs(12);
/// Interval of the looks at another's claim.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Attributes of a claim.
const ATTRIBUTES: NewAttributes =
    NewAttributes { mode: 0o777, uid: 0, gid: 0, accessed: None, modified: None };

/// A claim of this metaserver.
pub(super) struct Claim {
    server: Arc<Metaserver>,
    dir: InodeId,
    name: Vec<u8>,
    /// Begin of its last change that was done; none: it has ended.
    changed: Arc<Mutex<Option<Instant>>>,
    changes: JoinHandle<()>,
}

fn name_of(volume: VolumeId, number: u64) -> Vec<u8> {
    format!("{}.{number}", volume.0).into_bytes()
}

fn number_of(volume: VolumeId, name: &[u8]) -> Option<u64> {
    let number = std::str::from_utf8(name).ok()?.strip_prefix(&format!("{}.", volume.0))?;
    number.parse().ok()
}

impl Claim {
    /// Claims a volume. Waits while the claim of a metaserver that may be dead is there.
    pub(super) async fn of(
        server: &Arc<Metaserver>,
        volume: VolumeId,
        path: &str,
    ) -> Result<Self, AdminError> {
        let dir = server.make_boot_directory(CLAIMS).await?;
        let taken = || AdminError::Invalid(format!("another import into {path} is under way"));
        let mut seen: Option<((u64, u64), Instant)> = None;
        loop {
            server.machine.read_barrier().await.map_err(server_failed)?;
            let claims = server.claims(dir, volume).map_err(server_failed)?;
            let last = claims.last().map(|(number, inode)| (*number, inode.change));
            match (last, seen) {
                (Some(last), Some((before, _))) if last != before => return Err(taken()),
                (Some(_), Some((_, since))) if since.elapsed() < GONE_AFTER => {
                    sleep(LOOK_EVERY).await;
                    continue;
                }
                (Some(last), None) => {
                    seen = Some((last, Instant::now()));
                    continue;
                }
                _ => {}
            }
            let name = name_of(volume, last.map_or(1, |(number, _)| number.saturating_add(1)));
            let begun = Instant::now();
            let made = server.make_node(dir, &name, NewNode::Symlink(path.into()), ATTRIBUTES).await;
            let inode = match made {
                Ok(inode) => inode,
                Err(FileError::Exists) => return Err(taken()),
                Err(error) => return Err(server_failed(error)),
            };
            for (number, _) in claims {
                let removed = server.remove_tree(dir, &name_of(volume, number)).await;
                removed.map_err(server_failed)?;
            }
            let changed = Arc::new(Mutex::new(Some(begun)));
            let changes = tokio::spawn(keep(Arc::clone(server), inode.id, Arc::clone(&changed)));
            return Ok(Self { server: Arc::clone(server), dir, name, changed, changes });
        }
    }

    /// Whether no other import can have taken its place.
    ///
    /// # Errors
    /// If one can.
    pub(super) fn check(&self) -> Result<(), AdminError> {
        match *self.changed.lock() {
            Some(changed) if changed.elapsed() < GOOD_FOR => Ok(()),
            _ => Err(AdminError::Invalid(
                "the metaserver had no majority for too long, and another import may have begun; no version is made: import \
                 again"
                    .into(),
            )),
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.changes.abort();
        let (server, dir, name) = (Arc::clone(&self.server), self.dir, std::mem::take(&mut self.name));
        tokio::spawn(async move {
            // It ends of itself when this does not come through.
            let _ = server.remove_tree(dir, &name).await;
        });
    }
}

/// Changes a claim again and again, until it is not there.
async fn keep(server: Arc<Metaserver>, claim: InodeId, changed: Arc<Mutex<Option<Instant>>>) {
    loop {
        sleep(CHANGE_EVERY).await;
        let begun = Instant::now();
        match timeout(GOOD_FOR, server.set_attributes_of(claim, ATTRIBUTES)).await {
            Ok(Ok(())) => *changed.lock() = Some(begun),
            Ok(Err(FileError::Stale | FileError::NoEntry)) => {
                *changed.lock() = None;
                return;
            }
            Ok(Err(error)) => tracing::warn!(?error, "the claim of an import cannot be renewed, retrying"),
            Err(_) => tracing::warn!("the claim of an import cannot be renewed in time, retrying"),
        }
    }
}

impl Metaserver {
    /// The claims of a volume, in the order of their numbers.
    fn claims(&self, dir: InodeId, volume: VolumeId) -> Result<Vec<(u64, Inode)>, FileError> {
        let (mut claims, mut cookie) = (Vec::new(), 0);
        loop {
            let names = self.names_of(dir, cookie)?;
            let Some((last, _)) = names.last() else { break };
            cookie = *last;
            for (_, name) in names {
                if let Some(number) = number_of(volume, &name)
                    && let Some(inode) = self.there(dir, &name)?
                {
                    claims.push((number, inode));
                }
            }
        }
        claims.sort_by_key(|(number, _)| *number);
        Ok(claims)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_claim_says_its_volume_and_number() {
        assert_eq!(number_of(VolumeId(7), &name_of(VolumeId(7), 12)), Some(12));
        for name in ["77.12", "7.x", "7", "7.", "8.12", "7.12.1"] {
            assert_eq!(number_of(VolumeId(7), name.as_bytes()), None, "{name}");
        }
    }
}
