//! The state machine: one proposal in, one reply out, and the change in the store.
//!
//! ```text
//! Proposal ─▶ replay look-up ─ known ──▶ the stored Reply, no change
//!                  │ new
//!                  ▼
//!             plan of the command ── refused ──▶ Reply, no changes ─┐
//!                  │                                                ▼
//!                  └─────────────▶ Reply and changes ─▶ record of the Reply ─▶ commit
//! ```
//!
//! **Deterministic.** The effect of a proposal depends on the proposal and the store, and on nothing else: no
//! clock, no randomness, no hash order, no file (`clippy.toml` forbids their types). So every replica has the
//! same store after the same log, a log can be replayed after a crash, and a test can compare it with a
//! model. Time and random bits come in the [`Stamp`]; ids come from counters in the store.
//!
//! **Refusals change nothing.** A command has a view of the store and collects its changes in a plan
//! (`plan.rs`). Only a complete plan is committed, and a commit cannot refuse: the types ensure both. So no
//! command is ever half done, and there is no rollback. One answer is an exception: a request that conflicts
//! with many lapsed clients ends some of them, and is answered `Delay` (`conflicts.rs`).
//!
//! **Bounded.** A command changes at most [`crate::RECORDS_OF_COMMAND_MAX`] records, and those of its last
//! piece of work; all members do that at the same time, on the thread of consensus. The end of a client with
//! a million states is therefore many commands (`leftovers.rs`).
//!
//! **Exactly once.** A client that lost a reply, or whose metaserver died, sends its compound again with the
//! same session, slot and sequence (RFC 8881, section 2.10.6). Every command with a change carries these and
//! its index in the compound. The slot keeps the reply to each command, refusals too, until the slot's next
//! sequence. So a retry gets the first reply, at any metaserver: a repeated CREATE never conflicts with its
//! own file. A proposal with an older sequence than the slot's is late: no client waits for it, and it is not
//! applied. The records are bounded, and are removed with their session: see `slot.rs`. NFSv3 has no
//! sessions: its calls are identified by client, xid and arguments (`calls.rs`). A metaserver's own commands
//! have a session of the process (`servers.rs`).
//!
//! **Never another file.** A command names inodes by number, and carries the generation of each, as known to
//! the proposing metaserver. If a replica has another generation, the number is another inode there, and the
//! answer is `Stale` (`generations.rs`).
//!
//! **Cost.** A create is seven gets (session before and after, slot, directory twice, name, counters) and six
//! puts (inode, name, cookie, directory, counters, slot). No operation's cost grows with a directory. The
//! cost of an OPEN does not grow with the opens of the file unless one of them denies access (see `Use`), and
//! then up to a bound. The cost of a LOCK does not grow with the locks on its file.

use store::{Edit, StoreError, View};

use crate::clones::{self, promotion};
use crate::files::{
    create, epoch, inline, link, relocate, remove, rename, set_attributes, space_used, unsettled, xattr,
};
use crate::plan::{Broken, Changes, Plan, Stop};
use crate::record::{Counters, encode};
use crate::slot::{self, Replay};
use crate::snapshot::{Snapshots, history, objects, rollback};
use crate::states::layout_state::{self, Asking};
use crate::states::{client, delegation, leftovers, lock, open, session};
use crate::volume::{quota, removal};
use crate::{
    Command, Directory, Error, FIRST_COOKIE, Incarnation, Inode, InodeId, Kind, Proposal, Reply, RequestId,
    Stamp, StateCounts, Time, Volume, VolumeId, calls, chain, cluster, cluster_map, deferred, keys, read,
    servers, snapshot, volume,
};

/// Reason why a proposal has no reply.
#[derive(Debug)]
pub enum ApplyError {
    /// The store failed: the whole batch must be dropped.
    Failed(StoreError),
    /// The store contradicts itself, on every replica, by a fault of this program; has the reason.
    /// [`plan_fault`] answers the proposal.
    Broken(&'static str),
}

impl From<StoreError> for ApplyError {
    fn from(error: StoreError) -> Self {
        ApplyError::Failed(error)
    }
}

/// Conversion for a caller that stops in both cases.
impl From<ApplyError> for StoreError {
    fn from(error: ApplyError) -> Self {
        match error {
            ApplyError::Failed(error) => error,
            ApplyError::Broken(invariant) => StoreError::failed("apply a command", invariant),
        }
    }
}

/// Outcome of a planned proposal: its reply and its changes. A refusal is a reply.
pub struct Outcome {
    /// The reply, once the changes are made.
    pub reply: Reply,
    /// The changes.
    pub changes: Changes,
}

/// Plans one proposal on `view`; a retry gets the recorded reply.
///
/// # Errors
/// [`ApplyError`] when the store fails, or contradicts itself.
pub fn plan(view: &dyn View, proposal: &Proposal) -> Result<Outcome, ApplyError> {
    plan_by(view, proposal, &dispatch)
}

/// Plans the answer [`Error::Fault`] to a proposal whose [`plan`] found or broke an invariant of the store. A
/// retry gets the same answer.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn plan_fault(view: &dyn View, proposal: &Proposal) -> Result<Outcome, StoreError> {
    let fault = |_: &mut Plan<'_>, _: &Command| Ok(Reply::Refused(Error::Fault));
    Ok(plan_by(view, proposal, &fault)?)
}

/// Plans one proposal, and commits its changes.
///
/// # Errors
/// As [`plan`].
pub fn apply(edit: &mut dyn Edit, proposal: &Proposal) -> Result<Reply, ApplyError> {
    let Outcome { reply, changes } = plan(&*edit, proposal)?;
    changes.commit(edit)?;
    Ok(reply)
}

/// Function that adds a command's changes to an empty plan.
type PlanCommand = dyn Fn(&mut Plan<'_>, &Command) -> Result<Reply, Stop>;

/// Reply to a proposal, and its changes: none for a retry, otherwise the changes of the command and the
/// record of its reply.
fn plan_by(view: &dyn View, proposal: &Proposal, command: &PlanCommand) -> Result<Outcome, ApplyError> {
    let answered = |reply| Ok(Outcome { reply, changes: Changes::default() });
    let is_kept = |reply: &Reply| !matches!(reply, Reply::Delegated { .. } | Reply::Claimed { .. });
    let view = &Snapshots(view);
    let empty = Plan::new(view, proposal.stamp);
    let (reply, plan) = match &proposal.request {
        None => plan_new(empty, proposal, command)?,
        Some(RequestId::Compound(request)) => {
            let (known, client) = match slot::replay(view, request)? {
                Replay::Reply(reply) => return answered(reply),
                Replay::New(known, client) => (known, client),
            };
            let (reply, mut plan) = plan_new(empty.of(client), proposal, command)?;
            slot::remember(&mut plan, request, known, &reply)?;
            (reply, plan)
        }
        Some(RequestId::Call(call, index)) => {
            if let Some(reply) = calls::reply(view, call, *index)? {
                return answered(reply);
            }
            let (reply, mut plan) = plan_new(empty, proposal, command)?;
            // After `Delay` the client repeats the request, with another call or with this one: then the
            // command must be applied.
            if is_kept(&reply) && reply != Reply::Refused(Error::Delay) {
                calls::remember(&mut plan, call, *index, &reply)?;
            }
            (reply, plan)
        }
        Some(RequestId::Server(request)) => {
            if let Some(reply) = servers::replay(view, request)? {
                return answered(reply);
            }
            let (reply, mut plan) = plan_new(empty, proposal, command)?;
            if is_kept(&reply) {
                servers::remember(&mut plan, request, &reply)?;
            }
            (reply, plan)
        }
    };
    Ok(Outcome { reply, changes: plan.finish()? })
}

/// Reply to a new proposal, and its plan: `empty` if the command is refused, but for the mark of a file whose delegations
/// it waits for.
fn plan_new<'a>(
    empty: Plan<'a>,
    proposal: &Proposal,
    command: &PlanCommand,
) -> Result<(Reply, Plan<'a>), ApplyError> {
    if !proposal.generations.agree(empty.view(), &proposal.command)? {
        return Ok((Reply::Refused(Error::Stale), empty));
    }
    let mut plan = empty.clone();
    let settled = |plan: &mut Plan<'_>| {
        let reply = command(plan, &proposal.command)?;
        if plan.is_read_only() {
            return Err(Error::ReadOnly.into());
        }
        quota::settle(plan, is_limited(&proposal.command))?;
        history::keep(plan, goes_on_alone(&proposal.command))?;
        clones::hide(plan)?;
        Ok(reply)
    };
    match settled(&mut plan) {
        Ok(reply) => Ok((reply, plan)),
        Err(Stop::Refused(error)) => Ok((Reply::Refused(error), empty)),
        Err(Stop::Delegated(inode)) => {
            let mut plan = empty;
            delegation::contend(&mut plan, inode)?;
            Ok((Reply::Delegated { inode }, plan))
        }
        Err(Stop::Broken(Broken(invariant))) => Err(ApplyError::Broken(invariant)),
        Err(Stop::Failed(error)) => Err(ApplyError::Failed(error)),
    }
}

/// True if a command may change a volume that is rolled back: it does that, or ends states alone.
fn goes_on_alone(command: &Command) -> bool {
    matches!(command, Command::RemoveLeftovers | Command::RollBack { .. })
}

/// True if a growth above a limit refuses the command: its client waits for it, and has no data at data servers yet.
fn is_limited(command: &Command) -> bool {
    matches!(
        command,
        Command::Create(_)
            | Command::Open(_)
            | Command::OpenOrDelegate(_)
            | Command::WriteInline { .. }
            | Command::SetAttributes { .. }
    )
}

/// Makes the root directory in an empty store, and the first incarnation, with this random id. Has no effect
/// in a store with a root directory.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn format(edit: &mut dyn Edit, stamp: &Stamp, incarnation: [u8; 16]) -> Result<(), StoreError> {
    let command = Command::Format { incarnation };
    let outcome = plan_by(&*edit, &Proposal::new(*stamp, None, command), &dispatch)?;
    outcome.changes.commit(edit)
}

fn plan_format(plan: &mut Plan<'_>, incarnation: [u8; 16]) -> Result<(), StoreError> {
    if plan.view().get(&keys::counters())?.is_some() {
        return Ok(());
    }
    let (now, random) = (plan.now(), plan.random());
    let counters = Counters {
        next_inode: InodeId::ROOT.0 + 1,
        next_state: 1,
        next_client: 1,
        client_prefix: (random >> 32) as u32,
        next_session: 1,
        next_deferred: 1,
        next_device: 1,
        inodes: 0,
        unconfirmed: 0,
        states: StateCounts::default(),
        clients: 0,
        sessions: 0,
    };
    plan.put(&keys::counters(), &counters)?;
    plan.put(&keys::incarnation(), &Incarnation { id: incarnation, epoch: 1, began: now })?;
    let next_inode = InodeId::ROOT.0 + 1;
    plan.put(&keys::volume(VolumeId::FIRST), &Volume { next_inode, ..Volume::new(VolumeId::FIRST, now) })?;
    let directory = Directory { parent: InodeId::ROOT, entries: 0, next_cookie: FIRST_COOKIE, stripe: None };
    plan.put_inode(&Inode {
        id: InodeId::ROOT,
        generation: plan.generation(),
        kind: Kind::Directory(directory),
        mode: 0o755,
        uid: 0,
        gid: 0,
        links: 2,
        size: 0,
        written: 0,
        space_used: 0,
        space_is_told: true,
        epoch: 0,
        layout_epoch: 0,
        accessed: now,
        modified: now,
        changed: now,
        created: now,
        change: 1,
        verifier: None,
    })
}

/// Begins the next incarnation, with this random id, in a store that was filled from a backup. Not a command:
/// it is done before the group has a log. `began`: a time before all stamps of the group's log.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn begin_incarnation(edit: &mut dyn Edit, id: [u8; 16], began: Time) -> Result<Incarnation, StoreError> {
    let before = read::incarnation(&*edit)?.map_or(0, |before| before.epoch);
    let incarnation = Incarnation { id, epoch: before + 1, began };
    let key = keys::incarnation();
    edit.put(&key, &encode(&key, &incarnation)?)?;
    Ok(incarnation)
}

/// Plans a command.
fn dispatch(plan: &mut Plan<'_>, command: &Command) -> Result<Reply, Stop> {
    match command {
        Command::Format { incarnation } => Ok(plan_format(plan, *incarnation).map(|()| Reply::Done)?),
        Command::Create(create) => create::create(plan, create),
        Command::Link { inode, dir, name } => link::link(plan, *inode, *dir, name),
        Command::Remove { dir, name, expect } => remove::remove(plan, *dir, name, *expect),
        Command::Rename { from_dir, from, to_dir, to } => rename::rename(plan, *from_dir, from, *to_dir, to),
        Command::SetAttributes { inode, set } => set_attributes::set_attributes(plan, *inode, set),
        Command::Wrote { inode, end, bytes, epoch } => {
            set_attributes::wrote(plan, *inode, *end, *bytes, *epoch)
        }
        Command::WriteInline { inode, offset, data } => inline::write(plan, *inode, *offset, data),
        Command::Migrate { inode, made } => inline::migrate(plan, *inode, *made),
        Command::Migrated { inode, layout, epoch } => inline::migrated(plan, *inode, *layout, *epoch),
        Command::PlaceAs { inode, layout } => inline::place_as(plan, *inode, *layout),
        Command::SetStripe { dir, policy } => set_attributes::set_stripe(plan, *dir, *policy),
        Command::SetXattr { inode, name, value, exists } => xattr::set(plan, *inode, name, value, *exists),
        Command::RemoveXattr { inode, name } => xattr::remove(plan, *inode, name),

        Command::ExchangeId { owner, verifier, principal, update, address } => {
            let by = client::Claim { owner, verifier: *verifier, principal, address: *address };
            client::exchange_id(plan, &by, *update)
        }
        Command::CreateSession { client, sequence, principal, channels, address } => {
            session::create(plan, *client, *sequence, principal, channels, *address)
        }
        Command::DestroySession { session } => session::destroy(plan, *session),
        Command::DestroyClient { client } => client::destroy(plan, *client),
        Command::ReclaimComplete { client } => client::reclaim_complete(plan, *client),
        Command::ExpireClient { client } => client::expire(plan, *client),
        Command::LapseLease { client, sequence } => client::lapse_lease(plan, *client, *sequence),
        Command::RenewLease { client } => client::renew_lease(plan, *client),
        Command::BackchannelCtl { session, callback } => session::backchannel_ctl(plan, *session, callback),

        Command::Open(open) => open::open(plan, open),
        Command::KeepOpen { open, stateid } => open::keep(plan, open, *stateid),
        Command::OpenOrDelegate(open) => open::open_or_delegate(plan, open),
        Command::Close { client, stateid } => open::close(plan, *client, *stateid),
        Command::OpenDowngrade { client, stateid, access, deny } => {
            open::downgrade(plan, *client, *stateid, *access, *deny)
        }
        Command::Lock { client, inode, owner, kind, range } => {
            lock::lock(plan, *client, *inode, owner, *kind, *range)
        }
        Command::Unlock { client, stateid, range } => lock::unlock(plan, *client, *stateid, *range),
        Command::FreeState { client, stateid } => lock::free_state(plan, *client, *stateid),

        Command::DelegationReturn { client, stateid } => delegation::give_back(plan, *client, *stateid),
        Command::DelegationsReturn { returned } => delegation::give_all_back(plan, returned),
        Command::DelegationRevoke { client, delegation } => delegation::revoke(plan, *client, *delegation),

        Command::LayoutGet { client, inode, stateid, mode, made, version, export } => {
            let (client, inode, stateid, mode, export) = (*client, *inode, *stateid, *mode, *export);
            let asking = Asking { client, inode, stateid, mode, export };
            layout_state::get_layout(plan, &asking, *made, *version)
        }
        Command::LayoutCommit { client, inode, stateid, last_write, modified, observed } => {
            layout_state::commit(plan, *client, *inode, *stateid, *last_write, *modified, observed.as_ref())
        }
        Command::LayoutRecall { client, inode } => layout_state::recall(plan, *client, *inode),
        Command::LayoutReturn { client, scope } => layout_state::give_back(plan, *client, scope),

        Command::PutDataServer { server, known } => cluster::put_data_server(plan, server, *known),
        Command::DefineDevice { chains } => cluster::define_device(plan, chains),
        Command::MakeChains { chains } => chain::make(plan, chains),
        Command::ChangeChains { changes } => chain::change(plan, changes),
        Command::DeferredDone { ids } => deferred::done(plan, ids),
        Command::ServerStarts { member, .. } => servers::start(plan, *member),
        Command::Map(change) => cluster_map::change(plan, change),
        Command::Relocate { inode, from, to, checked } => {
            relocate::relocate(plan, *inode, *from, *to, *checked)
        }
        Command::JoinToken(change) => crate::tokens::change(plan, change),
        Command::Boot(change) => crate::boot::change(plan, change),
        Command::Observe { files } => unsettled::observe(plan, files),
        Command::SpaceUsed { files } => space_used::told(plan, files),
        Command::RemoveLeftovers => leftovers::remove(plan),
        Command::RaiseEpoch { inode, epoch } => epoch::raise(plan, *inode, *epoch),
        Command::ClaimWrite { inode, id, of } => epoch::claim(plan, *inode, *id, of),
        Command::OpenChains { chains } => chain::open::make(plan, chains),
        Command::MakeVolume(new) => volume::make(plan, new),
        Command::RemoveVolume { dir, name, force } => removal::remove(plan, *dir, name, *force),
        Command::SetLimits { volume, subject, limits } => quota::set(plan, *volume, *subject, *limits),
        Command::MakeSnapshot { volume, name } => snapshot::make(plan, *volume, name),
        Command::MakeClone { snapshot, dir, name } => clones::make(plan, *snapshot, *dir, name),
        Command::Promote { volume } => promotion::promote(plan, *volume),
        Command::RollBack { volume, name, force } => rollback::roll_back(plan, *volume, name, *force),
        Command::SetSchedule { volume, schedule } => snapshot::set_schedule(plan, *volume, *schedule),
        Command::CopyObjects { inode } => objects::copy(plan, *inode),
        Command::CopiedObjects { inode, copy, epoch } => objects::copied(plan, *inode, *copy, *epoch),
        Command::RemoveSnapshot { volume, name, force } => {
            snapshot::removal::remove(plan, *volume, name, *force)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use store::{Durability, MemoryStore, Store};

    use super::*;
    use crate::{ClientId, MemberRequest, StateId};

    fn dump(view: &dyn View) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut pairs = Vec::new();
        let mut each = |key: &[u8], value: &[u8]| {
            pairs.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        };
        view.scan(&[], &[0xff], &mut each).expect("scans");
        pairs
    }

    #[test]
    fn a_command_that_finds_an_invariant_broken_changes_nothing_and_is_answered_a_fault_each_time() {
        let (store, stamp) = (MemoryStore::new(), Stamp { random: 7, ..Stamp::default() });
        let (client, inode) = (ClientId(1), InodeId::ROOT);
        let mut batch = |edit: &mut dyn Edit| {
            format(edit, &stamp, [7; 16])?;
            let starts = Command::ServerStarts { member: 1, age_ms: 0 };
            let started = apply(edit, &Proposal::new(stamp, None, starts))?;
            let Reply::Started { life } = started else { panic!("{started:?}") };
            // An index entry without its layout.
            let mut plan = Plan::new(&*edit, stamp);
            plan.put(&keys::layout(inode, client), &StateId(9))?;
            plan.finish()?.commit(edit)?;

            let before = dump(edit);
            let request = MemberRequest { member: 1, life, slot: 0, sequence: 1 };
            let command = Command::LayoutRecall { client, inode };
            let proposal = Proposal::new(stamp, Some(RequestId::Server(request)), command);
            let broken = apply(edit, &proposal).expect_err("no layout has this id");
            assert!(matches!(broken, ApplyError::Broken(_)), "{broken:?}");
            assert_eq!(dump(edit), before);
            let Outcome { reply, changes } = plan_fault(&*edit, &proposal)?;
            changes.commit(edit)?;
            assert_eq!(reply, Reply::Refused(Error::Fault));
            assert_eq!(apply(edit, &proposal)?, Reply::Refused(Error::Fault));
            Ok(())
        };
        store.batch(Durability::Deferred, &mut batch).expect("a batch");
    }
}
