//! LAYOUTGET, LAYOUTCOMMIT, LAYOUTRETURN (RFC 8881, sections 12.5 and 18.42 to 18.44).
//!
//! A files layout is granted and returned as a whole, so a client has at most one layout of a file, and one
//! state for it.

use store::StoreError;

use super::{conflicts, leftovers, open, table};
use crate::files::{epoch, remove, unsettled};
use crate::plan::{Broken, Plan, Stop};
use crate::record::get;
use crate::snapshot::objects;
use crate::{
    ClientId, DataPlace, Error, File, InodeId, IoMode, LayoutState, Observation, Placed, Reply, ReturnScope,
    SET_ID_BITS, SIZE_BYTES_MAX, State, StateId, Stateid, Time, keys, read,
};

/// Reason of the end of a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// The client returned it, or has none.
    Returned,
    /// The client lost it, and may still write.
    Revoked,
}

/// Request of a client for a layout of a file.
pub(crate) struct Asking {
    pub client: ClientId,
    pub inode: InodeId,
    pub stateid: Stateid,
    pub mode: IoMode,
    /// See [`LayoutState::export`].
    pub export: InodeId,
}

pub(crate) fn get_layout(
    plan: &mut Plan<'_>,
    asking: &Asking,
    made: Option<Placed>,
    version: u64,
) -> Result<Reply, Stop> {
    let Asking { client, inode, stateid, mode, export } = *asking;
    let mut file = plan.inode(inode)?;
    let File { layout, data } = file.file().ok_or(Error::WrongType)?;
    if inode.is_read_only() && (mode == IoMode::ReadWrite || data != DataPlace::Striped) {
        return Err(Error::LayoutUnavailable.into());
    }
    let presented = table::find(plan, client, stateid.id)?;
    if presented.inode() != inode {
        return Err(Error::BadStateid.into());
    }
    match &presented {
        State::Open(_) | State::Lock(_) => table::check_sequence(stateid, presented.stateid())?,
        State::Delegation(state) if state.is_revoked() => return Err(Error::DelegationRevoked.into()),
        State::Delegation(_) => table::check_sequence(stateid, presented.stateid())?,
        State::Layout(_) => table::check_layout_sequence(stateid, presented.stateid())?,
    }
    if mode == IoMode::ReadWrite && !open::may_write(plan, &presented)? {
        return Err(Error::OpenMode.into());
    }
    // The first write must clear the bits, and a write through a layout is not visible here.
    if mode == IoMode::ReadWrite && file.mode & SET_ID_BITS != 0 {
        return Err(Error::LayoutUnavailable.into());
    }
    objects::check_layout(plan, &file, mode == IoMode::ReadWrite)?;
    let becomes_striped = match data {
        DataPlace::Striped if read::pending_truncation(plan.view(), inode)? => {
            return Err(Error::Delay.into());
        }
        DataPlace::Striped => false,
        // No data to migrate, and its objects were made before the proposal.
        DataPlace::Inline if file.written == 0 && made.is_some() && made == file.placed() => true,
        DataPlace::Inline | DataPlace::Migrating => return Err(Error::Delay.into()),
    };
    let known = match of_client(plan, inode, client)? {
        // A returned layout that is not removed yet: the new one takes its place.
        Some(returned) if read::is_returned(plan.view(), &returned)? => {
            table::remove(plan, &State::Layout(returned))?;
            None
        }
        known => known,
    };
    if known.is_none() {
        table::check_room(plan, client)?;
    }

    if becomes_striped {
        file.move_data(DataPlace::Striped);
        objects::made(plan, inode)?;
        plan.put_inode(&file)?;
    }
    if mode == IoMode::ReadWrite {
        unsettled::mark(plan, inode, version)?;
    }
    let stateid = match known {
        Some(mut state) => {
            let before = State::Layout(state);
            table::advance(&mut state.stateid);
            state.recalled = false;
            if mode == IoMode::ReadWrite && state.mode == IoMode::Read {
                (state.mode, state.committed) = (mode, file.change);
            }
            table::replace(plan, &before, &State::Layout(state))?;
            state.stateid
        }
        None => {
            let stateid = table::new_stateid(plan)?;
            table::insert(
                plan,
                &State::Layout(LayoutState {
                    stateid,
                    client,
                    inode,
                    mode,
                    recalled: false,
                    committed: file.change,
                    export,
                }),
            )?;
            stateid
        }
    };
    Ok(Reply::Layout { stateid, inode, generation: file.generation, layout, layout_epoch: file.layout_epoch })
}

pub(crate) fn commit(
    plan: &mut Plan<'_>,
    client: ClientId,
    inode: InodeId,
    stateid: Stateid,
    last_write: Option<u64>,
    modified: Option<Time>,
    observed: Option<&Observation>,
) -> Result<Reply, Stop> {
    let mut file = plan.inode(inode)?;
    let mut state = find(plan, client, inode, stateid)?;
    if state.mode != IoMode::ReadWrite {
        return Err(Error::OpenMode.into());
    }
    if last_write.is_some_and(|last| last >= SIZE_BYTES_MAX) {
        return Err(Error::TooLarge.into());
    }
    let mark = read::unsettled(plan.view(), inode)?;
    let times_set = mark.is_some_and(|mark| mark.has_times_set(&state));
    let size_before = file.size;
    if let Some(last) = last_write {
        file.wrote(last + 1);
    }
    let later = match modified {
        Some(modified) => Some(modified).filter(|modified| *modified > file.modified),
        None => Some(file.modified).filter(|_| times_set),
    };
    file.data_changed(plan.now());
    file.modified = later.unwrap_or(file.modified);
    // The observed writes and the commit count once: the change attribute moves by one for both.
    if let Some(observed) = observed {
        unsettled::committed(plan, &mut file, observed)?;
    }
    plan.put_inode(&file)?;
    if times_set {
        let before = State::Layout(state);
        state.committed = file.change;
        table::replace(plan, &before, &State::Layout(state))?;
    }
    Ok(Reply::Committed { size: Some(file.size).filter(|size| *size > size_before) })
}

/// True if a client other than `except` has a layout of the file, or may have one: there are too many
/// leftovers to be sure.
pub(crate) fn held_by_others(
    plan: &Plan<'_>,
    inode: InodeId,
    except: Option<ClientId>,
) -> Result<bool, StoreError> {
    let (found, more) = conflicts::first_keys(plan, &keys::of(keys::LAYOUTS, &[inode.0]))?;
    for key in found.into_iter().filter(|key| Some(ClientId(keys::number(key, 9))) != except) {
        let layout = get(plan.view(), &key)?.map(|id| read::state(plan.view(), id)).transpose()?.flatten();
        if let Some(State::Layout(layout)) = layout
            && read::client(plan.view(), layout.client)?.is_some()
            && !read::is_returned(plan.view(), &layout)?
        {
            return Ok(true);
        }
    }
    Ok(more)
}

pub(crate) fn recall(plan: &mut Plan<'_>, client: ClientId, inode: InodeId) -> Result<Reply, Stop> {
    let Some(mut state) = of_client(plan, inode, client)? else { return Ok(Reply::State { stateid: None }) };
    if read::is_returned(plan.view(), &state)? {
        return Ok(Reply::State { stateid: None });
    }
    if !state.recalled {
        let before = State::Layout(state);
        table::advance(&mut state.stateid);
        state.recalled = true;
        table::replace(plan, &before, &State::Layout(state))?;
    }
    Ok(Reply::State { stateid: Some(state.stateid) })
}

pub(crate) fn give_back(plan: &mut Plan<'_>, client: ClientId, scope: &ReturnScope) -> Result<Reply, Stop> {
    match scope {
        ReturnScope::File { inode, stateid } => {
            let state = find(plan, client, *inode, *stateid)?;
            end(plan, state, Ended::Returned)?;
        }
        ReturnScope::Revoke { layout } => end_by_id(plan, client, *layout, Ended::Revoked)?,
        ReturnScope::Unknown { layout } => end_by_id(plan, client, *layout, Ended::Returned)?,
        ReturnScope::All => leftovers::of_layouts(plan, client)?,
    }
    Ok(Reply::State { stateid: None })
}

/// Ends the layout of the file that `client` has, if any. The caller must discard an orphan.
pub(super) fn end_of_client(
    plan: &mut Plan<'_>,
    inode: InodeId,
    client: ClientId,
    why: Ended,
) -> Result<(), Stop> {
    match of_client(plan, inode, client)? {
        Some(state) => remove_state(plan, state, why),
        None => Ok(()),
    }
}

pub(super) fn end(plan: &mut Plan<'_>, state: LayoutState, why: Ended) -> Result<(), Stop> {
    remove_state(plan, state, why)?;
    remove::discard_if_orphan(plan, state.inode)
}

fn remove_state(plan: &mut Plan<'_>, state: LayoutState, why: Ended) -> Result<(), Stop> {
    table::remove(plan, &State::Layout(state))?;
    match (why, state.mode) {
        (Ended::Revoked, IoMode::ReadWrite) => epoch::fence(plan, state.inode),
        (Ended::Revoked, IoMode::Read) | (Ended::Returned, _) => Ok(()),
    }
}

/// Ends the layout `id`, unless it was returned meanwhile.
fn end_by_id(plan: &mut Plan<'_>, client: ClientId, id: StateId, why: Ended) -> Result<(), Stop> {
    match read::state(plan.view(), id)? {
        Some(State::Layout(state)) if state.client == client => end(plan, state, why),
        _ => Ok(()),
    }
}

/// True if a client that has ended has a layout to write of the file as a leftover, or may have one: there are
/// too many to be sure.
pub(crate) fn is_left(plan: &Plan<'_>, inode: InodeId) -> Result<bool, StoreError> {
    if !read::any_key(plan.view(), &keys::of(keys::LEFTOVERS, &[0]))? {
        return Ok(false); // the usual case
    }
    let (found, more) = conflicts::first_keys(plan, &keys::of(keys::LAYOUTS, &[inode.0]))?;
    for key in found {
        if read::client(plan.view(), ClientId(keys::number(&key, 9)))?.is_none() {
            return Ok(true);
        }
    }
    Ok(more)
}

/// Returns the layout of this file with `stateid`.
fn find(plan: &Plan<'_>, client: ClientId, inode: InodeId, stateid: Stateid) -> Result<LayoutState, Stop> {
    match table::find(plan, client, stateid.id)? {
        State::Layout(layout) if layout.inode == inode => {
            table::check_layout_sequence(stateid, layout.stateid)?;
            Ok(layout)
        }
        State::Layout(_) | State::Open(_) | State::Lock(_) | State::Delegation(_) => {
            Err(Error::BadStateid.into())
        }
    }
}

pub(super) fn of_client(
    plan: &Plan<'_>,
    inode: InodeId,
    client: ClientId,
) -> Result<Option<LayoutState>, Stop> {
    let Some(id) = get::<StateId>(plan.view(), &keys::layout(inode, client))? else { return Ok(None) };
    match read::state(plan.view(), id)? {
        Some(State::Layout(layout)) => Ok(Some(layout)),
        Some(State::Open(_) | State::Lock(_) | State::Delegation(_)) | None => {
            Err(Broken("the index of layouts names another state").into())
        }
    }
}
