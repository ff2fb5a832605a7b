//! Layout of a new file: chains chosen by placement, and their device.

use host::Repeated;
use namespace::{Command, FileLayout, InodeId, NewNode, Reply, StripePolicy, StripeUnit, read};

use crate::data::Data;
use crate::data::hold::wait_for_return;
use crate::data::placement::Choice;
use crate::errors::FileError;

/// Requests for a new file without a data server.
static NO_SERVER: Repeated = Repeated::new();

impl Data {
    /// Returns a new regular file in `dir`, with its layout.
    pub(crate) async fn place(&self, dir: InodeId) -> Result<NewNode, FileError> {
        let policy = {
            let view = self.machine.view()?;
            read::stripe_policy(&*view, dir)?
        };
        let policy = policy.unwrap_or(self.cluster.default_stripe().into());
        let StripePolicy { unit, columns, pool, .. } = policy;
        let mut is_first = true;
        let choice = loop {
            let copies = self.cluster.copies_of(&policy);
            if let Some(choice) = self.placement.choose(&self.candidates(copies, pool), columns) {
                break choice;
            }
            // Chains may have got more copies, all of them: files that want fewer need new ones.
            let may_be_made =
                !self.cluster.has_chains(copies, pool) && self.cluster.servers_of_pool(pool) >= copies.into();
            if may_be_made {
                match self.cluster.ensure_chains(copies, pool).await {
                    Ok(()) => {
                        if let Some(choice) = self.placement.choose(&self.candidates(copies, pool), columns) {
                            break choice;
                        }
                    }
                    Err(error) => tracing::debug!(%error, copies, "no chains are made for a new file yet"),
                }
            }
            if std::mem::take(&mut is_first)
                && let Some(count) = NO_SERVER.count()
            {
                let pool = self.cluster.map().pool_name(pool).to_string();
                tracing::warn!(
                    count,
                    pool,
                    copies,
                    "too few data servers are there to keep a new file: start one with `heorot ds`"
                );
            }
            wait_for_return(FileError::Delay).await?;
        };
        Ok(NewNode::File(self.layout_of(choice, unit).await?))
    }

    /// Returns the layout for a choice of placement; makes its device if there is none yet.
    pub(crate) async fn layout_of(&self, choice: Choice, unit: StripeUnit) -> Result<FileLayout, FileError> {
        let Choice { chains, first } = choice;
        let columns = chains.len() as u32;
        let device = match self.placement.device(&chains) {
            Some(id) => id,
            None => {
                let command = Command::DefineDevice { chains: chains.clone() };
                let Reply::Device { id } = self.state.propose(None, command).await? else {
                    return Err(FileError::Fault);
                };
                self.placement.learn(chains, id);
                id
            }
        };
        Ok(FileLayout { device, first, unit, columns })
    }
}
