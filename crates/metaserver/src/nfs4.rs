//! NFSv4.1 and 4.2 as a program: dispatch of operations to their files, and shared checks.

use std::ops::ControlFlow;
use std::sync::Arc;

use namespace::{ClientId, DataPlace, Inode, InodeId, Kind, Share, State, StateId, read};
use nfs::{Metrics, Nfs4, Session};
use store::View;
use wire::nfs4::lock::Locker;
use wire::nfs4::{self, ArgOp, ResOp, SessionId, Status, sequence};

use crate::compound::{Compound, Context, Current, client, stateid};
use crate::consistency::may_be_lazy;
use crate::data::hold::held;
use crate::errors::store_failed;
use crate::exports::admission::{Via, is_for_everybody};
use crate::user::User;
use crate::{Metaserver, files, ops};

impl Metaserver {
    /// Returns the inode of the current filehandle.
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

    /// Returns the inode of the current filehandle, which must be a directory.
    pub(crate) fn current_dir(&self, view: &dyn View, context: &Context) -> Result<Inode, Status> {
        let inode = self.current(view, context)?;
        match inode.kind {
            Kind::Directory(_) => Ok(inode),
            Kind::Symlink(_) => Err(Status::Symlink),
            _ => Err(Status::NotDir),
        }
    }

    /// Returns the inode of the current filehandle, which must be a regular file.
    pub(crate) fn current_file(&self, view: &dyn View, context: &Context) -> Result<Inode, Status> {
        let inode = self.current(view, context)?;
        match inode.kind {
            Kind::File(_) => Ok(inode),
            Kind::Directory(_) => Err(Status::IsDir),
            Kind::Symlink(_) => Err(Status::Symlink),
            _ => Err(Status::WrongType),
        }
    }

    /// Returns the user of the call.
    pub(crate) fn caller(&self, context: &Context) -> Result<User, Status> {
        match context.state.current()?.via {
            Via::Export(export) => {
                Ok(self.admission.user(&context.connection, &context.credential, export)?)
            }
            Via::Pseudo => Ok(User::of_pseudo()),
        }
    }

    /// Checks that the current directory is in its export: see [`Admission::check_inside`].
    fn check_current_inside(&self, context: &Context, op: &ArgOp) -> Result<(), Status> {
        let Some(Current { inode, via: Via::Export(export), .. }) = context.state.current else {
            return Ok(());
        };
        if export == InodeId::ROOT || is_for_everybody(op) {
            return Ok(()); // the usual case
        }
        let view = self.machine.view()?;
        match read::inode(&*view, inode).map_err(store_failed)? {
            Some(dir) if dir.directory().is_some() => {
                Ok(self.admission.check_inside(&*view, export, &dir)?)
            }
            _ => Ok(()),
        }
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
            let user = self.caller(context)?;
            let bypasses = given == nfs4::Stateid::BYPASS && wanted == Share::READ;
            return match bypasses {
                true => Ok(user.check_read(inode)?),
                false => Ok(files::check_access(self, view, &user, inode, wanted)?),
            };
        }
        let given = stateid(&given)?;
        let state = self.state_of(view, given.id)?;
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
            State::Delegation(delegation) if delegation.is_revoked() => return Err(Status::DelegRevoked),
            // For opens that the client did under it.
            State::Delegation(delegation) if wanted == Share::READ || delegation.writes() => return Ok(()),
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

impl Metaserver {
    /// Returns the state with this id: a brief open, too.
    pub(crate) fn state_of(&self, view: &dyn View, id: StateId) -> Result<State, Status> {
        if self.state.returns.has(id) {
            return Err(Status::BadStateid);
        }
        if let Some(brief) = self.state.brief_opens.get(id) {
            return Ok(State::Open(brief));
        }
        if let Some(state) = read::state(view, id).map_err(store_failed)? {
            return Ok(state);
        }
        // A brief open may have been written since the view was taken.
        let later = self.machine.view()?;
        read::state(&*later, id).map_err(store_failed)?.ok_or(Status::BadStateid)
    }

    /// Looks after the brief opens that an operation names: they are written to the state machine if it needs their record
    /// there, and by the leader if they are in its memory.
    async fn find_brief_opens(&self, cx: &Context, op: &ArgOp) -> Result<(), Status> {
        let mut elsewhere = vec![];
        for given in opens_of(op) {
            let is_current = given == nfs4::Stateid::CURRENT;
            let Ok(given) = cx.state.resolve(given).and_then(|given| stateid(&given)) else { continue };
            if !given.id.is_brief() {
                continue; // the usual case
            }
            let view = self.machine.view()?;
            match self.state.brief_opens.get(given.id) {
                Some(open) if Some(open.client.0) != cx.session.as_ref().map(|session| session.client()) => {}
                Some(open) if needs_record(&*view, op, open.inode)? => {
                    self.state.write_opens(vec![given.id]).await;
                }
                // Not by the compound of its OPEN, whose answer is still to be sent.
                Some(_) if is_current => {}
                Some(_) => self.state.brief_opens.note_use(given.id),
                None if self.machine.replica.leads() => {}
                None if read::state(&*view, given.id).map_err(store_failed)?.is_some() => {}
                None => elsewhere.push(given.id),
            }
        }
        Ok(self.state.write_elsewhere(elsewhere).await?)
    }
}

/// Stateids of an operation that may be of opens for reading.
fn opens_of(op: &ArgOp) -> Vec<nfs4::Stateid> {
    match op {
        ArgOp::Read(args) => vec![args.stateid],
        ArgOp::ReadPlus(args) => vec![args.stateid],
        ArgOp::Seek(args) => vec![args.stateid],
        ArgOp::Write(args) => vec![args.stateid],
        ArgOp::SetAttr(args) => vec![args.stateid],
        ArgOp::Copy(args) => vec![args.src_stateid],
        ArgOp::Clone(args) => vec![args.src_stateid],
        ArgOp::Close(args) => vec![args.open_stateid],
        ArgOp::OpenDowngrade(args) => vec![args.open_stateid],
        ArgOp::FreeStateid(args) => vec![args.stateid],
        ArgOp::TestStateid(args) => args.stateids.clone(),
        ArgOp::LayoutGet(args) => vec![args.stateid],
        ArgOp::Lock(args) => match &args.locker {
            Locker::New(new) => vec![new.open_stateid],
            Locker::Existing(_) => vec![],
        },
        _ => vec![],
    }
}

/// True if an operation needs the record of its open.
fn needs_record(view: &dyn View, op: &ArgOp, file: InodeId) -> Result<bool, Status> {
    match op {
        ArgOp::Lock(_) | ArgOp::OpenDowngrade(_) | ArgOp::FreeStateid(_) => Ok(true),
        // With its OPEN the client asks for a layout of any file, and gets none of a small one.
        ArgOp::LayoutGet(args) if args.stateid == nfs4::Stateid::CURRENT => {
            let file = read::inode(view, file).map_err(store_failed)?;
            Ok(file.is_none_or(|file| file.data() != Some(DataPlace::Inline)))
        }
        ArgOp::LayoutGet(_) => Ok(true),
        _ => Ok(false),
    }
}

/// Checks that a state belongs to the current filehandle (RFC 8881, section 8.2.4).
pub(crate) fn check_file_of(view: &dyn View, state: StateId, file: InodeId) -> Result<(), Status> {
    match read::state(view, state).map_err(store_failed)? {
        Some(state) if state.inode() != file => Err(Status::BadStateid),
        // The command checks everything else.
        _ => Ok(()),
    }
}

/// Checks the sequence of a stateid against the current one; sequences wrap (RFC 8881, section 8.2.2).
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
        // Another metaserver may have just made the session.
        self.machine.read_barrier().await.ok()?;
        self.state.find_session(id)
    }

    fn knows(&self, id: SessionId) -> bool {
        self.state.find_session(namespace::SessionId(id.0)).is_some()
    }

    fn serves_alone(&self) -> bool {
        self.machine.replica.has_always_been_alone()
    }

    fn is_out_of_service(&self) -> bool {
        self.machine.replica.is_out_of_service()
    }

    async fn sequenced(&self, session: &Session, context: &mut Context) -> Result<u32, Status> {
        // One barrier for all operations of the compound: their reads are then as new as the compound.
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
        if context.session.is_none() {
            return self.carry_out(context, op).await;
        }
        let make = || self.data.hold(&context.connection, context.session.as_ref());
        let hold = Arc::clone(context.state.hold.get_or_insert_with(make));
        held(hold, self.carry_out(context, op)).await
    }

    fn metrics(&self) -> &Metrics {
        &self.metrics
    }
}

impl Metaserver {
    /// Carries out one operation of a compound.
    async fn carry_out(&self, cx: &mut Context, op: ArgOp) -> ResOp {
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
            return op.refused(status);
        }
        if let Err(status) = self.find_brief_opens(cx, &op).await {
            return op.refused(status);
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
            ArgOp::LockT(args) => ResOp::LockT(ops::lockt::lockt(self, cx, args).await),
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
            ArgOp::DestroyClientid(args) => {
                ResOp::DestroyClientid(ops::destroy::client(self, cx, args).await)
            }
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
            // The first SEQUENCE was processed with the compound; a second one is an error.
            ArgOp::Sequence(_) => ResOp::Sequence(Err(Status::SequencePos)),
            ArgOp::Illegal(_) => ResOp::Illegal,
            // A known operation without an implementation: never OP_ILLEGAL, which probing clients take for a
            // broken server.
            ArgOp::Unsupported(number) => ResOp::refused(number, Status::NotSupp),
        }
    }
}
