//! OPEN (RFC 8881, section 18.16): claims NULL and FH, and claims of opens under a delegation; creation in
//! every mode. The reply grants a delegation where it is useful.

mod brief;

use namespace::{
    ClientId, Command, Create, Exists, Inode, InodeId, Kind, NewNode, Open, OpenTarget, Reply, Share, State,
    read,
};
use store::View;
use wire::nfs4::open::{
    Args, Claim, CreateHow, Delegation, OpenHow, RESULT_LOCKTYPE_POSIX, RESULT_MAY_NOTIFY_LOCK,
    RESULT_NO_OPEN_STATEID, RESULT_PRESERVE_UNLINKED, ReadDelegation, ResOk, SHARE_ACCESS_READ,
    WANT_ANY_DELEG, WANT_CANCEL, WANT_NO_DELEG, WANT_NO_PREFERENCE, WANT_READ_DELEG, WANT_WRITE_DELEG,
    WhyNone, WhyOther, WriteDelegation,
};
use wire::nfs4::{self, Ace, Bitmap, ChangeInfo, Fattr, Status, attr};

use crate::Metaserver;
use crate::attributes::idmap::Idmap;
use crate::attributes::nfs4::{Wanted, settable_of};
use crate::compound::{Context, Step, change_info, client, stateid, wire_stateid};
use crate::data::hold::unheld;
use crate::errors::store_failed;
use crate::files::make;
use crate::names;
use crate::nfs4::check_sequence;
use crate::state::recall::{Holders, TRUNCATION_TRIES_MAX};
use crate::state::write_delegations::SPACE_LIMIT;
use crate::user::{Permission, User};

/// Attributes that an OPEN with creation sets on an existing file: only a size of 0.
const TRUNCATION: Bitmap = Bitmap::of(&[attr::SIZE]);

/// Share access of an OPEN, without the wanted delegation.
pub(super) fn access_share(bits: u32) -> Result<Share, Status> {
    match bits & 0xff {
        bits @ 1..=3 => Ok(Share(bits as u8)),
        _ => Err(Status::Inval),
    }
}

/// Share deny of an OPEN.
pub(super) fn deny_share(bits: u32) -> Result<Share, Status> {
    match bits {
        0..=3 => Ok(Share(bits as u8)),
        _ => Err(Status::Inval),
    }
}

pub(crate) async fn open(server: &Metaserver, context: &mut Context, args: Args) -> Result<ResOk, Status> {
    let (client, access) = (client(context)?, access_share(args.share_access)?);
    let opener = Opener {
        server,
        user: server.caller(context)?,
        client,
        owner: args.owner.owner.0.to_vec(),
        access,
        deny: deny_share(args.share_deny)?,
        delegate: wants_delegation(server, context, &args),
        or_delegate: args.wants_no_open(),
        wants_none: matches!(args.want(), WANT_NO_PREFERENCE | WANT_NO_DELEG | WANT_CANCEL),
        under: None,
    };
    let current = context.state.current()?;
    if !matches!(args.claim, Claim::Previous(_)) {
        check_reclaimed(server, client)?;
    }
    let want = args.want();
    let file = existing(server, current.inode, &args)?;
    if file.is_some() {
        // Else it would get no other one.
        server.state.returns_ended(client, file).await;
    }
    let whole = check_whole(server, file, &args).await?;
    let is_known = matches!((&args.claim, &args.openhow), (Claim::Null(_) | Claim::Fh, OpenHow::NoCreate));
    let _opening = match opener.may_be_brief() && is_known {
        true => None, // until it needs a record
        false => brief::begins(server, client, &opener.owner, file).await,
    };
    let (reply, attrset) = match (args.claim, args.openhow) {
        (Claim::Null(name), OpenHow::NoCreate) => {
            let name = names::checked(&name)?;
            let prepare = |view: &dyn View| opener.by_name(view, current.inode, name.clone());
            (opener.open_known(context, file, prepare).await?, Bitmap::EMPTY)
        }
        (Claim::Null(name), OpenHow::Create(how)) => {
            let name = names::checked(&name)?;
            let how = How::new(how, &server.attributes.idmap())?;
            let attrset = how.attrset;
            let node = opener.placed(current.inode, &name).await?;
            (opener.create_or_truncate(context, current.inode, name, node, how).await?, attrset)
        }
        (Claim::Fh, OpenHow::NoCreate) => {
            let prepare = |view: &dyn View| opener.by_inode(view, current.inode);
            (opener.open_known(context, file, prepare).await?, Bitmap::EMPTY)
        }
        // An open that the client did under its delegation, before the return of the delegation.
        (Claim::DelegateCur(cur), OpenHow::NoCreate) => {
            let name = names::checked(&cur.file)?;
            let under = Some(stateid(&cur.delegate_stateid)?);
            let opener = Opener { delegate: false, under, ..opener };
            let prepare = move |view: &dyn View| opener.by_name(view, current.inode, name);
            (server.change(context, prepare).await?, Bitmap::EMPTY)
        }
        (Claim::DelegCurFh(delegation), OpenHow::NoCreate) => {
            let opener = Opener { delegate: false, under: Some(stateid(&delegation)?), ..opener };
            let prepare = move |view: &dyn View| opener.by_inode(view, current.inode);
            (server.change(context, prepare).await?, Bitmap::EMPTY)
        }
        (Claim::Fh | Claim::DelegateCur(_) | Claim::DelegCurFh(_), OpenHow::Create(_)) => {
            return Err(Status::Inval);
        }
        // State survives restarts, so there is no grace period for reclaims.
        (Claim::Previous(_), _) => return Err(Status::NoGrace),
        // A restarted client has no delegations to reclaim (section 10.2.1).
        (Claim::DelegatePrev(_) | Claim::DelegPrevFh, _) => return Err(Status::NotSupp),
    };
    let Reply::Opened { stateid, inode, created, dir, deferred, delegation } = reply else {
        return Err(Status::ServerFault);
    };
    // The file is open, and empty, even if its objects are not truncated yet: reads and writes of them wait
    // for the truncation.
    if let Err(status) = unheld(server.data.finish_deferred(deferred)).await {
        tracing::debug!(?status, "a file that was opened is truncated later");
    }
    let via = context.state.current()?.via;
    context.state.set_current(&inode, via);
    // GETATTR of this compound need not ask again.
    context.state.observed = whole.filter(|asked| *asked == inode.id && !created);
    let has_open = delegation != Some(stateid);
    let stateid = wire_stateid(stateid);
    context.state.set_stateid(stateid);
    // Also while the client has no back channel: see `lock_waiters`.
    let rflags = RESULT_LOCKTYPE_POSIX | RESULT_PRESERVE_UNLINKED | RESULT_MAY_NOTIFY_LOCK;
    Ok(ResOk {
        stateid: if has_open { stateid } else { nfs4::Stateid::ANONYMOUS },
        cinfo: dir.map_or(ChangeInfo { atomic: true, before: 0, after: 0 }, change_info),
        rflags: if has_open { rflags } else { rflags | RESULT_NO_OPEN_STATEID },
        attrset: if created { attrset } else { attrset.intersection(&TRUNCATION) },
        delegation: match delegation {
            Some(stateid) => delegation_of(access, wire_stateid(stateid)),
            None => why_none(want),
        },
    })
}

/// The file that an OPEN names, if it exists.
fn existing(server: &Metaserver, current: InodeId, args: &Args) -> Result<Option<InodeId>, Status> {
    let name = match &args.claim {
        Claim::Null(name) => name,
        Claim::DelegateCur(cur) => &cur.file,
        _ => return Ok(Some(current)),
    };
    let name = names::checked(name)?;
    Ok(read::lookup(&*server.machine.view()?, current, &name).map_err(store_failed)?)
}

/// Checks that the data of an existing file are within reach, as far as its metaserver must ask: see
/// [`Data::check_whole`](crate::data::Data::check_whole). Returns the file if its data servers have answered.
async fn check_whole(
    server: &Metaserver,
    file: Option<InodeId>,
    args: &Args,
) -> Result<Option<InodeId>, Status> {
    let inode = match (file, &args.claim, &args.openhow) {
        (
            Some(file),
            Claim::Null(_) | Claim::Fh,
            OpenHow::NoCreate | OpenHow::Create(CreateHow::Unchecked(_)),
        ) => server.machine.inode(&*server.machine.view()?, file)?,
        // A new file, or one that its client has opened before under its delegation.
        _ => return Ok(None),
    };
    let truncates =
        matches!(&args.openhow, OpenHow::Create(CreateHow::Unchecked(attrs)) if attrs.size == Some(0));
    let id = inode.id;
    if truncates || !server.data.is_unsettled(&*server.machine.view()?, &inode)? {
        return Ok(None);
    }
    Ok(server.data.check_whole(inode).await?.then_some(id))
}

/// Checks that the client has sent RECLAIM_COMPLETE, before any new open (RFC 8881, section 18.51.3).
fn check_reclaimed(server: &Metaserver, client: ClientId) -> Result<(), Status> {
    let view = server.machine.view()?;
    let client = read::client(&*view, client).map_err(store_failed)?.ok_or(Status::StaleClientid)?;
    if client.reclaim_complete { Ok(()) } else { Err(Status::Grace) }
}

/// True if a delegation is useful: the client wants one or leaves the choice to the server, and has a back channel. To write,
/// it must not share its files with others, and there must be space for what it writes later.
fn wants_delegation(server: &Metaserver, context: &Context, args: &Args) -> bool {
    let Some(session) = &context.session else { return false };
    let wanted = match args.access() {
        SHARE_ACCESS_READ => WANT_READ_DELEG,
        _ => WANT_WRITE_DELEG,
    };
    let wants = [WANT_NO_PREFERENCE, WANT_ANY_DELEG, wanted].contains(&args.want());
    if !wants || session.back.is_down() || session.back.is_broken() {
        return false;
    }
    if wanted == WANT_READ_DELEG {
        return true;
    }
    let (client, now) = (ClientId(session.client()), server.machine.clock.monotonic());
    server.cluster.settings().write_delegations
        && !server.state.sharing.is_recent(client, now)
        && server.machine.replica.has_capacity()
}

/// The delegation that a client got with an OPEN of this access.
fn delegation_of(access: Share, stateid: nfs4::Stateid) -> Delegation {
    // An empty permission entry: every user needs an ACCESS call, since the server checks the mode bits.
    let permissions = Ace { kind: 0, flag: 0, access_mask: 0, who: bytes::Bytes::new() };
    let recall = false;
    match access {
        Share::READ => Delegation::Read(ReadDelegation { stateid, recall, permissions }),
        _ => Delegation::Write(WriteDelegation { stateid, recall, space_limit: SPACE_LIMIT, permissions }),
    }
}

/// Reason for no delegation, for a client that wanted one (RFC 8881, section 18.16.3).
fn why_none(want: u32) -> Delegation {
    match want {
        WANT_NO_PREFERENCE => Delegation::None,
        WANT_NO_DELEG => Delegation::NoneExt(WhyNone::Other(WhyOther::NotWanted)),
        WANT_CANCEL => Delegation::NoneExt(WhyNone::Other(WhyOther::Cancelled)),
        WANT_WRITE_DELEG => Delegation::NoneExt(WhyNone::Resource { will_signal: false }),
        _ => Delegation::NoneExt(WhyNone::Contention { will_push: false }),
    }
}

/// Mode of creation of an OPEN.
#[derive(Clone, Copy)]
struct How {
    exists: Exists,
    wanted: Wanted,
    /// True if an existing file is truncated to size 0.
    truncate: bool,
    /// Attributes of the client's list that a new file gets.
    attrset: Bitmap,
}

impl How {
    fn new(how: CreateHow, idmap: &Idmap) -> Result<Self, Status> {
        let with = |exists, attrs: &Fattr| {
            let mut attrset = settable_of(attrs);
            if attrs.size != Some(0) {
                // A new file is empty. The client sets any other size itself, when it sees that the size was
                // not set.
                attrset.clear(attr::SIZE);
            }
            let truncate = exists == Exists::Take && attrs.size == Some(0);
            Ok(Self { exists, wanted: Wanted::for_new(attrs, idmap)?, truncate, attrset })
        };
        match how {
            CreateHow::Unchecked(attrs) => with(Exists::Take, &attrs),
            CreateHow::Guarded(attrs) => with(Exists::Refuse, &attrs),
            CreateHow::Exclusive(verifier) => with(Exists::Verify(verifier), &Fattr::default()),
            CreateHow::Exclusive41(exclusive) => with(Exists::Verify(exclusive.verifier), &exclusive.attrs),
        }
    }
}

/// User, client and access of an OPEN.
struct Opener<'a> {
    server: &'a Metaserver,
    user: User,
    client: ClientId,
    owner: Vec<u8>,
    access: Share,
    deny: Share,
    /// True if a delegation is useful to the client.
    delegate: bool,
    /// True if a delegation may take the place of the open.
    or_delegate: bool,
    /// True if the client asks for no delegation in particular.
    wants_none: bool,
    /// Delegation under which the client did the open.
    under: Option<namespace::Stateid>,
}

impl Opener<'_> {
    /// Returns the command; `file`: the existing file, if any.
    fn command(&self, target: OpenTarget, file: Option<InodeId>) -> Command {
        let Self { client, access, deny, .. } = *self;
        let owner = self.owner.clone();
        let now = self.server.machine.clock.monotonic();
        let contended = |inode| self.server.state.delegations.is_contended(inode, now);
        let delegate = self.delegate && !file.is_some_and(contended);
        let open = Open { client, owner, target, access, deny, delegate, export: self.user.export };
        if delegate && self.or_delegate { Command::OpenOrDelegate(open) } else { Command::Open(open) }
    }

    /// Checks that the delegation of the open is a delegation of this file.
    fn check_delegation(&self, view: &dyn View, inode: InodeId) -> Result<(), Status> {
        let Some(given) = self.under else { return Ok(()) };
        match read::state(view, given.id).map_err(store_failed)? {
            Some(State::Delegation(delegation))
                if delegation.client == self.client && delegation.inode == inode =>
            {
                if delegation.is_revoked() {
                    return Err(Status::DelegRevoked);
                }
                check_sequence(given.sequence, delegation.stateid.sequence)
            }
            _ => Err(Status::BadStateid),
        }
    }

    fn check_file(&self, inode: &Inode) -> Result<(), Status> {
        match inode.kind {
            Kind::File(_) => {}
            Kind::Directory(_) => return Err(Status::IsDir),
            Kind::Symlink(_) => return Err(Status::Symlink),
            _ => return Err(Status::WrongType),
        }
        // A client opens a file for reading to execute it, and checks read permission with ACCESS.
        let readable = self.user.may(inode, Permission::READ) || self.user.may(inode, Permission::EXECUTE);
        if self.access.contains(Share::READ) && !readable {
            return Err(Status::Access);
        }
        // A deny of all reads needs more than read permission.
        if self.access.contains(Share::WRITE) || self.deny.contains(Share::READ) {
            self.user.check(inode, Permission::WRITE)?;
        }
        Ok(())
    }

    fn dir(&self, view: &dyn View, dir: InodeId) -> Result<Inode, Status> {
        let dir = self.server.machine.inode(view, dir)?;
        match dir.kind {
            Kind::Directory(_) => Ok(dir),
            Kind::Symlink(_) => Err(Status::Symlink),
            _ => Err(Status::NotDir),
        }
    }

    fn by_inode(&self, view: &dyn View, inode: InodeId) -> Result<Command, Status> {
        self.check_delegation(view, inode)?;
        self.check_file(&self.server.machine.inode(view, inode)?)?;
        Ok(self.command(OpenTarget::Inode(inode), Some(inode)))
    }

    fn by_name(&self, view: &dyn View, dir: InodeId, name: Vec<u8>) -> Result<Command, Status> {
        self.user.check(&self.dir(view, dir)?, Permission::EXECUTE)?;
        let found = read::lookup(view, dir, &name).map_err(store_failed)?.ok_or(Status::NoEnt)?;
        self.check_delegation(view, found)?;
        self.check_file(&self.server.machine.inode(view, found)?)?;
        Ok(self.command(OpenTarget::Name { dir, name }, Some(found)))
    }

    /// Returns the node for a new file; none if the name exists, so that an existing file can be opened while
    /// no data server is available.
    async fn placed(&self, dir: InodeId, name: &[u8]) -> Result<Option<NewNode>, Status> {
        let exists = {
            let view = self.server.machine.view()?;
            read::lookup(&*view, dir, name).map_err(store_failed)?.is_some()
        };
        if exists { Ok(None) } else { Ok(Some(self.server.data.place(dir).await?)) }
    }

    /// Creates a file, or opens and possibly truncates the existing one. A truncation waits until no other
    /// client has a layout of the file.
    async fn create_or_truncate(
        self,
        context: &mut Context,
        dir: InodeId,
        name: Vec<u8>,
        node: Option<NewNode>,
        how: How,
    ) -> Result<Reply, Status> {
        if how.truncate {
            let view = self.server.machine.view()?;
            let found = read::lookup(&*view, dir, &name).map_err(store_failed)?;
            let inode = found.map(|found| self.server.machine.inode(&*view, found)).transpose()?;
            drop(view);
            if let Some(inode) = inode {
                self.server.data.leave_lost_targets(&inode).await?;
            }
        }
        for step in (0..TRUNCATION_TRIES_MAX).map(Step::Truncate) {
            let prepare = |view: &dyn View| self.create(view, dir, name.clone(), node.clone(), how);
            match self.server.change_step(context, step, prepare).await {
                Err(Status::Delay) if how.truncate && self.server.was_put_off(context, step)? => {
                    let view = self.server.machine.view()?;
                    let found = read::lookup(&*view, dir, &name).map_err(store_failed)?;
                    let inode = self.server.machine.inode(&*view, found.ok_or(Status::Delay)?)?;
                    drop(view);
                    self.server.data.before_truncation(&inode, Holders::AllBut(self.client)).await?;
                }
                outcome => return outcome,
            }
        }
        Err(Status::Delay)
    }

    fn create(
        &self,
        view: &dyn View,
        dir: InodeId,
        name: Vec<u8>,
        node: Option<NewNode>,
        how: How,
    ) -> Result<Command, Status> {
        let parent = self.dir(view, dir)?;
        let known = read::lookup(view, dir, &name).map_err(store_failed)?;
        let node = match known {
            Some(found) => {
                let inode = self.server.machine.inode(view, found)?;
                self.user.check(&parent, Permission::EXECUTE)?;
                match (how.exists, &inode.kind) {
                    (Exists::Refuse, _) => return Err(Status::Exist),
                    (Exists::Take, _) => self.check_file(&inode)?,
                    (Exists::Verify(_), _) => {}
                }
                if how.truncate {
                    self.user.check(&inode, Permission::WRITE)?;
                }
                match inode.kind {
                    Kind::File(file) => NewNode::File(file.layout),
                    _ => return Err(Status::Exist),
                }
            }
            None => {
                self.user.check(&parent, Permission::WRITE_AND_SEARCH)?;
                // The file was removed after the lookup: the client tries again.
                node.ok_or(Status::Delay)?
            }
        };
        let attributes = make::attributes(&self.user, &parent, &node, &how.wanted.asked())?;
        let create = Create { dir, name, node, attributes, exists: how.exists };
        Ok(self.command(OpenTarget::Create { create, truncate: how.truncate }, known))
    }
}
