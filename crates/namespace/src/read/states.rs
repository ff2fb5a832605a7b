//! Reads of the states of clients: opens, layouts and delegations.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use store::{StoreError, View};

use super::{any_key, client, collect, scan_keys, some_keys};
use crate::record::{LeftLayouts, Use, get};
use crate::states::use_of;
use crate::{
    CLIENT_STATES_MAX, ClientId, ClientRecord, InodeId, IoMode, LayoutState, OpenState, Share, State,
    StateId, Stateid, VolumeId, keys,
};

/// State with this id: open, lock, layout or delegation.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn state(view: &dyn View, state: StateId) -> Result<Option<State>, StoreError> {
    get(view, &keys::state(state))
}

/// States of a client: opens, locks, layouts and delegations.
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

/// True if a client has any state.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn has_state(view: &dyn View, client: ClientId) -> Result<bool, StoreError> {
    any_key(view, &keys::of(keys::CLIENT_STATES, &[client.0]))
}

/// Number of opens, lock-owners, locked ranges, layouts and delegations of a client.
pub(crate) fn client_uses(view: &dyn View, client: ClientId) -> Result<u64, StoreError> {
    Ok(get(view, &keys::client_uses(client))?.unwrap_or_default())
}

/// True if a client may have one more state.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn has_room(view: &dyn View, client: ClientId) -> Result<bool, StoreError> {
    Ok(client_uses(view, client)? < CLIENT_STATES_MAX)
}

/// Opens of a file, by client and open-owner.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn opens(view: &dyn View, inode: InodeId) -> Result<Vec<StateId>, StoreError> {
    collect(view, &keys::of(keys::OPENS, &[inode.0]))
}

/// A client's opens of a file.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn opens_of(view: &dyn View, inode: InodeId, client: ClientId) -> Result<Vec<OpenState>, StoreError> {
    let mut found = Vec::new();
    for id in opens(view, inode)? {
        if let Some(State::Open(open)) = state(view, id)?
            && open.client == client
        {
            found.push(open);
        }
    }
    Ok(found)
}

/// True if a file is open, or a client has a layout of it.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn in_use(view: &dyn View, inode: InodeId) -> Result<bool, StoreError> {
    Ok(view.get(&keys::uses(inode))?.is_some())
}

/// True if there are leftovers of ended clients and sessions to remove.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn has_leftovers(view: &dyn View) -> Result<bool, StoreError> {
    any_key(view, &[keys::LEFTOVERS])
}

/// True if a layout is a leftover of a return of all layouts.
pub(crate) fn is_returned(view: &dyn View, layout: &LayoutState) -> Result<bool, StoreError> {
    let left: Option<LeftLayouts> = get(view, &keys::left_layouts(layout.client))?;
    Ok(left.is_some_and(|left| layout.stateid.id < left.before))
}

/// Layouts of a file.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn layouts(view: &dyn View, inode: InodeId) -> Result<Vec<(ClientId, Stateid, IoMode)>, StoreError> {
    let ids: Vec<StateId> = collect(view, &keys::of(keys::LAYOUTS, &[inode.0]))?;
    let mut layouts = Vec::with_capacity(ids.len());
    for id in ids {
        if let Some(State::Layout(layout)) = state(view, id)?
            && client(view, layout.client)?.is_some()
            && !is_returned(view, &layout)?
        {
            layouts.push((layout.client, layout.stateid, layout.mode));
        }
    }
    Ok(layouts)
}

/// Client with the write delegation of a file, whose data and attributes it may have changed.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn write_delegation(view: &dyn View, inode: InodeId) -> Result<Option<ClientId>, StoreError> {
    get(view, &keys::write_delegation(inode))
}

/// Files of a volume with write delegations, and their holders, at most `max`, without leftovers of clients that have ended.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn write_delegations(
    view: &dyn View,
    volume: VolumeId,
    max: usize,
) -> Result<Vec<(InodeId, ClientId)>, StoreError> {
    let (mut from, to) = keys::of_volume(keys::WRITE_DELEGATIONS, volume);
    let mut files = Vec::new();
    loop {
        let page = some_keys(view, &from, &to, max)?;
        for key in &page {
            let file = InodeId(keys::number(key, 1));
            if let Some(holder) = write_delegation(view, file)?
                && client(view, holder)?.is_some()
            {
                files.push((file, holder));
            }
        }
        match page.last() {
            Some(last) if page.len() == max && files.len() < max => from = keys::after(last),
            _ => break,
        }
    }
    files.truncate(max);
    Ok(files)
}

/// Delegations of a file, without revoked ones.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn delegations(view: &dyn View, inode: InodeId) -> Result<Vec<(ClientId, Stateid)>, StoreError> {
    let ids: Vec<StateId> = collect(view, &keys::of(keys::DELEGATIONS, &[inode.0]))?;
    let mut delegations = Vec::with_capacity(ids.len());
    for id in ids {
        if let Some(State::Delegation(delegation)) = state(view, id)?
            && client(view, delegation.client)?.is_some()
        {
            delegations.push((delegation.client, delegation.stateid));
        }
    }
    Ok(delegations)
}

/// Files of a volume with delegations, at most `max`.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn delegated(view: &dyn View, volume: VolumeId, max: usize) -> Result<Vec<InodeId>, StoreError> {
    // From the root on: inode 0 has the revoked ones of all files.
    let (from, to) =
        (keys::of(keys::DELEGATIONS, &[volume.root().0]), keys::of_volume(keys::DELEGATIONS, volume).1);
    let mut files: Vec<InodeId> = Vec::new();
    view.scan(&from, &to, &mut |key, _| {
        let file = InodeId(keys::number(key, 1));
        if files.last() != Some(&file) {
            files.push(file);
        }
        if files.len() < max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(files)
}

/// Clients with revoked delegations that were not acknowledged with FREE_STATEID yet, one entry for each
/// delegation.
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

/// True if an open denies `wanted` to I/O without an open of its own: NFSv3, or an anonymous stateid (RFC
/// 8881, section 9.1.4.3). The opens of `except` do not count.
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

/// Clients whose opens deny `wanted` of a file: see [`share_conflict`].
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

/// Clients of opens of the file that deny `access` or have access that `deny` denies. Opens for which `own`
/// is true do not count.
fn open_conflicts(
    view: &dyn View,
    inode: InodeId,
    access: Share,
    deny: Share,
    own: impl Fn(ClientId, &[u8]) -> bool,
) -> Result<BTreeSet<ClientId>, StoreError> {
    let mut conflicts = BTreeSet::new();
    if !may_conflict(view, inode, access, deny, None)? {
        return Ok(conflicts); // the usual case
    }
    for id in opens(view, inode)? {
        if let Some(State::Open(open)) = state(view, id)?
            && !own(open.client, &open.owner)
            && (open.deny.intersects(access) || open.access.intersects(deny))
            && client(view, open.client)?.is_some()
        {
            conflicts.insert(open.client);
        }
    }
    Ok(conflicts)
}

/// True if an open of the file, other than `own`, denies `access` or has access that `deny` denies, by the
/// summary of use. The open may be a leftover.
pub(crate) fn may_conflict(
    view: &dyn View,
    inode: InodeId,
    access: Share,
    deny: Share,
    own: Option<StateId>,
) -> Result<bool, StoreError> {
    let Some(uses) = get::<Use>(view, &keys::uses(inode))? else { return Ok(false) };
    let conflicts = |uses: &Use| {
        share(uses.denying_read, uses.denying_write).intersects(access)
            || share(uses.reading, uses.writing).intersects(deny)
    };
    if !conflicts(&uses) {
        return Ok(false); // the usual case
    }
    let own = own.map(|own| state(view, own)).transpose()?.flatten();
    let others = uses.minus(own.as_ref().map(use_of).unwrap_or_default());
    Ok(others.is_none_or(|others| conflicts(&others)))
}

fn share(reading: u32, writing: u32) -> Share {
    Share(u8::from(reading > 0) | u8::from(writing > 0) << 1)
}
