//! Join tokens, for people: made, listed, revoked. The join server checks them.

use std::time::Duration;

use namespace::{Command, Error, JoinToken, TokenChange, read};

use crate::cluster::Cluster;
use crate::error::{AdminError, ClusterError, store_failed};

/// Time for the group to agree.
const AGREE_TIME_MAX: Duration = Duration::from_secs(10);

impl Cluster {
    /// Makes a token that lets one machine in during `valid`. Returns its id, and its end in seconds since
    /// 1970.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn make_join_token(&self, valid: Duration) -> Result<(u64, u64), AdminError> {
        // Id 0 means no token.
        let id = self.group.entropy.u64().max(1);
        let expires = self.group.now().seconds.max(0).unsigned_abs() + valid.as_secs();
        self.change_tokens(TokenChange::Make { id, expires }).await.map_err(|error| match error {
            ClusterError::Refused(Error::Invalid) => AdminError::Invalid(
                "no token: it would have ended at once, or there are too many; heorot token list shows them"
                    .into(),
            ),
            error => error.into(),
        })?;
        Ok((id, expires))
    }

    /// The tokens that have not expired, used or not, sorted by expiry.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn join_tokens(&self) -> Result<Vec<JoinToken>, AdminError> {
        self.group.read_barrier().await?;
        let view = self.group.view()?;
        let tokens = read::join_tokens(&*view).map_err(store_failed)?;
        let now = self.group.now().seconds.max(0).unsigned_abs();
        let mut tokens: Vec<_> = tokens.into_iter().filter(|token| token.expires > now).collect();
        tokens.sort_by_key(|token| (token.expires, token.id));
        Ok(tokens)
    }

    /// Revokes a token.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn revoke_join_token(&self, id: u64) -> Result<(), AdminError> {
        self.change_tokens(TokenChange::Revoke { id }).await.map_err(|error| match error {
            ClusterError::Refused(Error::NoEntry) => {
                AdminError::Invalid(format!("there is no join token {id:016x}; heorot token list shows them"))
            }
            error => error.into(),
        })
    }

    async fn change_tokens(&self, change: TokenChange) -> Result<(), ClusterError> {
        let changed = self.group.propose(None, Command::JoinToken(change));
        let changed = tokio::time::timeout(AGREE_TIME_MAX, changed).await;
        changed.map_err(|_| ClusterError::NoLeader)?.map(drop)
    }
}
