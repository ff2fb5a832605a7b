//! A snapshot that has arrived is put in place, which takes as long as the store takes; and whoever sent it asks how that
//! stands. Nobody waits for it over a connection: one that breaks without a word, because the power went here, would be
//! waited for in vain, and this member would be sent nothing meanwhile.
//!
//! ```text
//! leader: SnapshotEnd ─▶ begin ─▶ ()          SnapshotInstallState ─▶ after a second at most: not yet │ done │ unknown
//! ```

use std::future::Future;
use std::time::Duration;

use openraft::raft::SnapshotResponse;
use serde::{Deserialize, Serialize};

use crate::runtime::watch;
use crate::types::{SnapshotId, Types};

/// Who asks is told so soon that it takes longer.
const ANSWER_AFTER: Duration = Duration::from_secs(1);

/// How it stands with a snapshot.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum InstallState {
    /// It is to be asked for again.
    InProgress,
    /// It is in place, or was not needed.
    Done(SnapshotResponse<Types>),
    /// It has to be sent again: it could not be put in place, or nothing is known of it, since this process is not the one
    /// that it was sent to.
    Unknown(String),
}

type Outcome = Result<SnapshotResponse<Types>, String>;

/// The last snapshot that came to its end here.
pub(crate) struct Installation {
    id: SnapshotId,
    outcome: watch::Receiver<Option<Outcome>>,
}

impl Installation {
    /// Has `install` done in the background.
    pub(crate) fn begin(id: SnapshotId, install: impl Future<Output = Outcome> + Send + 'static) -> Self {
        let (tell, outcome) = watch::channel(None);
        tokio::spawn(async move { tell.set(Some(install.await)) });
        Self { id, outcome }
    }

    /// What becomes of the snapshot `id`: who waits is answered when that is known, or after [`ANSWER_AFTER`].
    pub(crate) fn state(
        last: Option<&Self>,
        id: SnapshotId,
    ) -> impl Future<Output = InstallState> + Send + use<> {
        let outcome = last.filter(|last| last.id == id).map(|last| last.outcome.clone());
        async move {
            let Some(mut outcome) = outcome else {
                return InstallState::Unknown("no such snapshot came to its end here".into());
            };
            let known = tokio::time::timeout(ANSWER_AFTER, outcome.wait_for(Option::is_some)).await;
            match known.map(|known| known.ok().and_then(|outcome| outcome.clone())) {
                Err(_) => InstallState::InProgress,
                Ok(Some(Ok(answer))) => InstallState::Done(answer),
                Ok(Some(Err(why))) => InstallState::Unknown(why),
                Ok(None) => InstallState::Unknown("putting it in place ended badly".into()),
            }
        }
    }
}
