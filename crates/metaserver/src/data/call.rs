//! Calls to data servers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cluster::Cluster;
use namespace::{ChainId, TargetId};
use nfs::CallFailure;
use wire::data::{self, Procedure};
use wire::handle::ObjectHandle;
use wire::xdr::{Decode, Encode};

use crate::data::Data;
use crate::data::hold::{held_as_now, wait_for_return};
use crate::errors::FileError;

/// Time limit of a call to a data server. After it the server counts as dead, and the client gets DELAY.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(20);

impl Data {
    /// Sends one call about an object: to its target, or to the head of its chain. Each try of a held call goes to the
    /// member that is the head then.
    ///
    /// # Errors
    /// As [`Data::call_target`].
    pub(crate) fn call_object<A, R>(
        &self,
        object: ObjectHandle,
        procedure: Procedure,
        arguments: impl Fn(Bytes) -> A + Send + Sync + 'static,
    ) -> impl Future<Output = Result<R, FileError>> + Send + 'static
    where
        A: Encode + Send + Sync + 'static,
        R: Send + 'static,
        Result<R, data::Status>: Decode,
    {
        let (cluster, key) = (Arc::clone(&self.cluster), self.machine.key.clone());
        held_as_now(async move {
            let chain = ChainId(object.chain);
            loop {
                let target = cluster.head_of(chain);
                let handle = ObjectHandle { target: target.0, ..object }.seal(&key);
                let arguments = arguments(handle);
                let call = try_once(&cluster, target, Some(chain), procedure, &arguments, TIME_MAX);
                let outcome = tokio::select! {
                    biased;
                    outcome = call => outcome,
                    // The data server hangs, or is cut off. What it has sent to others is ahead of a call to the next
                    // head, so that an object is not made after it was removed.
                    () = cluster.until_not_head(vec![chain], target) => match procedure {
                        Procedure::Make => continue,
                        _ if is_repeatable(procedure) => continue,
                        _ => Err(FileError::NoAnswer),
                    },
                };
                match outcome {
                    Err(why @ FileError::Away) => wait_for_return(why).await?,
                    Err(why @ FileError::NoAnswer) if is_repeatable(procedure) => {
                        wait_for_return(why).await?;
                    }
                    outcome => return outcome,
                }
            }
        })
    }

    /// Sends one call to the data server that has `target`. The call of a client's request is held while the
    /// data server is away: see [`crate::data::hold`].
    ///
    /// # Errors
    /// `Away`: nothing was sent. `NoAnswer`: the call may be carried out later. The errors of the data server.
    pub(crate) fn call_target<A, R>(
        &self,
        target: TargetId,
        procedure: Procedure,
        arguments: A,
    ) -> impl Future<Output = Result<R, FileError>> + Send + 'static
    where
        A: Encode + Send + Sync + 'static,
        R: Send + 'static,
        Result<R, data::Status>: Decode,
    {
        // The future may run as a task of its own.
        let cluster = Arc::clone(&self.cluster);
        held_as_now(async move {
            loop {
                match try_once(&cluster, target, None, procedure, &arguments, TIME_MAX).await {
                    Err(why @ FileError::Away) => wait_for_return(why).await?,
                    Err(why @ FileError::NoAnswer) if is_repeatable(procedure) => {
                        wait_for_return(why).await?;
                    }
                    outcome => return outcome,
                }
            }
        })
    }

    /// Sends one call about several objects, once, to the head of their chains. The caller sends the next one to
    /// those that are the heads then.
    ///
    /// # Errors
    /// As [`Data::call_target`]; `NoAnswer` also when one of the chains has another head meanwhile.
    pub(crate) fn call_head<A, R>(
        &self,
        (target, chains): (TargetId, Vec<ChainId>),
        procedure: Procedure,
        arguments: A,
        limit: Duration,
    ) -> impl Future<Output = Result<R, FileError>> + Send + 'static
    where
        A: Encode + Send + Sync + 'static,
        R: Send + 'static,
        Result<R, data::Status>: Decode,
    {
        let cluster = Arc::clone(&self.cluster);
        let is_left = self.cluster.until_not_head(chains, target);
        async move {
            tokio::select! {
                biased;
                outcome = try_once(&cluster, target, None, procedure, &arguments, limit) => outcome,
                () = is_left => Err(FileError::NoAnswer),
            }
        }
    }
}

/// Sends one call to a target; about one object, also its chain.
async fn try_once<A, R>(
    cluster: &Cluster,
    target: TargetId,
    chain: Option<ChainId>,
    procedure: Procedure,
    arguments: &A,
    limit: Duration,
) -> Result<R, FileError>
where
    A: Encode + Sync,
    Result<R, data::Status>: Decode,
{
    let servers = &cluster.data_servers;
    let reach = servers.reach(target)?;
    let answer = tokio::select! {
        biased;
        answer = reach.peer.call(procedure as u32, arguments, limit) => answer,
        // The target was declared lost: the call ends.
        () = servers.until_lost(target) => return Err(FileError::Io),
    };
    let result: Result<R, data::Status> = answer.map_err(|error| {
        reach.failed(procedure.name(), &error);
        // Only this server has the data: the client waits for its return, until the target is declared lost.
        match error {
            _ if servers.is_lost(target) => FileError::Io,
            CallFailure::Connect(_) => FileError::Away,
            _ => FileError::NoAnswer,
        }
    })?;
    reach.answered();
    result.map_err(|status| {
        match chain {
            // Any of the members has no room.
            Some(chain) if status == data::Status::NoSpace => cluster.note_no_room(chain, target),
            _ => servers.refused(target, status),
        }
        refused(status)
    })
}

/// True if a call has the same effect when it is carried out again, also late.
fn is_repeatable(procedure: Procedure) -> bool {
    match procedure {
        Procedure::Read
        | Procedure::ReadPlus
        | Procedure::Seek
        | Procedure::Stat
        | Procedure::Status
        | Procedure::List
        | Procedure::Usage
        | Procedure::ChainRecords
        | Procedure::DirtyRegions
        | Procedure::Commit
        | Procedure::Chain
        | Procedure::Block => true,
        Procedure::Write
        | Procedure::Truncate
        | Procedure::Remove
        | Procedure::Allocate
        | Procedure::Punch
        | Procedure::Copy
        | Procedure::Attach
        | Procedure::Make
        | Procedure::Member
        | Procedure::Mend => false,
    }
}

fn refused(status: data::Status) -> FileError {
    match status {
        data::Status::NoSpace => FileError::NoSpace,
        data::Status::Stale | data::Status::NotFound => FileError::Stale,
        data::Status::Delay => FileError::Delay,
        data::Status::StaleEpoch => FileError::StaleEpoch,
        // Nothing was done: the chain is about to change, or has changed.
        data::Status::StaleChain | data::Status::ChainWaits => FileError::Away,
        data::Status::ReadOnly => FileError::ReadOnly,
        // Beyond the longest file of the data server's file system.
        data::Status::Invalid => FileError::TooLarge,
        data::Status::NotSupported => FileError::NotSupported,
        // The data server has logged the object or target, and reports the target's condition.
        data::Status::Io | data::Status::ObjectLost | data::Status::TargetLost | data::Status::Damaged => {
            FileError::Io
        }
        // Until the operator of the data server confirms the restore: the answer to its registration is in
        // both logs.
        data::Status::OtherIncarnation => FileError::Delay,
        other => {
            tracing::error!(status = ?other, "data server refused");
            FileError::Io
        }
    }
}
