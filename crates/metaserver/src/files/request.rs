//! Request that changes files, and the ids of its changes.
//!
//! A client that got no reply sends its request again, perhaps to another metaserver. Each change that the
//! request makes has an id, under which the state machine keeps its reply: the operation's place in an NFSv4
//! compound and the step, or the NFSv3 call and the number of the change.

use namespace::{CallId, ClientId, Command, Reply, RequestId, read};
use store::View;

use crate::Metaserver;
use crate::compound::{Context, Step, client};
use crate::errors::FileError;

/// Request of a client.
pub(crate) enum Request<'a> {
    /// Operation of an NFSv4 compound.
    Compound(&'a mut Context),
    /// NFSv3 call that is answered once.
    Call(&'a CallId),
    /// NFSv3 WRITE: to do it twice is to do it once.
    Write,
}

impl Request<'_> {
    /// Client of NFSv4 that asks.
    pub(crate) fn client(&self) -> Option<ClientId> {
        match self {
            Self::Compound(context) => client(context).ok(),
            Self::Call(_) | Self::Write => None,
        }
    }

    /// One change: the recorded reply to a repetition, or the reply to the command that `prepare` checked.
    ///
    /// # Errors
    /// The error of `prepare`, or the reason that the command was refused.
    pub(crate) async fn change(
        &mut self,
        server: &Metaserver,
        step: Step,
        prepare: impl FnOnce(&dyn View) -> Result<Command, FileError> + Send,
    ) -> Result<Reply, FileError> {
        match self {
            Self::Compound(context) => server.change_step(context, step, prepare).await,
            Self::Call(call) => {
                let checked = server.machine.view().and_then(|view| prepare(&*view));
                server.change3(call, step.index_in_call(), checked).await
            }
            Self::Write => {
                let command = prepare(&*server.machine.view()?)?;
                server.state.propose(None, command).await
            }
        }
    }

    /// Whether the state machine has answered this step `Delay`, and knows that: the next try is then another
    /// step. A step that was not recorded may be tried again as it is, but not in a compound, where it would
    /// be done when the compound is sent again.
    pub(crate) fn was_put_off(&self, server: &Metaserver, step: Step) -> Result<bool, FileError> {
        match self {
            Self::Compound(context) => server.was_put_off(context, step),
            Self::Call(_) | Self::Write => Ok(true),
        }
    }
}

impl Metaserver {
    /// Whether the first change of an NFSv3 call was made already.
    pub(crate) fn has_changed3(&self, call: &CallId) -> Result<bool, FileError> {
        Ok(read::recorded(&*self.machine.view()?, &RequestId::Call(*call, 0))?.is_some())
    }

    /// Change `index` of an NFSv3 call, which was checked. What it found in its way may be what this same
    /// call did before, perhaps at a metaserver that died before it answered: the reply is then the recorded
    /// one.
    pub(crate) async fn change3(
        &self,
        call: &CallId,
        index: u32,
        checked: Result<Command, FileError>,
    ) -> Result<Reply, FileError> {
        let request = RequestId::Call(*call, index);
        let error = match checked {
            Ok(command) => return self.state.propose(Some(request), command).await,
            Err(error) => error,
        };
        match read::recorded(&*self.machine.view()?, &request)? {
            Some(Reply::Refused(error)) => Err(error.into()),
            Some(reply) => Ok(reply),
            None => Err(error),
        }
    }
}
