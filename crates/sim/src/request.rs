//! What a client asks of a metaserver, and what the metaserver does about it.

use std::ops::ControlFlow;

use namespace::{Command, Inode, InodeId, Proposal, Reply, RequestId, Stamp, read};
use replica::{Replica, ReplicaError};
use store::{StoreError, View};

use crate::bug::Bug;

/// A request.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "few of them live at a time, in a simulation")]
pub enum Request {
    /// A change, under the slot and sequence by which it is known again.
    Change(Option<RequestId>, Command),
    /// A look.
    Look(Look),
}

/// What is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Look {
    /// What a name in a directory names.
    Lookup(InodeId, Vec<u8>),
    /// All names of a directory.
    List(InodeId),
    /// An inode.
    Attributes(InodeId),
    /// The data of a small file.
    Data(InodeId),
}

/// What was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// Of [`Look::Lookup`].
    Named(Option<InodeId>),
    /// Of [`Look::List`].
    Names(Vec<(Vec<u8>, InodeId)>),
    /// Of [`Look::Attributes`].
    Inode(Option<Box<Inode>>),
    /// Of [`Look::Data`].
    Bytes(Vec<u8>),
}

/// An answer.
#[expect(clippy::large_enum_variant, reason = "the large one is what most are")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// To a change.
    Reply(Reply),
    /// To a look, and the index after the last command that it saw.
    Seen(Seen, u64),
    /// None; the client asks again.
    None(String),
}

impl Look {
    /// Looks.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn at(&self, view: &dyn View) -> Result<Seen, StoreError> {
        Ok(match self {
            Look::Lookup(dir, name) => Seen::Named(read::lookup(view, *dir, name)?),
            Look::List(dir) => {
                let mut names = vec![];
                read::list(view, *dir, 0, |entry| {
                    names.push((entry.name, entry.inode));
                    ControlFlow::Continue(())
                })?;
                names.sort();
                Seen::Names(names)
            }
            Look::Attributes(inode) => Seen::Inode(read::inode(view, *inode)?.map(Box::new)),
            Look::Data(inode) => Seen::Bytes(read::inline_data(view, *inode)?.to_vec()),
        })
    }
}

/// Does what is asked, at this member, as a metaserver does.
pub(crate) async fn carry_out(replica: &Replica, request: Request, stamp: Stamp, bug: Option<Bug>) -> Answer {
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
        Request::Look(look) => match look_now(replica, &look, bug).await {
            Ok(answer) => answer,
            Err(why) => Answer::None(why.to_string()),
        },
    }
}

async fn look_now(replica: &Replica, look: &Look, bug: Option<Bug>) -> Result<Answer, ReplicaError> {
    if bug != Some(Bug::StaleReads) {
        replica.barrier().await?;
    }
    let failed = |e: StoreError| ReplicaError::Failed(e.to_string());
    let view = replica.view().map_err(failed)?;
    let seen = look.at(&*view).map_err(failed)?;
    Ok(Answer::Seen(seen, replica::applied_next(&*view).map_err(failed)?))
}
