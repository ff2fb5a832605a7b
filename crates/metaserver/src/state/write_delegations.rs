//! Write delegations (RFC 8881, section 10.4): data and attributes that a client may have changed, unknown here.
//!
//! A client with a write delegation writes later than it closes. So whatever shows data, size or times of the file to others
//! has the delegation come back first ([`Metaserver::not_written_elsewhere`]), as [`crate::data::unsettled`] asks data servers that
//! know more than the inode.
//!
//! What one client makes and another one reads at once would be recalled file by file. So the first recall from a client asks
//! for all that it holds of closed files (CB_RECALL_ANY), and it gets no write delegation for a while.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use namespace::{ClientId, Inode, InodeId, VolumeId, read};
use parking_lot::Mutex;
use store::View;
use tokio::task::JoinSet;
use wire::nfs4::callback::{CbArgOp, RecallAnyArgs};
use wire::nfs4::open::SpaceLimit;

use crate::Metaserver;
use crate::compound::Context;
use crate::errors::FileError;
use crate::state::ClientState;

/// Growth that a client may have unwritten when it closes a file: the size of a small file. Larger ones are written before
/// close() returns, to data servers.
pub(crate) const SPACE_LIMIT: SpaceLimit = SpaceLimit::Size(namespace::INLINE_BYTES_MAX);

/// Time without write delegations of a client whose files others use.
const SHARES: Duration = Duration::from_secs(30);
/// Maximum of such clients; forgetting one costs a recall.
const SHARING_MAX: usize = 4096;
/// Time that a former holder is given to close a file that it has written.
const CLOSES_WITHIN: Duration = Duration::from_millis(200);
/// Delegations that are recalled at the same time.
const AT_ONCE: usize = 64;

/// Clients whose files others use.
#[derive(Default)]
pub(crate) struct Sharing(Mutex<BTreeMap<ClientId, Duration>>);

impl Sharing {
    /// Notes that others use files of `client`.
    pub(crate) fn note(&self, client: ClientId, now: Duration) {
        let mut all = self.0.lock();
        if all.len() >= SHARING_MAX {
            all.retain(|_, since| now.saturating_sub(*since) < SHARES);
        }
        while all.len() >= SHARING_MAX {
            all.pop_first();
        }
        all.insert(client, now);
    }

    /// True if others have used files of `client` within [`SHARES`].
    pub(crate) fn is_recent(&self, client: ClientId, now: Duration) -> bool {
        self.0.lock().get(&client).is_some_and(|since| now.saturating_sub(*since) < SHARES)
    }
}

/// True if a client other than `asks` may have changed the file, unknown here.
pub(crate) fn is_written_elsewhere(
    view: &dyn View,
    inode: InodeId,
    asks: Option<ClientId>,
) -> Result<bool, FileError> {
    Ok(read::write_delegation(view, inode)?.is_some_and(|holder| Some(holder) != asks))
}

/// The client of a compound; none without a session.
pub(crate) fn asker(context: &Context) -> Option<ClientId> {
    context.session.as_ref().map(|session| ClientId(session.client()))
}

impl Metaserver {
    /// Returns the inode once no client but `asks` has a write delegation of it.
    ///
    /// # Errors
    /// `Delay` while one is not returned; `Stale` if the file was removed.
    pub(crate) async fn not_written_elsewhere(
        &self,
        asks: Option<ClientId>,
        inode: Inode,
    ) -> Result<Inode, FileError> {
        if !is_written_elsewhere(&*self.machine.view()?, inode.id, asks)? {
            return Ok(inode); // the usual case
        }
        self.state.recall_delegations(inode.id, asks).await?;
        let now = self.machine.inode(&*self.machine.view()?, inode.id)?;
        if now.generation == inode.generation { Ok(now) } else { Err(FileError::Stale) }
    }
}

impl ClientState {
    async fn recall_writer(&self, inode: InodeId, asks: Option<ClientId>) -> Result<(), FileError> {
        if !is_written_elsewhere(&*self.machine.view()?, inode, asks)? {
            return Ok(()); // the usual case
        }
        self.recall_delegations(inode, asks).await
    }

    /// Waits a moment for a former holder's CLOSE. Linux returns a delegation before the data that it began to write at close()
    /// have arrived, and does not close the file at the server until they have. One that stays open is not waited for.
    pub(crate) async fn writer_closes(&self, inode: InodeId, writer: ClientId) -> Result<(), FileError> {
        let until = tokio::time::Instant::now() + CLOSES_WITHIN;
        loop {
            let returned = self.state_returned.notified();
            let opens = read::opens_of(&*self.machine.view()?, inode, writer)?;
            let writes = opens.iter().any(|open| open.access.intersects(namespace::Share::WRITE));
            if !writes || tokio::time::timeout_at(until, returned).await.is_err() {
                return Ok(());
            }
        }
    }

    /// Recalls the write delegations of several files at the same time. Returns those that are not back.
    pub(crate) async fn recall_writers(
        self: &Arc<Self>,
        files: impl IntoIterator<Item = InodeId>,
        asks: Option<ClientId>,
    ) -> Vec<InodeId> {
        let (mut files, mut asked, mut left) = (files.into_iter(), JoinSet::new(), vec![]);
        loop {
            while asked.len() < AT_ONCE
                && let Some(file) = files.next()
            {
                let state = Arc::clone(self);
                asked.spawn(async move { (file, state.recall_writer(file, asks).await) });
            }
            match asked.join_next().await {
                None => return left,
                Some(Ok((_, Ok(()) | Err(FileError::Stale)))) => {}
                Some(Ok((file, Err(_)))) => left.push(file),
                Some(Err(_)) => {}
            }
        }
    }

    /// Recalls the write delegations of a volume's files, some at a time.
    pub(crate) async fn recall_writers_of(self: &Arc<Self>, volume: VolumeId) -> Result<(), FileError> {
        let mut first = None;
        loop {
            let held = read::write_delegations(&*self.machine.view()?, volume, AT_ONCE)?;
            if held.is_empty() {
                return Ok(());
            }
            if first == held.first().copied() {
                return Err(FileError::Delay); // it cannot be asked back, such as of a clone that is being removed
            }
            first = held.first().copied();
            let files = held.into_iter().map(|(file, _)| file);
            if !self.recall_writers(files, None).await.is_empty() {
                return Err(FileError::Delay);
            }
        }
    }

    /// Recalls the write delegations of all volumes.
    pub(crate) async fn recall_all_writers(self: &Arc<Self>) -> Result<(), FileError> {
        let volumes = read::volumes(&*self.machine.view()?)?;
        for volume in volumes {
            self.recall_writers_of(volume.id).await?;
        }
        Ok(())
    }

    /// A write delegation is recalled from `client`: asks once for those of its closed files, too.
    pub(crate) fn recall_closed_files_of(&self, client: ClientId) {
        let now = self.machine.clock.monotonic();
        if self.sharing.is_recent(client, now) {
            return;
        }
        self.sharing.note(client, now);
        let any = RecallAnyArgs { objects_to_keep: 0, type_mask: RecallAnyArgs::WRITE_DELEGATIONS };
        tokio::spawn(self.call_back(client, CbArgOp::RecallAny(any)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_shares_for_a_while_and_the_memory_of_it_is_bounded() {
        let (sharing, s) = (Sharing::default(), Duration::from_secs);
        sharing.note(ClientId(7), s(100));
        assert!(sharing.is_recent(ClientId(7), s(129)) && !sharing.is_recent(ClientId(8), s(100)));
        assert!(!sharing.is_recent(ClientId(7), s(130)));
        for client in 0..2 * SHARING_MAX as u64 {
            sharing.note(ClientId(client), s(200));
        }
        assert!(sharing.0.lock().len() <= SHARING_MAX);
    }
}
