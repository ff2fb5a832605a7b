//! Requests that change files, and the ids of their changes.
//!
//! A client without a reply sends its request again, perhaps to another metaserver. Each change of a request
//! has an id, under which the state machine keeps its reply: the operation's position in an NFSv4 compound
//! and the step, or the NFSv3 call and the number of the change.

use namespace::{CallId, ClientId, Command, Reply, RequestId, read};
use store::View;

use crate::Metaserver;
use crate::compound::{Context, Step, client};
use crate::errors::FileError;

/// Request of a client.
pub(crate) enum Request<'a> {
    /// Operation of an NFSv4 compound.
    Compound(&'a mut Context),
    /// NFSv3 call that must be answered once.
    Call(&'a CallId),
    /// NFSv3 WRITE: a repetition has the same effect.
    Write,
}

impl Request<'_> {
    /// Client of an NFSv4 request.
    pub(crate) fn client(&self) -> Option<ClientId> {
        match self {
            Self::Compound(context) => client(context).ok(),
            Self::Call(_) | Self::Write => None,
        }
    }

    /// Makes one change. Returns the recorded reply to a retry, or the reply to the command that `prepare`
    /// checked.
    ///
    /// # Errors
    /// The error of `prepare`, or the reason of the command's refusal.
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

    /// True if the state machine has recorded the answer `Delay` to this step: then the next try must be
    /// another step. A step without a record may be tried again as it is. In a compound it may not, since a
    /// retry of the compound would do it.
    pub(crate) fn was_put_off(&self, server: &Metaserver, step: Step) -> Result<bool, FileError> {
        match self {
            Self::Compound(context) => server.was_put_off(context, step),
            Self::Call(_) | Self::Write => Ok(true),
        }
    }
}

impl Metaserver {
    /// True if the first change of an NFSv3 call was made already.
    pub(crate) fn has_changed3(&self, call: &CallId) -> Result<bool, FileError> {
        Ok(read::recorded(&*self.machine.view()?, &RequestId::Call(*call, 0))?.is_some())
    }

    /// Makes the change `index` of a checked NFSv3 call. A conflict found by the check may be the effect of
    /// this same call, perhaps at a metaserver that died before its reply: then the reply is the recorded
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
