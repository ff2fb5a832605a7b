//! Join tokens, for people: made, listed, revoked. The door uses them.

use std::time::Duration;

use namespace::{Command, JoinToken, TokenChange, read};

use crate::admin::stripe::{self, AdminError};
use crate::cluster::Cluster;
use crate::errors::FileError;

/// For the group to agree.
const AGREE_TIME_MAX: Duration = Duration::from_secs(10);

impl Cluster {
    /// Makes a token that lets one machine in for so long: its id, and its end in seconds since 1970.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn make_join_token(&self, valid: Duration) -> Result<(u64, u64), AdminError> {
        // 0 is no token's.
        let id = self.machine.entropy.u64().max(1);
        let expires = self.machine.now().seconds.max(0).unsigned_abs() + valid.as_secs();
        self.change_tokens(TokenChange::Make { id, expires }).await.map_err(|status| match status {
            Some(FileError::Invalid) => AdminError::Invalid(
                "no token: it would have ended at once, or there are too many; heorot token list shows them"
                    .into(),
            ),
            status => failed(status),
        })?;
        Ok((id, expires))
    }

    /// The tokens that have not ended, used or not, by their ends.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn join_tokens(&self) -> Result<Vec<JoinToken>, AdminError> {
        self.machine.read_barrier().await.map_err(stripe::server_failed)?;
        let view = self.machine.view().map_err(stripe::server_failed)?;
        let tokens = read::join_tokens(&*view).map_err(|e| stripe::server_failed(e.into()))?;
        let now = self.machine.now().seconds.max(0).unsigned_abs();
        let mut tokens: Vec<_> = tokens.into_iter().filter(|token| token.expires > now).collect();
        tokens.sort_by_key(|token| (token.expires, token.id));
        Ok(tokens)
    }

    /// Ends a token.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn revoke_join_token(&self, id: u64) -> Result<(), AdminError> {
        self.change_tokens(TokenChange::Revoke { id }).await.map_err(|status| match status {
            Some(FileError::NoEntry) => {
                AdminError::Invalid(format!("there is no join token {id:016x}; heorot token list shows them"))
            }
            status => failed(status),
        })
    }

    /// None: not in time.
    async fn change_tokens(&self, change: TokenChange) -> Result<(), Option<FileError>> {
        let changed = self.machine.propose_once(None, Command::JoinToken(change));
        let changed = tokio::time::timeout(AGREE_TIME_MAX, changed).await;
        changed.map_err(|_| None)?.map(drop).map_err(Some)
    }
}

fn failed(status: Option<FileError>) -> AdminError {
    stripe::server_failed(status.unwrap_or(FileError::Delay))
}
