//! Compound of NFSv4: the state that its operations share, and the ids of their changes.

use namespace::{ClientId, Command, CompoundRequest, Inode, InodeId, Reply, RequestId, StateId, read};
use nfs::{CompoundContext, Position};
use store::View;
use wire::nfs4::{self, Status};

use crate::Metaserver;
use crate::errors::FileError;
use crate::exports::admission::Via;

/// The current or saved filehandle, resolved. Its generation has been checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Current {
    pub(crate) inode: InodeId,
    pub(crate) generation: u32,
    /// What the client came to it through.
    pub(crate) via: Via,
    /// The current stateid that goes with it (RFC 8881, section 16.2.3.1.2).
    pub(crate) stateid: Option<nfs4::Stateid>,
}

/// What the operations of one compound share.
#[derive(Debug, Default)]
pub struct Compound {
    pub(crate) current: Option<Current>,
    pub(crate) saved: Option<Current>,
    /// What was answered before this compound is seen by its operations.
    pub(crate) has_read_barrier: bool,
    /// A file whose data servers this compound has asked, and changed nothing since.
    pub(crate) observed: Option<InodeId>,
    /// The operation that made a change last, and which steps it used: a bit for each.
    steps: (u32, u16),
}

/// One of the changes that an operation makes. Session, slot, sequence, position of the operation and step
/// are the request id of the change: an operation that is sent again, perhaps to another metaserver, finds
/// the recorded reply of each step, whichever steps it leaves out this time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The change that the operation is named after.
    Change,
    /// WRITE and others: set-id bits go before the first byte.
    ClearSetId,
    /// WRITE: the data of a small file, with its inode.
    WriteInline,
    /// A change that truncates, refused with `Delay` until layouts are returned: this try of it, from 0.
    Truncate(u8),
}

impl Step {
    /// Indexes that each operation of a compound has for its steps.
    const COUNT: u32 = 16;

    /// Index of the step among those of an NFSv3 call. A call that is put off is not recorded, and all its tries
    /// are one step.
    pub(crate) fn index_in_call(self) -> u32 {
        match self {
            Self::Change => 0,
            Self::ClearSetId => 1,
            Self::WriteInline => 2,
            Self::Truncate(_) => 3,
        }
    }

    fn index(self) -> u32 {
        match self {
            Self::Change => 0,
            Self::ClearSetId => 1,
            Self::WriteInline => 2,
            Self::Truncate(attempt) => Self::COUNT / 2 + u32::from(attempt).min(Self::COUNT / 2 - 1),
        }
    }
}

/// The request id of a step; none for a compound without a session.
fn request(position: Option<Position>, step: Step) -> Option<RequestId> {
    let Position { session, slot, sequence, operation } = position?;
    let session = namespace::SessionId(session.0);
    let index = operation * Step::COUNT + step.index();
    Some(RequestId::Compound(CompoundRequest { session, slot, sequence, index }))
}

/// The context that each operation gets.
pub(crate) type Context = CompoundContext<Compound>;

/// The stateid as the protocol has it: `other` is the state's id and four zero bytes.
pub(crate) fn wire_stateid(stateid: namespace::Stateid) -> nfs4::Stateid {
    let mut other = [0; 12];
    other[..8].copy_from_slice(&stateid.id.0.to_be_bytes());
    nfs4::Stateid { seqid: stateid.sequence, other }
}

/// The stateid as the state machine has it; none of the special ones.
///
/// # Errors
/// `BadStateid` for one that we did not make.
pub(crate) fn stateid(wire: &nfs4::Stateid) -> Result<namespace::Stateid, Status> {
    let [a, b, c, d, e, f, g, h, 0, 0, 0, 0] = wire.other else { return Err(Status::BadStateid) };
    let id = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
    if id == 0 {
        return Err(Status::BadStateid);
    }
    Ok(namespace::Stateid { sequence: wire.seqid, id: StateId(id) })
}

/// change_info4; our directories change atomically.
pub(crate) fn change_info(change: namespace::Change) -> nfs4::ChangeInfo {
    nfs4::ChangeInfo { atomic: true, before: change.before, after: change.after }
}

impl Compound {
    /// Notes a step of the present operation. One that is used twice would be answered the first one's reply.
    fn use_step(&mut self, position: Option<Position>, step: Step) -> Result<(), FileError> {
        let Some(Position { operation, .. }) = position else { return Ok(()) };
        let used = if self.steps.0 == operation { self.steps.1 } else { 0 };
        let bit = 1_u16 << step.index();
        if used & bit != 0 {
            debug_assert!(false, "operation {operation} uses {step:?} twice");
            tracing::error!(operation, ?step, "an operation used a step twice; its change was not made");
            return Err(FileError::Fault);
        }
        self.steps = (operation, used | bit);
        Ok(())
    }

    /// An inode becomes the current filehandle; the current stateid goes.
    pub(crate) fn set_current(&mut self, inode: &Inode, via: Via) {
        self.current = Some(Current { inode: inode.id, generation: inode.generation, via, stateid: None });
    }

    /// The current filehandle.
    pub(crate) fn current(&self) -> Result<Current, Status> {
        self.current.ok_or(Status::NoFileHandle)
    }

    /// The directory of the export that the current filehandle is of.
    pub(crate) fn export(&self) -> Result<InodeId, Status> {
        match self.current()?.via {
            Via::Export(export) => Ok(export),
            Via::Pseudo => Err(Status::RoFs),
        }
    }

    /// The saved filehandle, which must be of the same export as the current one: each export has rules of
    /// its own, and shows as a file system of its own.
    pub(crate) fn saved_in_same_export(&self) -> Result<Current, Status> {
        let saved = self.saved.ok_or(Status::NoFileHandle)?;
        if saved.via == self.current()?.via { Ok(saved) } else { Err(Status::XDev) }
    }

    /// A state was made or changed: later operations may name it as the current one.
    pub(crate) fn set_stateid(&mut self, stateid: nfs4::Stateid) {
        if let Some(current) = &mut self.current {
            current.stateid = Some(stateid);
        }
    }

    /// Replaces the special "current" stateid by the one it stands for.
    pub(crate) fn resolve(&self, stateid: nfs4::Stateid) -> Result<nfs4::Stateid, Status> {
        if stateid != nfs4::Stateid::CURRENT {
            return Ok(stateid);
        }
        self.current.and_then(|c| c.stateid).ok_or(Status::BadStateid)
    }
}

/// What the operations with state know of their caller.
pub(crate) fn client(context: &Context) -> Result<ClientId, Status> {
    context.session.as_ref().map(|s| ClientId(s.client())).ok_or(Status::OpNotInSession)
}

impl Metaserver {
    /// The one change of an operation: see [`Metaserver::change_step`].
    pub(crate) async fn change(
        &self,
        context: &mut Context,
        prepare: impl FnOnce(&dyn View) -> Result<Command, Status> + Send,
    ) -> Result<Reply, Status> {
        self.change_step(context, Step::Change, prepare).await
    }

    /// One change: the recorded reply if this is a repetition; else checked, proposed and carried out.
    pub(crate) async fn change_step<E: From<FileError>>(
        &self,
        context: &mut Context,
        step: Step,
        prepare: impl FnOnce(&dyn View) -> Result<Command, E> + Send,
    ) -> Result<Reply, E> {
        let request = request(context.position, step);
        context.state.observed = None;
        context.state.use_step(context.position, step)?;
        let command = {
            let view = self.machine.view()?;
            if let Some(request) = &request
                && let Some(reply) = read::recorded(&*view, request).map_err(FileError::from)?
            {
                return match reply {
                    Reply::Refused(error) => Err(FileError::from(error).into()),
                    reply => Ok(reply),
                };
            }
            prepare(&*view)?
        };
        Ok(self.state.propose(request, command).await?)
    }

    /// Whether this step was answered `Delay` by the state machine, which knows that from then on: the next
    /// try is a step of its own. A step that never came to the state machine would be done when the compound
    /// is sent again.
    pub(crate) fn was_put_off(&self, context: &Context, step: Step) -> Result<bool, FileError> {
        let Some(request) = request(context.position, step) else { return Ok(true) };
        let recorded = read::recorded(&*self.machine.view()?, &request)?;
        Ok(recorded == Some(Reply::Refused(namespace::Error::Delay)))
    }
}
