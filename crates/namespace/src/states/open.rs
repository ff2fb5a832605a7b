//! OPEN, CLOSE, OPEN_DOWNGRADE, and share reservations (RFC 8881, chapter 9 and sections 18.2, 18.16, 18.18).

use store::StoreError;

use super::conflicts::{self, InTheWay};
use super::layout_state::{self, Ended};
use super::{delegation, leftovers, table};
use crate::files::create::{self, Found};
use crate::files::{entry, epoch, remove, size};
use crate::plan::{Plan, Stop};
use crate::record::get;
use crate::{
    Change, ClientId, Create, Error, Exists, Inode, InodeId, Kind, NewNode, Open, OpenState, OpenTarget,
    Reply, Share, State, StateId, Stateid, keys, read,
};

/// File to open, after the check of its name.
enum Target<'a> {
    /// An existing file. `truncation`: to size 0.
    Known { inode: Inode, dir: Option<Change>, made_by_it: bool, truncation: bool },
    /// A file to create in this directory.
    New { dir: Inode, create: &'a Create },
}

/// Record of an open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Record {
    /// A new one.
    New,
    /// None, if there is a delegation.
    OrDelegation,
    /// One with this stateid.
    Kept(Stateid),
}

pub(crate) fn open(plan: &mut Plan<'_>, open: &Open) -> Result<Reply, Stop> {
    open_as(plan, open, Record::New)
}

/// Opens a file, or grants a delegation under which its client opens it by itself.
pub(crate) fn open_or_delegate(plan: &mut Plan<'_>, open: &Open) -> Result<Reply, Stop> {
    open_as(plan, open, Record::OrDelegation)
}

/// Keeps an open that was in the leader's memory, with its stateid.
pub(crate) fn keep(plan: &mut Plan<'_>, open: &Open, stateid: Stateid) -> Result<Reply, Stop> {
    open_as(plan, open, Record::Kept(stateid))
}

fn open_as(plan: &mut Plan<'_>, open: &Open, record: Record) -> Result<Reply, Stop> {
    if !read::client(plan.view(), open.client)?.is_some_and(|client| client.confirmed) {
        return Err(Error::StaleClient.into());
    }
    check_shares(open.access, open.deny)?;
    let may_be_brief =
        matches!(open.target, OpenTarget::Inode(_)) && open.deny == Share::NONE && !open.delegate;
    if matches!(record, Record::Kept(_)) && !may_be_brief {
        return Err(Error::Invalid.into());
    }
    table::check_room(plan, open.client)?;
    let target = match &open.target {
        OpenTarget::Inode(inode) => {
            Target::Known { inode: plan.inode(*inode)?, dir: None, made_by_it: false, truncation: false }
        }
        OpenTarget::Name { dir, name } => {
            let dir = plan.directory(*dir)?;
            let found = entry::find(plan, dir.id, name)?.ok_or(Error::NoEntry)?;
            let inode = plan.inode(found.inode)?;
            Target::Known { inode, dir: Some(dir.unchanged()), made_by_it: false, truncation: false }
        }
        OpenTarget::Create { create, truncate } => {
            if !matches!(create.node, NewNode::File(_)) {
                return Err(Error::Invalid.into());
            }
            match create::find(plan, create)? {
                Found::Free { dir } => Target::New { dir, create },
                Found::Taken { inode, dir, made_by_it } => {
                    let truncation = *truncate && create.exists == Exists::Take;
                    Target::Known { inode, dir: Some(dir), made_by_it, truncation }
                }
            }
        }
    };
    match target {
        Target::New { dir, create } => {
            let (inode, dir) = create::make(plan, dir, create)?;
            let (stateid, delegation) = match delegated_instead(plan, &inode, open, record, true)? {
                Some(delegation) => (delegation, Some(delegation)),
                None => {
                    let stateid = add(plan, inode.id, open, record)?;
                    (stateid, delegation::grant(plan, &inode, open, true, 1)?)
                }
            };
            Ok(Reply::Opened { stateid, inode, created: true, dir: Some(dir), deferred: None, delegation })
        }
        Target::Known { inode, dir, made_by_it, truncation } => {
            match inode.kind {
                Kind::File(_) => {}
                Kind::Directory(_) => return Err(Error::IsDirectory.into()),
                Kind::Symlink(_) => return Err(Error::IsSymlink.into()),
                Kind::Fifo | Kind::Socket | Kind::CharacterDevice(..) | Kind::BlockDevice(..) => {
                    return Err(Error::WrongType.into());
                }
            }
            if inode.id.is_read_only() && (open.access.intersects(Share::WRITE) || truncation) {
                return Err(Error::ReadOnly.into());
            }
            let lapsed = in_the_way(plan, inode.id, open)?;
            if lapsed.is_crowd() {
                return lapsed.end_some(plan, Error::ShareDenied);
            }
            if truncation {
                size::check(plan, &inode, Some(open.client))?;
            }
            // A share that denies writing must not be granted while a client that has ended may still write.
            if open.deny != Share::NONE {
                if epoch::is_unfenced(plan, inode.id)? {
                    return Err(Error::Delay.into());
                }
                if lapsed.leave_a_fence(plan, inode.id)? {
                    return lapsed.end_some(plan, Error::ShareDenied);
                }
            }
            delegation::check_open(plan, inode.id, open, truncation)?;
            if let Record::OrDelegation = record
                && !truncation
                && lapsed.is_empty()
                && let Some(stateid) = delegated_instead(plan, &inode, open, record, false)?
            {
                let (deferred, delegation) = (None, Some(stateid));
                return Ok(Reply::Opened { stateid, inode, created: made_by_it, dir, deferred, delegation });
            }
            // The new open is added first, so that a file without a name that only lapsed clients had open
            // stays.
            let stateid = add(plan, inode.id, open, record)?;
            lapsed.end(plan)?;
            let mut inode = plan.inode(inode.id)?; // the end of a writer fences the file
            let mut deferred = None;
            if truncation {
                deferred = size::set(plan, &mut inode, 0)?;
                inode.data_changed(plan.now());
                plan.put_inode(&inode)?;
            }
            let delegation = delegation::grant(plan, &inode, open, false, 1)?;
            Ok(Reply::Opened { stateid, inode, created: made_by_it, dir, deferred, delegation })
        }
    }
}

/// Grants a delegation in the place of an open, if the owner has none of the file and the caller takes it.
fn delegated_instead(
    plan: &mut Plan<'_>,
    file: &Inode,
    open: &Open,
    record: Record,
    made: bool,
) -> Result<Option<Stateid>, Stop> {
    let is_open = || plan.view().get(&keys::open(file.id, open.client, &open.owner));
    // A share that denies something is kept by its open.
    if record != Record::OrDelegation || open.deny != Share::NONE || !made && is_open()?.is_some() {
        return Ok(None);
    }
    delegation::grant(plan, file, open, made, 0)
}

/// Returns the clients with conflicting share reservations, all of which have lapsed.
///
/// # Errors
/// `ShareDenied` if one of them is active.
fn in_the_way(plan: &Plan<'_>, inode: InodeId, open: &Open) -> Result<InTheWay, Stop> {
    let mut lapsed = InTheWay::default();
    let own = get::<StateId>(plan.view(), &keys::open(inode, open.client, &open.owner))?;
    if !read::may_conflict(plan.view(), inode, open.access, open.deny, own)? {
        return Ok(lapsed); // the usual case
    }
    let (keys, more) = conflicts::first_keys(plan, &keys::of(keys::OPENS, &[inode.0]))?;
    for key in keys {
        let id = get::<StateId>(plan.view(), &key)?.filter(|id| Some(*id) != own);
        let state = id.map(|id| read::state(plan.view(), id)).transpose()?.flatten();
        if let Some(State::Open(other)) = state
            && (other.deny.intersects(open.access) || other.access.intersects(open.deny))
            && !lapsed.note(plan, other.client, open.client)?
        {
            return Err(Error::ShareDenied.into());
        }
    }
    if more {
        lapsed.note_unseen();
    }
    Ok(lapsed)
}

/// Adds to the owner's open of the file, or makes a new open.
fn add(plan: &mut Plan<'_>, inode: InodeId, open: &Open, record: Record) -> Result<Stateid, Stop> {
    let known: Option<StateId> = get(plan.view(), &keys::open(inode, open.client, &open.owner))?;
    let known = match known {
        Some(id) => read::state(plan.view(), id)?,
        None => None,
    };
    let opened = pair(open.access, open.deny);
    if let Record::Kept(given) = record {
        return add_brief(plan, inode, open, given, known);
    }
    if let Some(State::Open(mut state)) = known {
        let before = State::Open(state.clone());
        table::advance(&mut state.stateid);
        state.access.0 |= open.access.0;
        state.deny.0 |= open.deny.0;
        state.opened |= opened;
        let stateid = state.stateid;
        table::replace(plan, &before, &State::Open(state))?;
        return Ok(stateid);
    }
    let stateid = table::new_stateid(plan)?;
    let (client, owner, access, deny) = (open.client, open.owner.clone(), open.access, open.deny);
    table::insert(plan, &State::Open(OpenState { stateid, client, inode, owner, access, deny, opened }))?;
    Ok(stateid)
}

/// Adds an open that the leader had in its memory, with the stateid that its client has. A repetition changes nothing.
fn add_brief(
    plan: &mut Plan<'_>,
    inode: InodeId,
    open: &Open,
    given: Stateid,
    known: Option<State>,
) -> Result<Stateid, Stop> {
    match known {
        Some(known) if known.stateid().id == given.id => return Ok(known.stateid()),
        Some(_) => return Err(Error::BadStateid.into()), // the owner has opened the file elsewhere since
        None => {}
    }
    if !given.id.is_brief() || given.sequence == 0 || read::state(plan.view(), given.id)?.is_some() {
        return Err(Error::BadStateid.into());
    }
    let (client, owner, access, deny) = (open.client, open.owner.clone(), open.access, open.deny);
    let opened = pair(access, deny);
    let state = OpenState { stateid: given, client, inode, owner, access, deny, opened };
    table::insert(plan, &State::Open(state))?;
    Ok(given)
}

pub(crate) fn close(plan: &mut Plan<'_>, client: ClientId, stateid: Stateid) -> Result<Reply, Stop> {
    let open = find(plan, client, stateid)?;
    end(plan, &open)?;
    Ok(Reply::State { stateid: None })
}

pub(crate) fn downgrade(
    plan: &mut Plan<'_>,
    client: ClientId,
    stateid: Stateid,
    access: Share,
    deny: Share,
) -> Result<Reply, Stop> {
    let mut open = find(plan, client, stateid)?;
    check_shares(access, deny)?;
    let kept = pairs_within(open.opened, access, deny);
    if union(kept) != (access, deny) {
        return Err(Error::Invalid.into()); // RFC 8881, section 18.18.3
    }
    let before = State::Open(open.clone());
    table::advance(&mut open.stateid);
    (open.access, open.deny, open.opened) = (access, deny, kept);
    let stateid = Some(open.stateid);
    table::replace(plan, &before, &State::Open(open))?;
    Ok(Reply::State { stateid })
}

/// Returns the open of `client` with `stateid`, if its sequence is current.
pub(super) fn find(plan: &Plan<'_>, client: ClientId, stateid: Stateid) -> Result<OpenState, Stop> {
    let State::Open(open) = table::find(plan, client, stateid.id)? else {
        return Err(Error::BadStateid.into());
    };
    table::check_sequence(stateid, open.stateid)?;
    Ok(open)
}

/// Ends an open with its locks. The client's layout of the file ends with its last open or delegation. An
/// unused file without a name is discarded.
pub(super) fn end(plan: &mut Plan<'_>, open: &OpenState) -> Result<(), Stop> {
    table::remove(plan, &State::Open(open.clone()))?;
    leftovers::of_open(plan, open)?;
    if !read::any_key(plan.view(), &keys::open(open.inode, open.client, &[]))?
        && delegation::of_client(plan, open.inode, open.client)?.is_none()
    {
        layout_state::end_of_client(plan, open.inode, open.client, Ended::Returned)?;
    }
    remove::discard_if_orphan(plan, open.inode)
}

/// True if the client of a state has its file open for writing, among the first opens checked, or has its write delegation.
/// A client with more open-owners than a request checks must present the open for writing.
pub(super) fn may_write(plan: &Plan<'_>, presented: &State) -> Result<bool, StoreError> {
    let writes = |state: &State| match state {
        State::Open(open) => open.access.contains(Share::WRITE),
        State::Delegation(delegation) => delegation.writes(),
        State::Lock(_) | State::Layout(_) => false,
    };
    if writes(presented) {
        return Ok(true); // the usual case
    }
    if read::write_delegation(plan.view(), presented.inode())? == Some(presented.client()) {
        return Ok(true);
    }
    let opens = keys::open(presented.inode(), presented.client(), &[]);
    for key in conflicts::first_keys(plan, &opens)?.0 {
        let state = get(plan.view(), &key)?.map(|id| read::state(plan.view(), id)).transpose()?.flatten();
        if state.is_some_and(|state| writes(&state)) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn check_shares(access: Share, deny: Share) -> Result<(), Error> {
    let possible = access != Share::NONE && Share::BOTH.contains(access) && Share::BOTH.contains(deny);
    if possible { Ok(()) } else { Err(Error::Invalid) }
}

/// Bit of one pair of access and deny in [`OpenState::opened`].
fn pair(access: Share, deny: Share) -> u16 {
    1 << (access.0 << 2 | deny.0)
}

fn pairs() -> impl Iterator<Item = (Share, Share)> {
    (0..16).map(|bits| (Share(bits >> 2), Share(bits & 3)))
}

/// Pairs in `opened` within `access` and `deny`.
fn pairs_within(opened: u16, access: Share, deny: Share) -> u16 {
    pairs()
        .filter(|(a, d)| access.contains(*a) && deny.contains(*d))
        .map(|(a, d)| opened & pair(a, d))
        .fold(0, |all, one| all | one)
}

/// Union of the pairs in `opened`.
pub(crate) fn union(opened: u16) -> (Share, Share) {
    pairs()
        .filter(|(access, deny)| opened & pair(*access, *deny) != 0)
        .fold((Share::NONE, Share::NONE), |(a, d), (access, deny)| {
            (Share(a.0 | access.0), Share(d.0 | deny.0))
        })
}
