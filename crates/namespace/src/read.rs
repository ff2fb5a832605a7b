//! Reads: from any view of the store, a snapshot or a batch in progress. None of them changes anything, so
//! none of them passes through the log.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use store::{StoreError, View};

use crate::record::{
    CookieEntry, Counters, HeldLock, InodeHead, Name, Use, Xattr, XattrHead, decode, decode_data,
    decode_head, get,
};
use crate::{
    ByteRange, ClientId, ClientRecord, ClusterMap, Conflict, DataServer, DataServerId, DeferredOp, Device,
    DeviceId, Entry, Held, Incarnation, Inode, InodeId, IoMode, JoinToken, Kind, LockKind, Reply, RequestId,
    SessionId, SessionRecord, Share, State, StateCounts, StateId, Stateid, StripePolicy, TargetId, Unsettled,
    calls, cluster_map, keys, servers, slot,
};

/// Directories above one another: more than any path names, so that a ring of them is found.
const DEPTH_MAX: usize = 1 << 20;

/// The inode with this id.
///
/// # Errors
/// [`StoreError`] when the store fails; so with every read here.
pub fn inode(view: &dyn View, inode: InodeId) -> Result<Option<Inode>, StoreError> {
    get(view, &keys::inode(inode))
}

/// The generation of the inode with this id.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn generation(view: &dyn View, inode: InodeId) -> Result<Option<u32>, StoreError> {
    let key = keys::inode(inode);
    let head = view.get(&key)?.map(|bytes| decode_head::<InodeHead>(&key, &bytes)).transpose()?;
    Ok(head.map(|head| head.generation))
}

/// Random bits that tell this name space from any other one, also of the same cluster; never 0. A backup has
/// the same.
///
/// # Errors
/// [`StoreError`] when the store fails, or nothing was formatted yet.
pub fn name_space(view: &dyn View) -> Result<u64, StoreError> {
    let (root, counters) = (inode(view, InodeId::ROOT)?, get::<Counters>(view, &keys::counters())?);
    let (Some(root), Some(counters)) = (root, counters) else {
        return Err(StoreError { doing: "read which name space this is", cause: "there is none yet".into() });
    };
    Ok((u64::from(counters.client_prefix) << 32 | u64::from(root.generation)).max(1))
}

/// The incarnation of the group; none: nothing was formatted or received yet.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn incarnation(view: &dyn View) -> Result<Option<Incarnation>, StoreError> {
    get(view, &keys::incarnation())
}

/// The data of a small file, without the hole at its end: empty when it has none, or has them elsewhere.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn inline_data(view: &dyn View, inode: InodeId) -> Result<Bytes, StoreError> {
    let key = keys::inline(inode);
    view.get(&key)?.map_or(Ok(Bytes::new()), |bytes| decode_data(&key, bytes))
}

/// What `name` names in `dir`; none, too, when `dir` is not a directory.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn lookup(view: &dyn View, dir: InodeId, name: &[u8]) -> Result<Option<InodeId>, StoreError> {
    Ok(get::<Name>(view, &keys::name(dir, name))?.map(|name| name.inode))
}

/// Visits the entries of `dir` whose cookie is above `after_cookie`, in cookie order, until `visit` breaks.
/// Start with
/// 0. Costs one range scan, whatever the size of the directory.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn list(
    view: &dyn View,
    dir: InodeId,
    after_cookie: u64,
    mut visit: impl FnMut(Entry) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    let from = keys::cookie(dir, after_cookie.saturating_add(1));
    let to = keys::after(&keys::of(keys::COOKIES, &[dir.0]));
    if after_cookie == u64::MAX {
        return Ok(());
    }
    scan_records(view, &from, &to, |key, CookieEntry { name, inode }| {
        visit(Entry { cookie: keys::number(key, 9), name, inode })
    })
}

/// Visits names in the order of their directories, until `visit` breaks: with a mark to go on after it, the
/// directory, the name, and what it names. Begin with an empty mark.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn names_after(
    view: &dyn View,
    mark: &[u8],
    mut visit: impl FnMut(&[u8], InodeId, &[u8], InodeId) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    // The first key after the mark's.
    let mut from = vec![keys::NAMES];
    from.extend_from_slice(mark);
    from.extend((!mark.is_empty()).then_some(0));
    scan_records(view, &from, &keys::after(&[keys::NAMES]), |key, Name { inode, .. }| {
        let (mark, name) = (key.get(1..).unwrap_or_default(), key.get(9..).unwrap_or_default());
        visit(mark, InodeId(keys::number(key, 1)), name, inode)
    })
}

/// The name that `dir` has for `inode`, the first if it has several: looks at all its names.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn name_of(view: &dyn View, dir: InodeId, inode: InodeId) -> Result<Option<Vec<u8>>, StoreError> {
    let mut found = None;
    let prefix = keys::name(dir, &[]);
    scan_records(view, &prefix, &keys::after(&prefix), |key, name: Name| {
        if name.inode != inode {
            return ControlFlow::Continue(());
        }
        found = Some(key.get(prefix.len()..).unwrap_or_default().to_vec());
        ControlFlow::Break(())
    })?;
    Ok(found)
}

/// The value of an object's extended attribute.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn xattr(view: &dyn View, inode: InodeId, name: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
    Ok(get::<Xattr>(view, &keys::xattr(inode, name))?.map(|xattr| xattr.value))
}

/// The extended attributes of an object: cookie, and name without `user.`, in the order in which they were
/// made.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn xattrs(view: &dyn View, inode: InodeId) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
    let mut found = Vec::new();
    xattr_heads(view, inode, |name, head| found.push((head.cookie, name.to_vec())))?;
    found.sort_unstable();
    Ok(found)
}

/// Visits name and head of each extended attribute of an object, by name.
pub(crate) fn xattr_heads(
    view: &dyn View,
    inode: InodeId,
    mut visit: impl FnMut(&[u8], XattrHead),
) -> Result<(), StoreError> {
    let prefix = keys::xattrs(inode);
    let mut outcome = Ok(());
    view.scan(&prefix, &keys::after(&prefix), &mut |key, value| match decode_head(key, value) {
        Ok(head) => {
            visit(key.get(prefix.len()..).unwrap_or_default(), head);
            ControlFlow::Continue(())
        }
        Err(error) => {
            outcome = Err(error);
            ControlFlow::Break(())
        }
    })?;
    outcome
}

/// The device with this id.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn device(view: &dyn View, device: DeviceId) -> Result<Option<Device>, StoreError> {
    get(view, &keys::device(device))
}

/// All devices, by id.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn devices(view: &dyn View) -> Result<Vec<Device>, StoreError> {
    collect(view, &[keys::DEVICES])
}

/// All data servers, by id.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn data_servers(view: &dyn View) -> Result<Vec<DataServer>, StoreError> {
    collect(view, &[keys::DATA_SERVERS])
}

/// The cluster map.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn cluster_map(view: &dyn View) -> Result<ClusterMap, StoreError> {
    cluster_map::read_map(view)
}

/// All join tokens that have not been removed yet, by id.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn join_tokens(view: &dyn View) -> Result<Vec<JoinToken>, StoreError> {
    collect(view, &[keys::JOIN_TOKENS])
}

/// The data server that holds `target`.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn target_server(view: &dyn View, target: TargetId) -> Result<Option<DataServerId>, StoreError> {
    get(view, &keys::target(target))
}

/// The client with this id, confirmed or not.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn client(view: &dyn View, client: ClientId) -> Result<Option<ClientRecord>, StoreError> {
    get(view, &keys::client(client))
}

/// All clients, confirmed or not.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn clients(view: &dyn View) -> Result<Vec<ClientId>, StoreError> {
    let mut clients = Vec::new();
    scan_keys(view, &[keys::CLIENTS], |key| {
        clients.push(ClientId(keys::number(key, 1)));
        ControlFlow::Continue(())
    })?;
    Ok(clients)
}

/// The session with this id.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn session(view: &dyn View, session: SessionId) -> Result<Option<SessionRecord>, StoreError> {
    get(view, &keys::session(session))
}

/// The sessions of a client.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn sessions(view: &dyn View, client: ClientId) -> Result<Vec<SessionId>, StoreError> {
    let mut sessions = Vec::new();
    scan_keys(view, &keys::of(keys::CLIENT_SESSIONS, &[client.0]), |key| {
        sessions.extend(key.get(9..).and_then(|id| id.try_into().ok()).map(SessionId));
        ControlFlow::Continue(())
    })?;
    Ok(sessions)
}

/// What the command with this request was answered, if it was carried out before.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn recorded(view: &dyn View, request: &RequestId) -> Result<Option<Reply>, StoreError> {
    match request {
        RequestId::Compound(request) => slot::reply(view, request),
        RequestId::Call(call, index) => calls::reply(view, call, *index),
        RequestId::Server(request) => servers::reply(view, request),
    }
}

/// The open, lock or layout with this id.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn state(view: &dyn View, state: StateId) -> Result<Option<State>, StoreError> {
    get(view, &keys::state(state))
}

/// The opens, locks and layouts of a client.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn states(view: &dyn View, client: ClientId) -> Result<Vec<StateId>, StoreError> {
    let mut states = Vec::new();
    scan_keys(view, &keys::of(keys::CLIENT_STATES, &[client.0]), |key| {
        states.push(StateId(keys::number(key, 9)));
        ControlFlow::Continue(())
    })?;
    Ok(states)
}

/// Whether a client has anything open, locked or laid out.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn has_state(view: &dyn View, client: ClientId) -> Result<bool, StoreError> {
    any_key(view, &keys::of(keys::CLIENT_STATES, &[client.0]))
}

/// What a client has: opens, lock-owners, locked ranges and layouts.
pub(crate) fn client_uses(view: &dyn View, client: ClientId) -> Result<u64, StoreError> {
    Ok(get(view, &keys::client_uses(client))?.unwrap_or_default())
}

/// The opens of a file, by client and open-owner.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn opens(view: &dyn View, inode: InodeId) -> Result<Vec<StateId>, StoreError> {
    collect(view, &keys::of(keys::OPENS, &[inode.0]))
}

/// The mark of a file whose data servers may know more than its inode.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn unsettled(view: &dyn View, inode: InodeId) -> Result<Option<Unsettled>, StoreError> {
    get(view, &keys::unsettled(inode))
}

/// At most `max` unsettled files above `after` that no client has a layout to write of.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn to_settle(view: &dyn View, after: InodeId, max: usize) -> Result<Vec<InodeId>, StoreError> {
    let mut files = Vec::new();
    let from = keys::to_settle(InodeId(after.0.saturating_add(1)));
    view.scan(&from, &keys::after(&[keys::TO_SETTLE]), &mut |key, _| {
        files.push(InodeId(keys::number(key, 1)));
        if files.len() < max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(files)
}

/// Whether a file is open, or a client has a layout of it.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn in_use(view: &dyn View, inode: InodeId) -> Result<bool, StoreError> {
    Ok(view.get(&keys::uses(inode))?.is_some())
}

/// The ranges of a file that are locked, by where they start.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn locks(view: &dyn View, inode: InodeId) -> Result<Vec<Held>, StoreError> {
    let mut locks = Vec::new();
    locks_starting_before(view, inode, u64::MAX, |held| {
        locks.push(held);
        ControlFlow::Continue(())
    })?;
    Ok(locks)
}

/// LOCKT: the first range that keeps `owner` of `client` from locking `range`.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn conflicting_lock(
    view: &dyn View,
    inode: InodeId,
    client: ClientId,
    owner: &[u8],
    kind: LockKind,
    range: ByteRange,
) -> Result<Option<Conflict>, StoreError> {
    let mut found = None;
    conflicting_locks(view, inode, client, owner, kind, range, |held| {
        found = Some(held);
        ControlFlow::Break(())
    })?;
    let Some(Held { range, kind, state: holder }) = found else { return Ok(None) };
    let Some(State::Lock(holder)) = state(view, holder)? else {
        return Err(StoreError {
            doing: "find a lock's owner",
            cause: format!("{holder:?} is not a lock state"),
        });
    };
    Ok(Some(Conflict { range, kind, client: holder.client, owner: holder.owner }))
}

/// The clients of all ranges that keep `owner` of `client` from locking `range`.
pub(crate) fn lock_holders(
    view: &dyn View,
    inode: InodeId,
    client: ClientId,
    owner: &[u8],
    kind: LockKind,
    range: ByteRange,
) -> Result<BTreeSet<ClientId>, StoreError> {
    let mut states = BTreeSet::new();
    conflicting_locks(view, inode, client, owner, kind, range, |held| {
        states.insert(held.state);
        ControlFlow::Continue(())
    })?;
    let mut holders = BTreeSet::new();
    for id in states {
        holders.extend(state(view, id)?.map(|state| state.client()));
    }
    Ok(holders)
}

fn conflicting_locks(
    view: &dyn View,
    inode: InodeId,
    client: ClientId,
    owner: &[u8],
    kind: LockKind,
    range: ByteRange,
    mut visit: impl FnMut(Held) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    let own: Option<StateId> = get(view, &keys::lock_state(inode, client, owner))?;
    locks_starting_before(view, inode, range.end, |held| {
        let excludes = held.kind == LockKind::Write || kind == LockKind::Write;
        if Some(held.state) != own && held.range.end > range.start && excludes {
            return visit(held);
        }
        ControlFlow::Continue(())
    })
}

/// Visits the locked ranges of a file that start before `end`, by where they start.
pub(crate) fn locks_starting_before(
    view: &dyn View,
    inode: InodeId,
    end: u64,
    mut visit: impl FnMut(Held) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    let (from, to) = (keys::of(keys::LOCKS, &[inode.0]), keys::of(keys::LOCKS, &[inode.0, end]));
    scan_records(view, &from, &to, |key, HeldLock { end, kind }| {
        let range = ByteRange { start: keys::number(key, 9), end };
        visit(Held { range, kind, state: StateId(keys::number(key, 17)) })
    })
}

/// The layouts of a file.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn layouts(view: &dyn View, inode: InodeId) -> Result<Vec<(ClientId, Stateid, IoMode)>, StoreError> {
    let ids: Vec<StateId> = collect(view, &keys::of(keys::LAYOUTS, &[inode.0]))?;
    let mut layouts = Vec::with_capacity(ids.len());
    for id in ids {
        if let Some(State::Layout(layout)) = state(view, id)? {
            layouts.push((layout.client, layout.stateid, layout.mode));
        }
    }
    Ok(layouts)
}

/// The read delegations of a file, without those that were revoked.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn delegations(view: &dyn View, inode: InodeId) -> Result<Vec<(ClientId, Stateid)>, StoreError> {
    let ids: Vec<StateId> = collect(view, &keys::of(keys::DELEGATIONS, &[inode.0]))?;
    let mut delegations = Vec::with_capacity(ids.len());
    for id in ids {
        if let Some(State::Delegation(delegation)) = state(view, id)? {
            delegations.push((delegation.client, delegation.stateid));
        }
    }
    Ok(delegations)
}

/// Whose delegations were revoked, and not yet acknowledged with FREE_STATEID; a client for each of them.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn revoked(view: &dyn View) -> Result<Vec<ClientId>, StoreError> {
    let mut clients = Vec::new();
    scan_keys(view, &keys::of(keys::DELEGATIONS, &[0]), |key| {
        clients.push(ClientId(keys::number(key, 9)));
        ControlFlow::Continue(())
    })?;
    Ok(clients)
}

/// Whether an open denies `wanted` to I/O that is under no open of its own: NFSv3, or an anonymous stateid
/// (RFC 8881, section 9.1.4.3). The opens of `except` do not count.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn share_conflict(
    view: &dyn View,
    inode: InodeId,
    wanted: Share,
    except: Option<ClientId>,
) -> Result<bool, StoreError> {
    let own = |client, _: &[u8]| Some(client) == except;
    Ok(!open_conflicts(view, inode, wanted, Share::NONE, own)?.is_empty())
}

/// The clients whose opens deny `wanted` of a file: see [`share_conflict`].
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn share_holders(
    view: &dyn View,
    inode: InodeId,
    wanted: Share,
) -> Result<Vec<ClientRecord>, StoreError> {
    let holders = open_conflicts(view, inode, wanted, Share::NONE, |_, _| false)?;
    let records = holders.into_iter().map(|holder| client(view, holder));
    Ok(records.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// The clients of opens of the file, other than those that `own` tells of, that deny `access` or have what
/// `deny` denies.
pub(crate) fn open_conflicts(
    view: &dyn View,
    inode: InodeId,
    access: Share,
    deny: Share,
    own: impl Fn(ClientId, &[u8]) -> bool,
) -> Result<BTreeSet<ClientId>, StoreError> {
    let mut conflicts = BTreeSet::new();
    let Some(uses) = get::<Use>(view, &keys::uses(inode))? else { return Ok(conflicts) };
    let denied = share(uses.denying_read, uses.denying_write);
    let used = share(uses.reading, uses.writing);
    if !denied.intersects(access) && !used.intersects(deny) {
        return Ok(conflicts); // nearly always
    }
    for id in opens(view, inode)? {
        if let Some(State::Open(open)) = state(view, id)?
            && !own(open.client, &open.owner)
            && (open.deny.intersects(access) || open.access.intersects(deny))
        {
            conflicts.insert(open.client);
        }
    }
    Ok(conflicts)
}

fn share(reading: u32, writing: u32) -> Share {
    Share(u8::from(reading > 0) | u8::from(writing > 0) << 1)
}

/// Whether objects of the file are still to be truncated.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn pending_truncation(view: &dyn View, inode: InodeId) -> Result<bool, StoreError> {
    Ok(view.get(&keys::truncate(inode))?.is_some())
}

/// The oldest `max` deferred operations.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn deferred_ops(view: &dyn View, max: usize) -> Result<Vec<DeferredOp>, StoreError> {
    deferred_ops_after(view, 0, max)
}

/// The oldest `max` deferred operations whose id is above `after`.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn deferred_ops_after(view: &dyn View, after: u64, max: usize) -> Result<Vec<DeferredOp>, StoreError> {
    let mut deferred = Vec::new();
    if max > 0 && after < u64::MAX {
        scan_records(view, &keys::deferred(after + 1), &keys::after(&[keys::DEFERRED]), |_, record| {
            deferred.push(record);
            if deferred.len() < max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
    }
    Ok(deferred)
}

/// How the data of new files in `dir` are to be spread: as the nearest directory above says that says
/// anything.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn stripe_policy(view: &dyn View, dir: InodeId) -> Result<Option<StripePolicy>, StoreError> {
    let mut at = dir;
    for _ in 0..DEPTH_MAX {
        let Some(Inode { kind: Kind::Directory(directory), .. }) = inode(view, at)? else { return Ok(None) };
        if directory.stripe.is_some() || directory.parent == at {
            return Ok(directory.stripe);
        }
        at = directory.parent;
    }
    Err(StoreError { doing: "find a stripe policy", cause: format!("{dir:?} is not below the root") })
}

/// Inodes in use.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn counts(view: &dyn View) -> Result<u64, StoreError> {
    Ok(counters(view)?.inodes)
}

/// The numbers of opens, locks, layouts and delegations.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn state_counts(view: &dyn View) -> Result<StateCounts, StoreError> {
    Ok(counters(view)?.states)
}

pub(crate) fn counters(view: &dyn View) -> Result<Counters, StoreError> {
    get(view, &keys::counters())?.ok_or_else(|| StoreError {
        doing: "read the counters",
        cause: "there are none: the store was never formatted".to_string(),
    })
}

/// Visits the records with `from <= key < to`.
pub(crate) fn scan_records<T: DeserializeOwned>(
    view: &dyn View,
    from: &[u8],
    to: &[u8],
    mut visit: impl FnMut(&[u8], T) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    let mut outcome = Ok(());
    view.scan(from, to, &mut |key, value| match decode(key, value) {
        Ok(record) => visit(key, record),
        Err(error) => {
            outcome = Err(error);
            ControlFlow::Break(())
        }
    })?;
    outcome
}

/// Visits the keys that start with `prefix`.
pub(crate) fn scan_keys(
    view: &dyn View,
    prefix: &[u8],
    mut visit: impl FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    view.scan(prefix, &keys::after(prefix), &mut |key, _| visit(key))
}

/// All records whose key starts with `prefix`.
pub(crate) fn collect<T: DeserializeOwned>(view: &dyn View, prefix: &[u8]) -> Result<Vec<T>, StoreError> {
    let mut records = Vec::new();
    scan_records(view, prefix, &keys::after(prefix), |_, record| {
        records.push(record);
        ControlFlow::Continue(())
    })?;
    Ok(records)
}

/// Whether a key starts with `prefix`.
pub(crate) fn any_key(view: &dyn View, prefix: &[u8]) -> Result<bool, StoreError> {
    let mut any = false;
    scan_keys(view, prefix, |_| {
        any = true;
        ControlFlow::Break(())
    })?;
    Ok(any)
}
