//! Right to import into a volume, of one import in the cluster: of two at once the tree would be a mixture.
//!
//! ```text
//! /boot/.imports/VOLUME.NUMBER     a symbolic link; the one with the largest number counts
//!   make NUMBER + 1 ─▶ change it every 3 s ─▶ its mode is 0: it has ended
//!        │              └─ 8 s without a change: its import ends, and does not go on later
//!        └─ if the last one has ended, or was not changed for 12 s. Only one import can make a name.
//! ```
//!
//! A number is used once, since the last claim stays until the next is made. No clocks are compared: an import that waits
//! looks at whether the claim changes. What is left: a command that was on its way from a metaserver that is cut off may
//! still be carried out when its network is back.

use std::sync::Arc;
use std::time::Duration;

use cluster::AdminError;
use namespace::{InodeId, NewAttributes, NewNode, VolumeId, read};
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::Metaserver;
use crate::admin::server_failed;
use crate::errors::FileError;

/// Directory of the claims.
const CLAIMS: &str = "/boot/.imports";
/// Interval of the changes of a claim.
const CHANGE_EVERY: Duration = Duration::from_secs(3);
/// Time for which a claim is good after its last change.
const GOOD_FOR: Duration = Duration::from_secs(8);
/// Time without a change after which another import may begin.
const GONE_AFTER: Duration = Duration::from_secs(12);
/// Interval of the looks at another's claim.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Names of the directory of claims: two for each volume that is imported into, and those that are no claims.
const NAMES_MAX: usize = 10_000;

const fn mode(mode: u32) -> NewAttributes {
    NewAttributes { mode, uid: 0, gid: 0, accessed: None, modified: None }
}

/// Attributes of a claim.
const HELD: NewAttributes = mode(0o777);
/// Attributes of one whose import has ended.
const ENDED: NewAttributes = mode(0);

/// A claim that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct There {
    number: u64,
    inode: InodeId,
    change: u64,
    has_ended: bool,
}

/// A claim of this metaserver.
pub(super) struct Claim {
    server: Arc<Metaserver>,
    inode: InodeId,
    /// None: it is not good any more.
    good_until: Arc<Mutex<Option<Instant>>>,
    changes: JoinHandle<()>,
}

fn name_of(volume: VolumeId, number: u64) -> Vec<u8> {
    format!("{}.{number}", volume.0).into_bytes()
}

/// Volume and number of the name of a claim; none: it is the name of another thing.
fn parsed(name: &[u8]) -> Option<(VolumeId, u64)> {
    let (volume, number) = std::str::from_utf8(name).ok()?.split_once('.')?;
    let (volume, number) = (VolumeId(volume.parse().ok()?), number.parse().ok()?);
    (name_of(volume, number) == name).then_some((volume, number))
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
        let mut seen: Option<(There, Instant)> = None;
        loop {
            server.machine.read_barrier().await.map_err(server_failed)?;
            let (claims, strays) = server.claims(dir, volume)?;
            let last = claims.last().copied();
            match (last, seen) {
                (Some(last), _) if last.has_ended => {}
                (Some(last), Some((before, _))) if last != before => return Err(taken()),
                (Some(_), Some((_, since))) if since.elapsed() < GONE_AFTER => {
                    sleep(LOOK_EVERY).await;
                    continue;
                }
                (Some(last), None) => {
                    tracing::info!(path, claim = last.number, "waits for the claim of an import");
                    seen = Some((last, Instant::now()));
                    continue;
                }
                _ => {}
            }
            let number = last.map_or(Some(1), |last| last.number.checked_add(1));
            let number = number.ok_or_else(|| {
                AdminError::Invalid(format!("{CLAIMS} has a name with the last number: remove it"))
            })?;
            let begun = Instant::now();
            let link = NewNode::Symlink(path.into());
            let inode = match server.make_node(dir, &name_of(volume, number), link, HELD).await {
                Ok(inode) => inode.id,
                Err(FileError::Exists) => return Err(taken()),
                Err(error) => return Err(server_failed(error)),
            };
            let good_until = Arc::new(Mutex::new(Some(begun + GOOD_FOR)));
            let changes = tokio::spawn(keep(Arc::clone(server), inode, Arc::clone(&good_until)));
            let claim = Self { server: Arc::clone(server), inode, good_until, changes };
            let old = claims.iter().map(|claim| name_of(volume, claim.number)).chain(strays);
            for name in old {
                server.remove_tree(dir, &name).await.map_err(server_failed)?;
            }
            return Ok(claim);
        }
    }

    /// Returns when another import may have begun; never before the claim is dropped, if all is well.
    pub(super) async fn expired(&self) {
        loop {
            let good_until = *self.good_until.lock();
            match good_until {
                Some(until) if until > Instant::now() => sleep_until(until).await,
                _ => return,
            }
        }
    }

    /// Ends it: the next import does not wait.
    pub(super) async fn end(self) {
        self.changes.abort();
        // The next import waits if this does not come through.
        let _ = timeout(GOOD_FOR, self.server.set_attributes_of(self.inode, ENDED)).await;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.changes.abort();
    }
}

/// Changes a claim again and again, while it is good.
async fn keep(server: Arc<Metaserver>, claim: InodeId, good_until: Arc<Mutex<Option<Instant>>>) {
    loop {
        sleep(CHANGE_EVERY).await;
        let begun = Instant::now();
        let outcome = timeout(GOOD_FOR, server.set_attributes_of(claim, HELD)).await;
        let mut good_until = good_until.lock();
        // A change that came late does not make it good again: the next import may have begun meanwhile.
        if good_until.is_none_or(|until| until <= Instant::now()) {
            tracing::warn!("the claim of an import was not renewed in time");
            *good_until = None;
            return;
        }
        match outcome {
            Ok(Ok(())) => *good_until = Some(begun + GOOD_FOR),
            Ok(Err(error @ (FileError::Stale | FileError::NoEntry))) => {
                tracing::warn!(?error, "the claim of an import was removed");
                *good_until = None;
                return;
            }
            Ok(Err(error)) => tracing::warn!(?error, "the claim of an import cannot be renewed, retrying"),
            Err(_) => tracing::warn!("the claim of an import cannot be renewed, retrying"),
        }
    }
}

impl Metaserver {
    /// The claims of a volume, in the order of their numbers, and the names of claims of volumes that are gone.
    fn claims(&self, dir: InodeId, volume: VolumeId) -> Result<(Vec<There>, Vec<Vec<u8>>), AdminError> {
        let (mut claims, mut strays, mut cookie, mut count) = (Vec::new(), Vec::new(), 0, 0);
        let view = self.machine.view().map_err(server_failed)?;
        loop {
            let names = self.names_of(dir, cookie).map_err(server_failed)?;
            let Some((last, _)) = names.last() else { break };
            cookie = *last;
            count += names.len();
            if count > NAMES_MAX {
                return Err(AdminError::Invalid(format!(
                    "{CLAIMS} has more than {NAMES_MAX} names: remove some"
                )));
            }
            for (_, name) in names {
                match parsed(&name) {
                    Some((of, number)) if of == volume => {
                        if let Some(inode) = self.there(dir, &name).map_err(server_failed)? {
                            let has_ended = inode.mode & 0o777 == 0;
                            claims.push(There { number, inode: inode.id, change: inode.change, has_ended });
                        }
                    }
                    Some((of, _)) if read::volume(&*view, of)?.is_none() => {
                        strays.push(name);
                    }
                    _ => {}
                }
            }
        }
        claims.sort_by_key(|claim| claim.number);
        Ok((claims, strays))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_claim_says_its_volume_and_number_in_one_way() {
        assert_eq!(parsed(&name_of(VolumeId(7), 12)), Some((VolumeId(7), 12)));
        for name in ["77", "7.x", "7.", ".7", "7.12.1", "7.+5", "7.05", "07.5", "7.18446744073709551616"] {
            assert_eq!(parsed(name.as_bytes()), None, "{name}");
        }
    }
}
