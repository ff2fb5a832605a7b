//! Requests of clients, and their execution by a metaserver.

use std::ops::ControlFlow;

use namespace::{
    Command, Entry, Inode, InodeId, Proposal, Reply, RequestId, Snapshots, Stamp, VolumeId, read,
};
use replica::{Replica, ReplicaError};
use store::{StoreError, View};

use crate::bug::Bug;

/// Request of a client.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "few of them live at a time, in a simulation")]
pub enum Request {
    /// Change, with its request id.
    Change(Option<RequestId>, Command),
    /// Read.
    Query(Query),
}

/// Content of a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Query {
    /// Looks up a name in a directory.
    Lookup(InodeId, Vec<u8>),
    /// Lists a directory.
    List(InodeId),
    /// Reads an inode.
    Attributes(InodeId),
    /// Reads the data of a small file.
    Data(InodeId),
    /// Reads all of a snapshot.
    Snapshot(VolumeId),
}

/// Result of a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueryResult {
    /// Result of [`Query::Lookup`].
    Named(Option<InodeId>),
    /// Result of [`Query::List`].
    Names(Vec<(Vec<u8>, InodeId)>),
    /// Result of [`Query::Attributes`].
    Inode(Option<Box<Inode>>),
    /// Result of [`Query::Data`].
    Bytes(Vec<u8>),
    /// Result of [`Query::Snapshot`], by inode.
    Shown(Vec<Shown>),
}

/// An inode of a snapshot, with its entries and its data.
pub type Shown = (Inode, Vec<Entry>, Vec<u8>);

/// Answer to a request.
#[expect(clippy::large_enum_variant, reason = "the large one is what most are")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Reply to a change.
    Reply(Reply),
    /// Result of a read, and the index after the last command that it saw.
    Read(QueryResult, u64),
    /// No answer; the client repeats its request.
    None(String),
}

impl Query {
    /// Reads from a view.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn at(&self, view: &dyn View) -> Result<QueryResult, StoreError> {
        let view = &Snapshots(view);
        Ok(match self {
            Query::Lookup(dir, name) => QueryResult::Named(read::lookup(view, *dir, name)?),
            Query::List(dir) => {
                let mut names = vec![];
                read::list(view, *dir, 0, |entry| {
                    names.push((entry.name, entry.inode));
                    ControlFlow::Continue(())
                })?;
                names.sort();
                QueryResult::Names(names)
            }
            Query::Attributes(inode) => QueryResult::Inode(read::inode(view, *inode)?.map(Box::new)),
            Query::Data(inode) => QueryResult::Bytes(read::inline_data(view, *inode)?.to_vec()),
            Query::Snapshot(id) => QueryResult::Shown(shown(view, *id)?),
        })
    }
}

/// All that a snapshot shows; nothing if it was removed.
fn shown(view: &dyn View, id: VolumeId) -> Result<Vec<Shown>, StoreError> {
    let (mut reached, mut shown) = (vec![id.root()], vec![]);
    while let Some(at) = reached.pop() {
        let Some(inode) = read::inode(view, at)? else { continue };
        let mut entries = vec![];
        read::list(view, at, 0, |entry| {
            entries.push(entry);
            ControlFlow::Continue(())
        })?;
        reached.extend(entries.iter().map(|entry| entry.inode));
        shown.push((inode, entries, read::inline_data(view, at)?.to_vec()));
    }
    shown.sort_by_key(|(inode, ..)| inode.id);
    shown.dedup_by_key(|(inode, ..)| inode.id); // files with several names
    Ok(shown)
}

/// Carries out a request at this member, as a metaserver does.
pub(crate) async fn execute(replica: &Replica, request: Request, stamp: Stamp, bug: Option<Bug>) -> Answer {
    match request {
        Request::Change(request, command) => {
            let proposal = Proposal::new(stamp, request, command);
            if bug == Some(Bug::AnsweredTooSoon) && matches!(proposal.command, Command::Remove { .. }) {
                let replica = replica.clone();
                tokio::spawn(async move { replica.propose(proposal).await });
                return Answer::Reply(Reply::Done);
            }
            match replica.propose(proposal).await {
                Ok(reply) => Answer::Reply(reply),
                Err(why) => Answer::None(why.to_string()),
            }
        }
        Request::Query(look) => match look_now(replica, &look, bug).await {
            Ok(answer) => answer,
            Err(why) => Answer::None(why.to_string()),
        },
    }
}

async fn look_now(replica: &Replica, look: &Query, bug: Option<Bug>) -> Result<Answer, ReplicaError> {
    if bug != Some(Bug::StaleReads) {
        replica.barrier().await?;
    }
    let failed = |e: StoreError| ReplicaError::Failed(e.to_string());
    let view = replica.view().map_err(failed)?;
    let seen = look.at(&*view).map_err(failed)?;
    Ok(Answer::Read(seen, replica::applied_next(&*view).map_err(failed)?))
}
