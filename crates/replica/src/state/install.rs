//! Snapshot install: a received snapshot replaces the store. It takes as long as the store takes, so the sender polls its state instead
//! of waiting for one answer: a connection that a power failure breaks silently would be waited for in vain,
//! and this member would receive nothing meanwhile.
//!
//! ```text
//! leader: SnapshotEnd ─▶ begin ─▶ ()     SnapshotInstallState ─▶ within a second: in progress │ done │ unknown
//! ```

use std::future::Future;
use std::time::Duration;

use openraft::raft::SnapshotResponse;
use serde::{Deserialize, Serialize};

use crate::types::{SnapshotId, Types};
use host::watch;

/// Answer `InProgress` after this long if the install still runs.
const ANSWER_AFTER: Duration = Duration::from_secs(1);

/// State of an install.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum InstallState {
    /// The install runs: ask again.
    InProgress,
    /// The snapshot is installed, or was not needed.
    Done(SnapshotResponse<Types>),
    /// The snapshot must be sent again: its install failed, or this process did not receive it.
    Unknown(String),
}

type Outcome = Result<SnapshotResponse<Types>, String>;

/// Install of the last snapshot that was received.
pub(crate) struct Installation {
    id: SnapshotId,
    outcome: watch::Receiver<Option<Outcome>>,
}

impl Installation {
    /// Starts `install` in the background.
    pub(crate) fn begin(id: SnapshotId, install: impl Future<Output = Outcome> + Send + 'static) -> Self {
        let (tell, outcome) = watch::channel(None);
        tokio::spawn(async move { tell.set(Some(install.await)) });
        Self { id, outcome }
    }

    /// State of the install of snapshot `id`, answered when it has ended, or after [`ANSWER_AFTER`].
    pub(crate) fn state(
        last: Option<&Self>,
        id: SnapshotId,
    ) -> impl Future<Output = InstallState> + Send + use<> {
        let outcome = last.filter(|last| last.id == id).map(|last| last.outcome.clone());
        async move {
            let Some(mut outcome) = outcome else {
                return InstallState::Unknown("this member has not received that snapshot".into());
            };
            let known = tokio::time::timeout(ANSWER_AFTER, outcome.wait_for(Option::is_some)).await;
            match known.map(|known| known.ok().and_then(|outcome| outcome.clone())) {
                Err(_) => InstallState::InProgress,
                Ok(Some(Ok(answer))) => InstallState::Done(answer),
                Ok(Some(Err(why))) => InstallState::Unknown(why),
                Ok(None) => InstallState::Unknown("the install of the snapshot panicked".into()),
            }
        }
    }
}
