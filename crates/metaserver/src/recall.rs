//! Recalling layouts before something happens that their holders must not write through (RFC 8881, section 12.5.5).

use std::time::Duration;

use namespace::{ClientId, Command, InodeId, ReturnScope, Stateid, read};
use nfs::CallbackError;
use tokio::task::JoinSet;
use wire::nfs4::Status;
use wire::nfs4::callback::{CbArgOp, LayoutRecall};

use crate::Metaserver;
use crate::errors::store_failed;
use crate::nfs4::wire_stateid;

/// An operation waits this long for recalled layouts; then its client is told to come again, so that no slot is held.
const WAIT_MAX: Duration = Duration::from_secs(2);

impl Metaserver {
    /// Has every client but `except` return its layout of `inode`.
    ///
    /// # Errors
    /// `Delay` while a client has not returned it yet. One that cannot be reached, or says that it has none, loses it.
    pub(crate) async fn recall_layouts(
        &self,
        inode: InodeId,
        generation: u32,
        except: Option<ClientId>,
    ) -> Result<(), Status> {
        let holders = self.holders(inode, except)?;
        if holders.is_empty() {
            return Ok(());
        }
        let returned = self.layouts_returned.notified();
        tokio::pin!(returned);
        let mut asked = JoinSet::new();
        for client in holders {
            let reply = self.propose(None, Command::LayoutRecall { client, inode }).await?;
            let namespace::Reply::State { stateid: Some(stateid) } = reply else { continue };
            let handle = self.handle(inode, generation);
            let op = CbArgOp::LayoutRecall(LayoutRecall::whole_file(handle.into(), wire_stateid(stateid)));
            let sessions = self.sessions.of_client(client);
            asked.spawn(async move {
                let mut outcome = Err(CallbackError::NoConnection);
                for session in sessions {
                    outcome = session.back.call(op.clone()).await;
                    if outcome.is_ok() {
                        break;
                    }
                }
                (client, stateid, outcome.map(|result| result.status()))
            });
        }
        while let Some(answer) = asked.join_next().await {
            let (client, stateid, outcome) = answer.map_err(|_| Status::ServerFault)?;
            match outcome {
                Ok(Status::Ok | Status::Delay) => {}
                Ok(other) => {
                    tracing::debug!(client = client.0, status = ?other, "holds no such layout");
                    self.revoke(client, inode, stateid).await?;
                }
                // It will learn from its next SEQUENCE that its back channel is down, bind it and be asked again; or
                // its lease runs out and its layouts with it.
                Err(error) => tracing::info!(client = client.0, %error, "layout recall did not arrive"),
            }
        }
        let deadline = tokio::time::Instant::now() + WAIT_MAX;
        while !self.holders(inode, except)?.is_empty() {
            if tokio::time::timeout_at(deadline, &mut returned).await.is_err() {
                return Err(Status::Delay);
            }
            returned.set(self.layouts_returned.notified());
        }
        Ok(())
    }

    fn holders(&self, inode: InodeId, except: Option<ClientId>) -> Result<Vec<ClientId>, Status> {
        let view = self.view()?;
        let layouts = read::layouts(&*view, inode).map_err(store_failed)?;
        Ok(layouts.into_iter().map(|(client, ..)| client).filter(|c| Some(*c) != except).collect())
    }

    async fn revoke(&self, client: ClientId, inode: InodeId, _recalled: Stateid) -> Result<(), Status> {
        let scope = ReturnScope::Revoke { inode };
        self.propose(None, Command::LayoutReturn { client, scope }).await?;
        self.layouts_returned.notify_waiters();
        self.work_ready.notify_one();
        Ok(())
    }
}
