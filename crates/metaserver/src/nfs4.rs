//! NFSv4.1 and 4.2: what the operations of one compound share, and which file answers which operation.

use std::ops::ControlFlow;
use std::sync::Arc;

use namespace::{
    ClientId, Command, CompoundRequest, Inode, InodeId, Kind, Reply, RequestId, Share, State, StateId, read,
};
use nfs::{CompoundContext, Metrics, Nfs4, Position, Session};
use store::View;
use wire::nfs4::{self, ArgOp, ResOp, SessionId, Status, sequence};

use crate::consistency::may_be_lazy;
use crate::errors::{FileError, store_failed};
use crate::exports::admission::{Via, is_for_everybody};
use crate::user::User;
use crate::{Metaserver, ops};

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
    has_read_barrier: bool,
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
    fn use_step(&mut self, position: Option<Position>, step: Step) -> Result<(), Status> {
        let Some(Position { operation, .. }) = position else { return Ok(()) };
        let used = if self.steps.0 == operation { self.steps.1 } else { 0 };
        let bit = 1_u16 << step.index();
        if used & bit != 0 {
            debug_assert!(false, "operation {operation} uses {step:?} twice");
            tracing::error!(operation, ?step, "an operation used a step twice; its change was not made");
            return Err(Status::ServerFault);
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
    /// The inode of the current filehandle.
    pub(crate) fn current(&self, view: &dyn View, context: &Context) -> Result<Inode, Status> {
        let current = context.state.current()?;
        let inode = self.machine.inode(view, current.inode)?;
        if inode.generation != current.generation {
            return Err(Status::Stale);
        }
        match current.via {
            Via::Export(_) => Ok(inode),
            Via::Pseudo => Ok(self.pseudo_tree(view, &context.connection)?.directory(self, &inode)?),
        }
    }

    /// The inode of the current filehandle, which must be a directory.
    pub(crate) fn current_dir(&self, view: &dyn View, context: &Context) -> Result<Inode, Status> {
        let inode = self.current(view, context)?;
        match inode.kind {
            Kind::Directory(_) => Ok(inode),
            Kind::Symlink(_) => Err(Status::Symlink),
            _ => Err(Status::NotDir),
        }
    }

    /// The inode of the current filehandle, which must be a regular file.
    pub(crate) fn current_file(&self, view: &dyn View, context: &Context) -> Result<Inode, Status> {
        let inode = self.current(view, context)?;
        match inode.kind {
            Kind::File(_) => Ok(inode),
            Kind::Directory(_) => Err(Status::IsDir),
            Kind::Symlink(_) => Err(Status::Symlink),
            _ => Err(Status::WrongType),
        }
    }

    /// The caller.
    pub(crate) fn caller(&self, context: &Context) -> Result<User, Status> {
        match context.state.current()?.via {
            Via::Export(export) => {
                Ok(self.admission.user(&context.connection, &context.credential, export)?)
            }
            Via::Pseudo => Ok(User::of_pseudo()),
        }
    }

    /// Whether the current directory is in its export: see [`Admission::check_inside`].
    fn check_current_inside(&self, context: &Context, op: &ArgOp) -> Result<(), Status> {
        let Some(Current { inode, via: Via::Export(export), .. }) = context.state.current else {
            return Ok(());
        };
        if export == InodeId::ROOT || is_for_everybody(op) {
            return Ok(()); // nearly always
        }
        let view = self.machine.view()?;
        match read::inode(&*view, inode).map_err(store_failed)? {
            Some(dir) if dir.directory().is_some() => {
                Ok(self.admission.check_inside(&*view, export, &dir)?)
            }
            _ => Ok(()),
        }
    }

    /// The one change of an operation: see [`Metaserver::change_step`].
    pub(crate) async fn change(
        &self,
        context: &mut Context,
        prepare: impl FnOnce(&dyn View) -> Result<Command, Status> + Send,
    ) -> Result<Reply, Status> {
        self.change_step(context, Step::Change, prepare).await
    }

    /// One change: the recorded reply if this is a repetition; else checked, proposed and carried out.
    pub(crate) async fn change_step(
        &self,
        context: &mut Context,
        step: Step,
        prepare: impl FnOnce(&dyn View) -> Result<Command, Status> + Send,
    ) -> Result<Reply, Status> {
        let request = request(context.position, step);
        context.state.observed = None;
        context.state.use_step(context.position, step)?;
        let command = {
            let view = self.machine.view()?;
            if let Some(request) = &request
                && let Some(reply) = read::recorded(&*view, request).map_err(store_failed)?
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
    pub(crate) fn was_put_off(&self, context: &Context, step: Step) -> Result<bool, Status> {
        let Some(request) = request(context.position, step) else { return Ok(true) };
        let recorded = read::recorded(&*self.machine.view()?, &request).map_err(store_failed)?;
        Ok(recorded == Some(Reply::Refused(namespace::Error::Delay)))
    }

    /// Checks that `stateid` allows `wanted` on `inode` (RFC 8881, section 8.2.4 and 9.1.2). Without an open,
    /// deny modes and permission bits decide.
    pub(crate) fn check_io(
        &self,
        view: &dyn View,
        context: &Context,
        given: nfs4::Stateid,
        inode: &Inode,
        wanted: Share,
    ) -> Result<(), Status> {
        if wanted.contains(Share::WRITE) {
            self.admission.check_writable(context)?;
        }
        let given = context.state.resolve(given)?;
        if given == nfs4::Stateid::ANONYMOUS || given == nfs4::Stateid::BYPASS {
            let bypass = given == nfs4::Stateid::BYPASS && wanted == Share::READ;
            if !bypass {
                self.state.check_share(view, inode.id, wanted)?;
            }
            let user = self.caller(context)?;
            let checked =
                if wanted == Share::READ { user.check_read(inode) } else { user.check_write(inode) };
            return Ok(checked?);
        }
        let given = stateid(&given)?;
        let state = read::state(view, given.id).map_err(store_failed)?.ok_or(Status::BadStateid)?;
        if state.client() != client(context)? || state.inode() != inode.id {
            return Err(Status::BadStateid);
        }
        check_sequence(given.sequence, state.stateid().sequence)?;
        let open = match state {
            State::Open(open) => open,
            State::Lock(lock) => match read::state(view, lock.open).map_err(store_failed)? {
                Some(State::Open(open)) => open,
                _ => return Err(Status::BadStateid),
            },
            State::Layout(_) => return Err(Status::BadStateid),
            State::Delegation(delegation) if delegation.revoked => return Err(Status::DelegRevoked),
            // For reading, in the place of the opens that the client did not ask us about.
            State::Delegation(_) if wanted == Share::READ => return Ok(()),
            State::Delegation(_) => return Err(Status::OpenMode),
        };
        // A file opened for writing only may be read: clients fill partly written pages (RFC 8881, section
        // 9.1.2).
        if open.access.contains(wanted) || wanted == Share::READ {
            return Ok(());
        }
        Err(Status::OpenMode)
    }
}

/// A state is named together with its file: the current filehandle must be that (RFC 8881, section 8.2.4).
pub(crate) fn check_file_of(view: &dyn View, state: StateId, file: InodeId) -> Result<(), Status> {
    match read::state(view, state).map_err(store_failed)? {
        Some(state) if state.inode() != file => Err(Status::BadStateid),
        // The command looks at everything else.
        _ => Ok(()),
    }
}

/// Whether the sequence of a stateid is the current one; they wrap (RFC 8881, section 8.2.2).
pub(crate) fn check_sequence(given: u32, now: u32) -> Result<(), Status> {
    match given.wrapping_sub(now) as i32 {
        0 => Ok(()),
        _ if given == 0 => Ok(()),
        ..0 => Err(Status::OldStateid),
        _ => Err(Status::BadStateid),
    }
}

impl Nfs4 for Metaserver {
    type State = Compound;

    async fn session(&self, id: SessionId) -> Option<Arc<Session>> {
        let id = namespace::SessionId(id.0);
        if let Some(session) = self.state.find_session(id) {
            return Some(session);
        }
        // Another metaserver may have made it a moment ago.
        self.machine.read_barrier().await.ok()?;
        self.state.find_session(id)
    }

    fn knows(&self, id: SessionId) -> bool {
        self.state.find_session(namespace::SessionId(id.0)).is_some()
    }

    fn serves_alone(&self) -> bool {
        self.machine.replica.is_alone()
    }

    fn is_out_of_service(&self) -> bool {
        self.machine.replica.is_out_of_service()
    }

    async fn sequenced(&self, session: &Session, context: &mut Context) -> Result<u32, Status> {
        // Once for all operations of the compound: what each reads is then as new as the compound.
        let arrived = self.machine.clock.monotonic();
        context.state.has_read_barrier =
            self.admission.barrier_before_compound(&context.connection, session.id()).await?;
        if !self.cluster.may_answer(&context.connection, arrived) {
            return Err(Status::Delay);
        }
        self.state.check_session(session)?;
        let client = ClientId(session.client());
        self.state.renew(client).await.map_err(|_| Status::BadSession)?;
        let revoked = self.state.delegations.has_revoked(client);
        let revoked = if revoked { sequence::RECALLABLE_STATE_REVOKED } else { 0 };
        if session.back.is_broken() {
            return Ok(revoked | sequence::BACKCHANNEL_FAULT);
        }
        if !session.back.is_down() {
            return Ok(revoked);
        }
        let others = self.state.sessions.of_client(client);
        let up = others.iter().any(|other| !other.back.is_down());
        Ok(revoked | if up { sequence::CB_PATH_DOWN_SESSION } else { sequence::CB_PATH_DOWN })
    }

    async fn operation(&self, context: &mut Context, op: ArgOp) -> ResOp {
        let cx = context;
        if let Err(status) = self.admission.admit(cx, &op) {
            self.admission.note_refused(&cx.connection, status, op.name().as_bytes());
            return op.refused(status.into());
        }
        if cx.session.is_some() && !cx.state.has_read_barrier && !may_be_lazy(&op) {
            if let Err(status) = self.machine.read_barrier().await {
                return op.refused(status.into());
            }
            cx.state.has_read_barrier = true;
        }
        let op = match self.in_pseudo_file_system(cx, op).await {
            ControlFlow::Continue(op) => op,
            ControlFlow::Break(answer) => return answer,
        };
        if let Err(status) = self.check_current_inside(cx, &op) {
            return op.refused(status.into());
        }
        match op {
            ArgOp::Access(args) => ResOp::Access(ops::access::access(self, cx, args)),
            ArgOp::Close(args) => ResOp::Close(ops::close::close(self, cx, args).await),
            ArgOp::Commit(args) => ResOp::Commit(ops::commit::commit(self, cx, args).await),
            ArgOp::Create(args) => ResOp::Create(ops::create::create(self, cx, args).await),
            ArgOp::GetAttr(args) => ResOp::GetAttr(ops::getattr::getattr(self, cx, args).await),
            ArgOp::GetFh => ResOp::GetFh(ops::filehandles::getfh(self, cx)),
            ArgOp::Link(args) => ResOp::Link(ops::link::link(self, cx, args).await),
            ArgOp::Lock(args) => ResOp::Lock(ops::lock::lock(self, cx, args).await),
            ArgOp::LockT(args) => ResOp::LockT(ops::lockt::lockt(self, cx, args)),
            ArgOp::LockU(args) => ResOp::LockU(ops::locku::locku(self, cx, args).await),
            ArgOp::Lookup(args) => ResOp::Lookup(ops::lookup::lookup(self, cx, &args)),
            ArgOp::LookupP => ResOp::LookupP(ops::lookup::lookupp(self, cx)),
            ArgOp::Verify(args) => ResOp::Verify(ops::verify::verify(self, cx, &args.obj_attributes).await),
            ArgOp::NVerify(args) => {
                ResOp::NVerify(ops::verify::nverify(self, cx, &args.obj_attributes).await)
            }
            ArgOp::Open(args) => ResOp::Open(ops::open::open(self, cx, args).await),
            ArgOp::OpenDowngrade(args) => {
                ResOp::OpenDowngrade(ops::open_downgrade::downgrade(self, cx, args).await)
            }
            ArgOp::PutFh(args) => ResOp::PutFh(ops::filehandles::putfh(self, cx, &args)),
            ArgOp::PutPubFh => ResOp::PutPubFh(ops::filehandles::putrootfh(self, cx)),
            ArgOp::PutRootFh => ResOp::PutRootFh(ops::filehandles::putrootfh(self, cx)),
            ArgOp::Read(args) => ResOp::Read(ops::read::read(self, cx, args).await),
            ArgOp::ReadDir(args) => ResOp::ReadDir(ops::readdir::readdir(self, cx, args).await),
            ArgOp::ReadLink => ResOp::ReadLink(ops::readlink::readlink(self, cx)),
            ArgOp::Remove(args) => ResOp::Remove(ops::remove::remove(self, cx, args).await),
            ArgOp::Rename(args) => ResOp::Rename(ops::rename::rename(self, cx, args).await),
            ArgOp::RestoreFh => ResOp::RestoreFh(ops::filehandles::restorefh(cx)),
            ArgOp::SaveFh => ResOp::SaveFh(ops::filehandles::savefh(cx)),
            ArgOp::SecInfo(args) => ResOp::SecInfo(ops::secinfo::secinfo(self, cx, &args)),
            ArgOp::SecInfoNoName(args) => ResOp::SecInfoNoName(ops::secinfo::secinfo_no_name(self, cx, args)),
            ArgOp::SetAttr(args) => ResOp::SetAttr(ops::setattr::setattr(self, cx, args).await),
            ArgOp::Write(args) => ResOp::Write(ops::write::write(self, cx, args).await),
            ArgOp::BackchannelCtl(args) => {
                ResOp::BackchannelCtl(ops::backchannel_ctl::control(self, cx, args).await)
            }
            ArgOp::BindConnToSession(args) => ResOp::BindConnToSession(ops::bind::bind(self, cx, args).await),
            ArgOp::ExchangeId(args) => ResOp::ExchangeId(ops::exchange_id::exchange_id(self, cx, args).await),
            ArgOp::CreateSession(args) => {
                ResOp::CreateSession(ops::create_session::create_session(self, cx, args).await)
            }
            ArgOp::DestroySession(args) => ResOp::DestroySession(ops::destroy::session(self, cx, args).await),
            ArgOp::DestroyClientid(args) => ResOp::DestroyClientid(ops::destroy::client(self, args).await),
            ArgOp::FreeStateid(args) => ResOp::FreeStateid(ops::stateids::free(self, cx, args).await),
            ArgOp::TestStateid(args) => ResOp::TestStateid(ops::stateids::test(self, cx, &args)),
            ArgOp::GetDeviceInfo(args) => ResOp::GetDeviceInfo(ops::getdeviceinfo::getdeviceinfo(self, args)),
            ArgOp::LayoutGet(args) => ResOp::LayoutGet(ops::layoutget::layoutget(self, cx, args).await),
            ArgOp::LayoutCommit(args) => {
                ResOp::LayoutCommit(ops::layoutcommit::layoutcommit(self, cx, args).await)
            }
            ArgOp::LayoutReturn(args) => {
                ResOp::LayoutReturn(ops::layoutreturn::layoutreturn(self, cx, args).await)
            }
            ArgOp::ReclaimComplete(args) => {
                ResOp::ReclaimComplete(ops::reclaim_complete::complete(self, cx, args).await)
            }
            ArgOp::Allocate(args) => ResOp::Allocate(ops::allocate::allocate(self, cx, args).await),
            ArgOp::Clone(args) => ResOp::Clone(ops::clone::clone(self, cx, args).await),
            ArgOp::Copy(args) => ResOp::Copy(ops::copy::copy(self, cx, args).await.map_err(Into::into)),
            ArgOp::Deallocate(args) => ResOp::Deallocate(ops::deallocate::deallocate(self, cx, args).await),
            ArgOp::IoAdvise(args) => ResOp::IoAdvise(ops::io_advise::io_advise(self, cx, args)),
            ArgOp::LayoutError(args) => ResOp::LayoutError(ops::layouterror::layouterror(self, cx, args)),
            ArgOp::LayoutStats(args) => ResOp::LayoutStats(ops::layoutstats::layoutstats(self, cx, args)),
            ArgOp::ReadPlus(args) => ResOp::ReadPlus(ops::read_plus::read_plus(self, cx, args).await),
            ArgOp::Seek(args) => ResOp::Seek(ops::seek::seek(self, cx, args).await),
            ArgOp::DelegReturn(args) => {
                ResOp::DelegReturn(ops::delegreturn::delegreturn(self, cx, args).await)
            }
            ArgOp::GetXattr(args) => ResOp::GetXattr(ops::getxattr::getxattr(self, cx, &args)),
            ArgOp::SetXattr(args) => ResOp::SetXattr(ops::setxattr::setxattr(self, cx, args).await),
            ArgOp::ListXattrs(args) => ResOp::ListXattrs(ops::listxattrs::listxattrs(self, cx, args)),
            ArgOp::RemoveXattr(args) => {
                ResOp::RemoveXattr(ops::removexattr::removexattr(self, cx, args).await)
            }
            // The compound has dealt with SEQUENCE; a second one is out of place.
            ArgOp::Sequence(_) => ResOp::Sequence(Err(Status::SequencePos)),
            ArgOp::Illegal(_) => ResOp::Illegal,
            // Known, and not carried out here: never OP_ILLEGAL, which clients that probe take for a broken
            // server.
            other => ResOp::refused(other.number(), Status::NotSupp),
        }
    }

    fn metrics(&self) -> &Metrics {
        &self.metrics
    }
}
