//! Clients, sessions, opens, locks and layouts.

use std::collections::{BTreeMap, BTreeSet};

use store::{StoreError, View};

use super::left::Left;
use super::locks;
use super::{Findings, marks, table};
use crate::record::{AddressUse, Counters, OwnerRecord, SlotRecord, Use};
use crate::states::{client_use_of, index_key, union_of_opened, use_of};
use crate::{
    ClientId, ClientRecord, Inode, InodeId, IoMode, OpenState, Reply, SessionRecord, Share, Snapshots, Stage,
    State, StateCounts, StateId, Unsettled, VolumeId, keys, read,
};

pub(super) fn check(
    view: &dyn View,
    counters: &Counters,
    inodes: &BTreeMap<InodeId, Inode>,
    findings: &mut Findings,
) -> Result<(), StoreError> {
    let clients = clients(view, counters, findings)?;
    let left = Left::read(view, findings)?;
    sessions(view, counters, &clients, &left, findings)?;
    let states: BTreeMap<StateId, State> = table::<State>(view, keys::STATES, findings)?
        .into_iter()
        .map(|(key, state)| (StateId(keys::number(&key, 1)), state))
        .collect();
    let removed: Vec<VolumeId> = read::collect(view, &keys::of(keys::LEFTOVERS, &[7]))?;
    for (id, state) in &states {
        let given = id.0 < counters.next_state || id.is_brief() && matches!(state, State::Open(_));
        findings.expect(*id == state.stateid().id && given, || {
            format!("{id:?} calls itself {:?}", state.stateid())
        });
        findings.expect(state.stateid().sequence > 0, || format!("{id:?} has sequence 0"));
        let confirmed = clients.get(&state.client()).is_some_and(|client| client.confirmed);
        findings.expect(confirmed || left.has_not_removed(state), || {
            format!("{id:?} is of {:?}, which is not there or not confirmed, nor left over", state.client())
        });
        let of_snapshot = match state.inode() {
            shown if shown.is_read_only() => read::inode(&Snapshots(view), shown)?,
            _ => None,
        };
        let inode = inodes.get(&state.inode()).or(of_snapshot.as_ref());
        let revoked = matches!(state, State::Delegation(delegation) if delegation.is_revoked());
        // Of a clone that was removed, the files are not shown any more.
        let origin = read::origin(view, state.inode().volume())?;
        let is_left = removed.contains(&state.inode().volume())
            || origin.is_some_and(|origin| origin.stage == Stage::Removed);
        findings.expect(revoked || is_left || inode.is_some_and(|inode| inode.layout().is_some()), || {
            format!("{id:?} is of {:?}, which is not there or not a file", state.inode())
        });
        if let State::Layout(layout) = state {
            findings.expect(inode.is_some_and(|inode| inode.columns().is_some()), || {
                format!("{layout:?}, and the file has no objects")
            });
        }
    }
    let mut counted = StateCounts::default();
    states.values().for_each(|state| *counted.of(state) += 1);
    findings.expect(counted == counters.states, || {
        format!("{counted:?} are there, and the counters say {:?}", counters.states)
    });
    indexes(view, &states, findings)?;
    unsettled(view, inodes, &states, findings)?;
    left.check(&clients, &states, findings);
    let counting: Vec<&State> =
        states.values().filter(|state| clients.contains_key(&state.client())).collect();
    shares(&counting, &left, findings);
    locks::check(view, &clients, &states, &left, findings)
}

/// Checks that files with a layout to write are unsettled, and that unsettled files without one are listed.
fn unsettled(
    view: &dyn View,
    inodes: &BTreeMap<InodeId, Inode>,
    states: &BTreeMap<StateId, State>,
    findings: &mut Findings,
) -> Result<(), StoreError> {
    let written: BTreeSet<InodeId> = states
        .values()
        .filter(|state| matches!(state, State::Layout(layout) if layout.mode == IoMode::ReadWrite))
        .map(State::inode)
        .collect();
    let marked: BTreeSet<InodeId> = table::<Unsettled>(view, keys::UNSETTLED, findings)?
        .keys()
        .map(|key| InodeId(keys::number(key, 1)))
        .collect();
    for inode in &marked {
        let columns = inodes.get(inode).and_then(Inode::columns);
        findings.expect(columns.is_some(), || format!("{inode:?} is unsettled, and has no objects"));
    }
    findings.expect(written.is_subset(&marked), || {
        format!("{written:?} have layouts to write, and unsettled are {marked:?}")
    });
    let listed: BTreeSet<InodeId> =
        marks(view, keys::TO_SETTLE)?.iter().map(|key| InodeId(keys::number(key, 1))).collect();
    let untold = marks(view, keys::SPACE_UNTOLD)?;
    let untold: BTreeSet<InodeId> = untold.iter().map(|key| InodeId(keys::number(key, 1))).collect();
    let expected: BTreeSet<InodeId> =
        inodes.values().filter(|inode| !inode.space_is_told).map(|inode| inode.id).collect();
    findings
        .expect(untold == expected, || format!("{untold:?} are to tell their space, {expected:?} have not"));
    findings.expect(marked.difference(&written).eq(&listed), || {
        format!("{listed:?} are to be settled, unsettled are {marked:?}, with layouts to write {written:?}")
    });
    Ok(())
}

fn clients(
    view: &dyn View,
    counters: &Counters,
    findings: &mut Findings,
) -> Result<BTreeMap<ClientId, ClientRecord>, StoreError> {
    let clients: BTreeMap<ClientId, ClientRecord> = table::<ClientRecord>(view, keys::CLIENTS, findings)?
        .into_iter()
        .map(|(key, client)| (ClientId(keys::number(&key, 1)), client))
        .collect();
    let mut owned = BTreeSet::new();
    for (key, known) in table::<OwnerRecord>(view, keys::OWNERS, findings)? {
        let owner = &key[1..];
        findings.expect(known != OwnerRecord::default(), || format!("owner {owner:02x?} has no client"));
        let unconfirmed = known.unconfirmed.iter().map(|id| (Some(*id), false));
        for (id, confirmed) in std::iter::once((known.confirmed, true)).chain(unconfirmed) {
            let Some(id) = id else { continue };
            owned.insert(id);
            let agrees = |client: &ClientRecord| client.owner == owner && client.confirmed == confirmed;
            findings.expect(clients.get(&id).is_some_and(agrees), || {
                format!("owner {owner:02x?} has {id:?} (confirmed: {confirmed}), which does not agree")
            });
        }
    }
    for (id, client) in &clients {
        findings.expect(*id == client.id, || format!("{id:?} calls itself {:?}", client.id));
        findings.expect(owned.contains(id), || format!("{id:?} is not known by its owner"));
        findings.expect(client.lapsed.is_none() || client.confirmed, || {
            format!("{id:?} lapsed before it was confirmed")
        });
    }
    let unconfirmed: Vec<Vec<u8>> =
        clients.values().filter(|client| !client.confirmed).map(|c| keys::unconfirmed(c.id)).collect();
    findings.expect(marks(view, keys::UNCONFIRMED)? == unconfirmed, || {
        format!("unconfirmed are {unconfirmed:02x?}, which 16 does not say")
    });
    let mut of_address: Vec<Vec<u8>> = Vec::new();
    for client in clients.values().filter(|client| !client.confirmed) {
        of_address.extend(client.addresses.first().map(|address| keys::unconfirmed_of(*address, client.id)));
    }
    of_address.sort_unstable();
    findings.expect(marks(view, keys::ADDRESS_UNCONFIRMED)? == of_address, || {
        format!("unconfirmed by address are {of_address:02x?}, which 1c does not say")
    });
    let confirmed = clients.values().filter(|client| client.confirmed).count();
    findings.expect(confirmed == counters.clients as usize, || {
        format!("{confirmed} clients are confirmed, and counted are {}", counters.clients)
    });
    findings.expect(unconfirmed.len() == counters.unconfirmed as usize, || {
        format!("{} clients are unconfirmed, and counted are {}", unconfirmed.len(), counters.unconfirmed)
    });
    Ok(clients)
}

/// Checks the counts of each address.
fn address_uses(
    view: &dyn View,
    clients: &BTreeMap<ClientId, ClientRecord>,
    sessions: &BTreeMap<Vec<u8>, SessionRecord>,
    findings: &mut Findings,
) -> Result<(), StoreError> {
    let mut uses: BTreeMap<Vec<u8>, AddressUse> = BTreeMap::new();
    for client in clients.values() {
        let Some(address) = client.addresses.first() else {
            findings.expect(false, || format!("{:?} has no address", client.id));
            continue;
        };
        let of = uses.entry(keys::address_use(*address)).or_default();
        match client.confirmed {
            true => of.clients += 1,
            false => of.unconfirmed += 1,
        }
        of.sessions += sessions.values().filter(|session| session.client == client.id).count() as u32;
    }
    let known: BTreeMap<Vec<u8>, AddressUse> =
        table::<AddressUse>(view, keys::ADDRESS_USES, findings)?.into_iter().collect();
    findings.expect(known == uses, || format!("addresses have {uses:?}, and are said to have {known:?}"));
    Ok(())
}

fn sessions(
    view: &dyn View,
    counters: &Counters,
    clients: &BTreeMap<ClientId, ClientRecord>,
    left: &Left,
    findings: &mut Findings,
) -> Result<(), StoreError> {
    let sessions: BTreeMap<Vec<u8>, SessionRecord> = table(view, keys::SESSIONS, findings)?;
    findings.expect(sessions.len() == counters.sessions as usize, || {
        format!("{} sessions are there, and counted are {}", sessions.len(), counters.sessions)
    });
    address_uses(view, clients, &sessions, findings)?;
    let mut indexed = BTreeSet::new();
    for (key, session) in &sessions {
        findings.expect(*key == keys::session(session.id), || format!("{session:?} is under {key:02x?}"));
        findings.expect(clients.get(&session.client).is_some_and(|client| client.confirmed), || {
            format!("{session:?} is of a client that is not there or not confirmed")
        });
        indexed.insert(keys::client_session(session.client, session.id));
    }
    let marks: BTreeSet<Vec<u8>> = marks(view, keys::CLIENT_SESSIONS)?.into_iter().collect();
    findings.expect(marks == indexed, || "the sessions of clients are not those that there are".to_string());
    let mut replies: BTreeMap<Vec<u8>, Reply> = table(view, keys::SLOT_REPLIES, findings)?;
    replies.retain(|key, _| !left.sessions.contains(&key[1..17]));
    for (key, slot) in table::<SlotRecord>(view, keys::SLOTS, findings)? {
        if left.sessions.contains(&key[1..17]) {
            continue;
        }
        let session = [&[keys::SESSIONS], key.get(1..17).unwrap_or_default()].concat();
        findings.expect(sessions.contains_key(&session), || format!("slot {key:02x?} is of no session"));
        let number = &key[1..];
        let further: Vec<_> = replies.extract_if(.., |of, _| of[1..].starts_with(number)).collect();
        findings.expect(slot.more != further.is_empty(), || {
            format!("slot {key:02x?} says that there are more replies: {}, and has {further:?}", slot.more)
        });
        let twice = further.iter().any(|(of, _)| of.ends_with(&slot.index.to_be_bytes()));
        findings.expect(!twice, || format!("slot {key:02x?} answered twice"));
    }
    findings.expect(replies.is_empty(), || format!("replies of no slot: {replies:02x?}"));
    Ok(())
}

/// Checks that every index has exactly the existing states, and that the summaries of use are their sums.
fn indexes(
    view: &dyn View,
    states: &BTreeMap<StateId, State>,
    findings: &mut Findings,
) -> Result<(), StoreError> {
    let mut by_client = BTreeSet::new();
    let mut by_inode = BTreeMap::new();
    let mut uses: BTreeMap<Vec<u8>, Use> = BTreeMap::new();
    let mut client_uses: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    for (id, state) in states {
        by_client.insert(keys::client_state(state.client(), *id));
        if let Some(other) = by_inode.insert(index_key(state), *id) {
            findings.add(format!("{id:?} and {other:?} are the same state: {state:?}"));
        }
        *client_uses.entry(keys::client_uses(state.client())).or_default() += client_use_of(state);
        let used = use_of(state);
        if used != Use::default() {
            let sum = uses.entry(keys::uses(state.inode())).or_default();
            *sum = sum.plus(used);
        }
    }
    let marks: BTreeSet<Vec<u8>> = marks(view, keys::CLIENT_STATES)?.into_iter().collect();
    findings.expect(marks == by_client, || "the states of clients are not those that there are".to_string());
    let mut indexed = BTreeMap::new();
    for tag in [keys::OPENS, keys::LOCK_STATES, keys::LAYOUTS, keys::DELEGATIONS] {
        indexed.append(&mut table::<StateId>(view, tag, findings)?);
    }
    let writes = |state: &&State| matches!(state, State::Delegation(delegation) if delegation.writes());
    let writers: BTreeMap<Vec<u8>, ClientId> = states
        .values()
        .filter(writes)
        .map(|state| (keys::write_delegation(state.inode()), state.client()))
        .collect();
    let listed = table::<ClientId>(view, keys::WRITE_DELEGATIONS, findings)?;
    findings.expect(listed == writers, || format!("write delegations are {writers:?}, listed {listed:?}"));
    findings.expect(indexed == by_inode, || format!("files have {indexed:02x?}, there are {by_inode:02x?}"));
    let counted = table::<u64>(view, keys::CLIENT_USES, findings)?;
    findings
        .expect(counted == client_uses, || format!("clients have {counted:02x?}, not {client_uses:02x?}"));
    let summaries = table::<Use>(view, keys::USES, findings)?;
    findings.expect(summaries == uses, || format!("files are used as {summaries:02x?}, not {uses:02x?}"));
    for key in super::marks(view, keys::CONTENDED)? {
        let inode = InodeId(keys::number(&key, 1));
        let is_delegated = uses.get(&keys::uses(inode)).is_some_and(|uses| uses.delegations > 0);
        findings.expect(is_delegated, || format!("{inode:?} is contended without a delegation"));
    }
    Ok(())
}

/// Checks that no open denies the access of another one; that a lock belongs to an open of its client, and a
/// layout to an open or a delegation; and that a delegation excludes another client's open for writing.
fn shares(states: &[&State], left: &Left, findings: &mut Findings) {
    let mut opens: BTreeMap<InodeId, Vec<&OpenState>> = BTreeMap::new();
    let by_id: BTreeMap<StateId, &State> = states.iter().map(|state| (state.stateid().id, *state)).collect();
    for state in states {
        if let State::Open(open) = state {
            findings.expect(union_of_opened(open.opened) == (open.access, open.deny), || {
                format!("{open:?} was never opened so")
            });
            let others = opens.entry(open.inode).or_default();
            for other in others.iter() {
                let conflict = open.deny.intersects(other.access) || other.deny.intersects(open.access);
                findings.expect(!conflict, || format!("{open:?} conflicts with {other:?}"));
            }
            others.push(open);
        }
    }
    let delegations: BTreeSet<(InodeId, ClientId)> = states
        .iter()
        .filter(|state| matches!(state, State::Delegation(delegation) if !delegation.is_revoked()))
        .map(|state| (state.inode(), state.client()))
        .collect();
    for state in states {
        match state {
            State::Open(_) => {}
            State::Lock(lock) => {
                let under = by_id.get(&lock.open);
                let holds = matches!(under, Some(State::Open(open)) if (open.client, open.inode) == (lock.client, lock.inode));
                let is_left = under.is_none() && left.has_closed(lock);
                findings.expect(holds || is_left, || format!("{lock:?} is under {under:?}"));
            }
            State::Layout(layout) => {
                let opens = opens.get(&layout.inode);
                let open = opens.is_some_and(|opens| opens.iter().any(|open| open.client == layout.client));
                let delegated = delegations.contains(&(layout.inode, layout.client));
                findings.expect(open || delegated, || format!("{layout:?} is under no open"));
            }
            State::Delegation(delegation) if delegation.is_revoked() => {}
            State::Delegation(delegation) => {
                let others = opens.get(&delegation.inode).into_iter().flatten();
                for other in others.filter(|open| open.client != delegation.client) {
                    let conflict = delegation.writes()
                        || other.access.contains(Share::WRITE)
                        || other.deny.contains(Share::READ);
                    findings.expect(!conflict, || format!("{delegation:?} conflicts with {other:?}"));
                }
                let of_file = (delegation.inode, ClientId(0))..=(delegation.inode, ClientId(u64::MAX));
                let is_only = delegations.range(of_file).count() == 1;
                findings.expect(!delegation.writes() || is_only, || {
                    format!("{delegation:?} is not the only one")
                });
            }
        }
    }
}
