//! Compounds of NFSv4: the state shared by their operations, and the ids of their changes.

use std::sync::Arc;

use namespace::{ClientId, Command, CompoundRequest, Inode, InodeId, Reply, RequestId, StateId, read};
use nfs::{CompoundContext, Position};
use store::View;
use wire::nfs4::{self, Status};

use crate::Metaserver;
use crate::data::hold::Hold;
use crate::errors::FileError;
use crate::exports::admission::Via;

/// The current or saved filehandle, resolved. Its generation has been checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Current {
    pub(crate) inode: InodeId,
    pub(crate) generation: u32,
    /// Export or pseudo file system through which the client reached the inode.
    pub(crate) via: Via,
    /// Current stateid of this filehandle (RFC 8881, section 16.2.3.1.2).
    pub(crate) stateid: Option<nfs4::Stateid>,
}

/// State shared by the operations of one compound.
#[derive(Debug, Default)]
pub struct Compound {
    pub(crate) current: Option<Current>,
    pub(crate) saved: Option<Current>,
    /// True if the operations see all changes answered before this compound.
    pub(crate) has_read_barrier: bool,
    /// File whose data servers this compound has asked, without a change since.
    pub(crate) observed: Option<InodeId>,
    /// Waiting time of the compound for data servers that are away.
    pub(crate) hold: Option<Arc<Hold>>,
    /// Operation with the last change, and its used steps: a bit for each.
    steps: (u32, u16),
}

/// One of the changes that an operation makes. Session, slot, sequence, position of the operation and step
/// are the request id of the change. So a retry of the operation, perhaps at another metaserver, finds the
/// recorded reply of each step, even if it skips some steps this time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The main change of the operation.
    Change,
    /// WRITE and others: set-id bits are cleared before the first byte.
    ClearSetId,
    /// WRITE: the inline data of a small file.
    WriteInline,
    /// WRITE and others: the claim of a request that another metaserver may be carrying out.
    Claim,
    /// A change with a truncation, refused with `Delay` until layouts are returned; number of the try, from
    /// 0.
    Truncate(u8),
}

impl Step {
    /// Step indexes reserved for each operation of a compound.
    const COUNT: u32 = 16;

    /// Index of the step within an NFSv3 call. The answer `Delay` to a call is not recorded, and all its
    /// tries are one step.
    pub(crate) fn index_in_call(self) -> u32 {
        match self {
            Self::Change => 0,
            Self::ClearSetId => 1,
            Self::WriteInline => 2,
            Self::Truncate(_) => 3,
            Self::Claim => 4, // not of calls: they have no slot
        }
    }

    fn index(self) -> u32 {
        match self {
            Self::Change => 0,
            Self::ClearSetId => 1,
            Self::WriteInline => 2,
            Self::Claim => 3,
            Self::Truncate(attempt) => Self::COUNT / 2 + u32::from(attempt).min(Self::COUNT / 2 - 1),
        }
    }
}

/// Request id of a step; none for a compound without a session.
pub(crate) fn request(position: Option<Position>, step: Step) -> Option<RequestId> {
    let Position { session, slot, sequence, operation } = position?;
    let session = namespace::SessionId(session.0);
    let index = operation * Step::COUNT + step.index();
    Some(RequestId::Compound(CompoundRequest { session, slot, sequence, index }))
}

/// Context of each operation.
pub(crate) type Context = CompoundContext<Compound>;

/// Stateid in the wire format: `other` is the state's id and four zero bytes.
pub(crate) fn wire_stateid(stateid: namespace::Stateid) -> nfs4::Stateid {
    let mut other = [0; 12];
    other[..8].copy_from_slice(&stateid.id.0.to_be_bytes());
    nfs4::Stateid { seqid: stateid.sequence, other }
}

/// Stateid in the form of the state machine; not for special stateids.
///
/// # Errors
/// `BadStateid` for a stateid that this cluster did not make.
pub(crate) fn stateid(wire: &nfs4::Stateid) -> Result<namespace::Stateid, Status> {
    let [a, b, c, d, e, f, g, h, 0, 0, 0, 0] = wire.other else { return Err(Status::BadStateid) };
    let id = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
    if id == 0 {
        return Err(Status::BadStateid);
    }
    Ok(namespace::Stateid { sequence: wire.seqid, id: StateId(id) })
}

/// Returns change_info4; directories change atomically.
pub(crate) fn change_info(change: namespace::Change) -> nfs4::ChangeInfo {
    nfs4::ChangeInfo { atomic: true, before: change.before, after: change.after }
}

impl Compound {
    /// Notes a step of the current operation. A step used twice would get the first reply twice.
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

    /// Makes an inode the current filehandle, and clears the current stateid.
    pub(crate) fn set_current(&mut self, inode: &Inode, via: Via) {
        self.current = Some(Current { inode: inode.id, generation: inode.generation, via, stateid: None });
    }

    /// Returns the current filehandle.
    pub(crate) fn current(&self) -> Result<Current, Status> {
        self.current.ok_or(Status::NoFileHandle)
    }

    /// Returns the directory of the current filehandle's export.
    pub(crate) fn export(&self) -> Result<InodeId, Status> {
        match self.current()?.via {
            Via::Export(export) => Ok(export),
            Via::Pseudo => Err(Status::RoFs),
        }
    }

    /// Returns the saved filehandle, which must be of the same export as the current one: each export has its
    /// own rules, and is a separate file system for clients.
    pub(crate) fn saved_in_same_export(&self) -> Result<Current, Status> {
        let saved = self.saved.ok_or(Status::NoFileHandle)?;
        if saved.via == self.current()?.via { Ok(saved) } else { Err(Status::XDev) }
    }

    /// Sets the current stateid, after a state was made or changed.
    pub(crate) fn set_stateid(&mut self, stateid: nfs4::Stateid) {
        if let Some(current) = &mut self.current {
            current.stateid = Some(stateid);
        }
    }

    /// Replaces the special "current" stateid by the stateid that it stands for.
    pub(crate) fn resolve(&self, stateid: nfs4::Stateid) -> Result<nfs4::Stateid, Status> {
        if stateid != nfs4::Stateid::CURRENT {
            return Ok(stateid);
        }
        self.current.and_then(|c| c.stateid).ok_or(Status::BadStateid)
    }
}

/// Returns the client of the session, for operations with state.
pub(crate) fn client(context: &Context) -> Result<ClientId, Status> {
    context.session.as_ref().map(|s| ClientId(s.client())).ok_or(Status::OpNotInSession)
}

impl Metaserver {
    /// Makes the only change of an operation: see [`Metaserver::change_step`].
    pub(crate) async fn change(
        &self,
        context: &mut Context,
        prepare: impl FnOnce(&dyn View) -> Result<Command, Status> + Send,
    ) -> Result<Reply, Status> {
        self.change_step(context, Step::Change, prepare).await
    }

    /// Makes one change. A retry gets the recorded reply; otherwise the change is checked and proposed.
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

    /// True if the state machine has recorded the answer `Delay` to this step: then the next try must be
    /// another step. A step that never came to the state machine would be done in a retry of the compound.
    pub(crate) fn was_put_off(&self, context: &Context, step: Step) -> Result<bool, FileError> {
        let Some(request) = request(context.position, step) else { return Ok(true) };
        let recorded = read::recorded(&*self.machine.view()?, &request)?;
        Ok(recorded == Some(Reply::Refused(namespace::Error::Delay)))
    }
}
