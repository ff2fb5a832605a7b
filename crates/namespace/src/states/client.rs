//! EXCHANGE_ID, DESTROY_CLIENTID, RECLAIM_COMPLETE, and the end of a client (RFC 8881, sections 18.35, 18.50,
//! 18.51).
//!
//! A `co_ownerid` has the confirmed incarnation in use, and an unconfirmed one for each address that asked, of
//! which CREATE_SESSION puts one in its place. So a caller at another address, which claims the name of a
//! client that mounts, cannot take its record away between the two calls. The cases below are those of the
//! table in section 18.35.5. The number of records is bounded, in total, for each owner and for each address:
//! see [`UNCONFIRMED_MAX`] and the bounds beside it.
//!
//! **Proof of identity.** With AUTH_SYS any caller can claim any principal, and any `co_ownerid`: a host
//! name. A client proves itself by its verifier, known only to that incarnation of the client, and by its
//! address. So a restarted client (another verifier) ends its former incarnation if its address is one of
//! that incarnation's; from another address it waits until the lease of the former incarnation has run out. A
//! client with the right verifier and a new address gets that address added.
//!
//! A client whose lease has run out is *lapsed*: it keeps its states by courtesy. A request that conflicts
//! with one of these states ends the client, and goes on (`conflicts.rs`). A client that renews before that
//! keeps all.

use std::net::{IpAddr, Ipv6Addr};
use std::ops::ControlFlow;

use store::StoreError;

use super::{leftovers, session};
use crate::plan::{Plan, Stop};
use crate::record::{AddressUse, OwnerRecord, get};
use crate::{
    ADDRESSES_OF_CLIENT_MAX, CLIENTS_MAX, CLIENTS_OF_ADDRESS_MAX, ClientId, ClientRecord, Error, Principal,
    Reply, UNCONFIRMED_MAX, UNCONFIRMED_OF_ADDRESS_MAX, UNCONFIRMED_OF_OWNER_MAX, keys, read,
};

/// Identity that a caller claims.
pub(crate) struct Claim<'a> {
    pub owner: &'a [u8],
    pub verifier: [u8; 8],
    pub principal: &'a Principal,
    pub address: IpAddr,
}

pub(crate) fn exchange_id(plan: &mut Plan<'_>, by: &Claim<'_>, update: bool) -> Result<Reply, Stop> {
    let known = owner_record(plan, by.owner)?;
    let confirmed = match known.confirmed {
        Some(id) => read::client(plan.view(), id)?,
        None => None,
    };
    match confirmed {
        // Cases 7, 8, 9 and 6: only the confirmed client may update.
        None if update => Err(Error::NotConfirmed.into()),
        Some(client) if update => {
            if client.verifier != by.verifier {
                return Err(Error::NotSame.into());
            }
            if client.principal != *by.principal {
                return Err(Error::Permission.into());
            }
            confirmed_reply(plan, client, by.address)
        }
        // Case 3: two clients chose one owner. The older client keeps it as long as it has state.
        Some(client) if client.principal != *by.principal => {
            if client.lapsed.is_none() && is_busy(plan, client.id)? {
                return Err(Error::ClientInUse.into());
            }
            end(plan, &client)?;
            replace_unconfirmed(plan, by)
        }
        // Case 2: the client repeats the request, perhaps over another path.
        Some(client) if client.verifier == by.verifier => confirmed_reply(plan, client, by.address),
        // Case 5: the client restarted, if it is the same. Its old state ends when it confirms this record.
        Some(client) => {
            let is_elsewhere = !client.addresses.contains(&by.address);
            if is_elsewhere && client.lapsed.is_none() && is_busy(plan, client.id)? {
                return Err(Error::ClientInUse.into());
            }
            replace_unconfirmed(plan, by)
        }
        // Cases 1 and 4.
        None => replace_unconfirmed(plan, by),
    }
}

/// Reply to a confirmed client with the right verifier; adds its address.
fn confirmed_reply(plan: &mut Plan<'_>, mut client: ClientRecord, from: IpAddr) -> Result<Reply, Stop> {
    if !client.addresses.contains(&from) {
        if client.addresses.len() >= ADDRESSES_OF_CLIENT_MAX {
            client.addresses.remove(1); // the first address is the one that counts
        }
        client.addresses.push(from);
        plan.put(&keys::client(client.id), &client)?;
    }
    Ok(Reply::Client { id: client.id, sequence: client.sequence.wrapping_add(1), confirmed: true })
}

/// Makes an unconfirmed record, in place of the owner's earlier one of this address, if any.
fn replace_unconfirmed(plan: &mut Plan<'_>, by: &Claim<'_>) -> Result<Reply, Stop> {
    let mut others = Vec::new();
    for id in owner_record(plan, by.owner)?.unconfirmed {
        let Some(old) = read::client(plan.view(), id)? else { continue };
        if counts_at(&old).map(network_of) == Some(network_of(by.address)) {
            end(plan, &old)?;
        } else {
            others.push(old);
        }
    }
    if others.len() >= UNCONFIRMED_OF_OWNER_MAX {
        end(plan, &others[0])?;
    }
    let oldest = if address_use(plan, by.address)?.unconfirmed >= UNCONFIRMED_OF_ADDRESS_MAX {
        oldest_unconfirmed(plan, &keys::unconfirmed_of_address(by.address))?
    } else if plan.counters()?.unconfirmed >= UNCONFIRMED_MAX {
        oldest_unconfirmed(plan, &[keys::UNCONFIRMED])?
    } else {
        None
    };
    if let Some(oldest) = oldest {
        end(plan, &oldest)?;
    }
    let id = plan.count(|counters| {
        counters.unconfirmed += 1;
        let id = ClientId(u64::from(counters.client_prefix) << 32 | u64::from(counters.next_client));
        counters.next_client = counters.next_client.wrapping_add(1);
        id
    })?;
    let client = ClientRecord {
        id,
        owner: by.owner.to_vec(),
        verifier: by.verifier,
        principal: by.principal.clone(),
        confirmed: false,
        sequence: 0,
        created_session: None,
        reclaim_complete: false,
        lapsed: None,
        addresses: vec![by.address],
    };
    plan.put(&keys::client(id), &client)?;
    plan.mark(&keys::unconfirmed(id));
    plan.mark(&keys::unconfirmed_of(by.address, id));
    change_address_use(plan, by.address, |uses| uses.unconfirmed += 1)?;
    let mut known = owner_record(plan, by.owner)?;
    known.unconfirmed.push(id);
    plan.put(&keys::owner(by.owner), &known)?;
    Ok(Reply::Client { id, sequence: 1, confirmed: false })
}

/// Network of one host: an IPv4 address, or the /64 that an IPv6 host can choose its addresses from.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

/// Oldest unconfirmed client under `prefix`: the first, because ids ascend.
fn oldest_unconfirmed(plan: &Plan<'_>, prefix: &[u8]) -> Result<Option<ClientRecord>, StoreError> {
    let mut oldest = None;
    read::scan_keys(plan.view(), prefix, |key| {
        oldest = Some(ClientId(keys::number(key, prefix.len())));
        ControlFlow::Break(())
    })?;
    match oldest {
        Some(id) => read::client(plan.view(), id),
        None => Ok(None),
    }
}

/// Deletes the marks of an unconfirmed client that was confirmed or ends.
fn no_more_unconfirmed(plan: &mut Plan<'_>, client: &ClientRecord) -> Result<(), StoreError> {
    plan.delete(&keys::unconfirmed(client.id));
    plan.count(|counters| counters.unconfirmed = counters.unconfirmed.saturating_sub(1))?;
    let Some(address) = counts_at(client) else { return Ok(()) };
    plan.delete(&keys::unconfirmed_of(address, client.id));
    change_address_use(plan, address, |uses| uses.unconfirmed = uses.unconfirmed.saturating_sub(1))
}

/// Address at which a client is counted.
pub(super) fn counts_at(client: &ClientRecord) -> Option<IpAddr> {
    client.addresses.first().copied()
}

pub(super) fn address_use(plan: &Plan<'_>, address: IpAddr) -> Result<AddressUse, StoreError> {
    Ok(get(plan.view(), &keys::address_use(address))?.unwrap_or_default())
}

/// Changes the counts of an address.
pub(super) fn change_address_use(
    plan: &mut Plan<'_>,
    address: IpAddr,
    change: impl FnOnce(&mut AddressUse),
) -> Result<(), StoreError> {
    let key = keys::address_use(address);
    let mut uses = address_use(plan, address)?;
    change(&mut uses);
    plan.put_or_delete(&key, &uses)
}

/// Checks that `client` may be confirmed within the bounds, in place of `old` of the same owner.
pub(super) fn check_room(
    plan: &Plan<'_>,
    client: &ClientRecord,
    old: Option<&ClientRecord>,
) -> Result<(), Stop> {
    let full = plan.counters()?.clients >= CLIENTS_MAX && old.is_none();
    let of_address = match counts_at(client) {
        Some(address) if old.and_then(counts_at) != Some(address) => address_use(plan, address)?.clients,
        _ => 0,
    };
    if full || of_address >= CLIENTS_OF_ADDRESS_MAX {
        return Err(Error::TooManyClients.into());
    }
    Ok(())
}

/// Confirmed client with the same owner as `client`.
pub(super) fn incarnation_before(
    plan: &Plan<'_>,
    client: &ClientRecord,
) -> Result<Option<ClientRecord>, StoreError> {
    match owner_record(plan, &client.owner)?.confirmed {
        Some(old) => read::client(plan.view(), old),
        None => Ok(None),
    }
}

/// Confirms `client` for its owner, and ends the incarnation before it. The caller puts its record.
pub(super) fn confirm(
    plan: &mut Plan<'_>,
    client: &mut ClientRecord,
    old: Option<&ClientRecord>,
) -> Result<(), Stop> {
    if let Some(old) = old {
        end(plan, old)?;
    }
    for id in owner_record(plan, &client.owner)?.unconfirmed {
        if id != client.id
            && let Some(other) = read::client(plan.view(), id)?
        {
            end(plan, &other)?;
        }
    }
    no_more_unconfirmed(plan, client)?;
    client.confirmed = true;
    plan.count(|counters| counters.clients += 1)?;
    if let Some(address) = counts_at(client) {
        change_address_use(plan, address, |uses| uses.clients += 1)?;
    }
    let known = OwnerRecord { confirmed: Some(client.id), unconfirmed: vec![] };
    Ok(plan.put(&keys::owner(&client.owner), &known)?)
}

pub(crate) fn destroy(plan: &mut Plan<'_>, client: ClientId) -> Result<Reply, Stop> {
    let client = find(plan, client)?;
    if is_busy(plan, client.id)? {
        return Err(Error::ClientBusy.into());
    }
    end(plan, &client)?;
    Ok(Reply::Done)
}

pub(crate) fn lapse_lease(
    plan: &mut Plan<'_>,
    client: ClientId,
    sequence: Option<u32>,
) -> Result<Reply, Stop> {
    let mut client = find(plan, client)?;
    if sequence.is_some_and(|judged| judged != client.sequence) {
        return Err(Error::ClientBusy.into());
    }
    if !read::has_state(plan.view(), client.id)? {
        end(plan, &client)?;
    } else if client.lapsed.is_none() {
        client.lapsed = Some(plan.now());
        plan.put(&keys::client(client.id), &client)?;
    }
    Ok(Reply::Done)
}

pub(crate) fn renew_lease(plan: &mut Plan<'_>, client: ClientId) -> Result<Reply, Stop> {
    let mut client = find(plan, client)?;
    if client.lapsed.take().is_some() {
        plan.put(&keys::client(client.id), &client)?;
    }
    Ok(Reply::Done)
}

pub(crate) fn expire(plan: &mut Plan<'_>, client: ClientId) -> Result<Reply, Stop> {
    let client = find(plan, client)?;
    if client.lapsed.is_none() {
        return Err(Error::ClientBusy.into());
    }
    end(plan, &client)?;
    Ok(Reply::Done)
}

pub(crate) fn reclaim_complete(plan: &mut Plan<'_>, client: ClientId) -> Result<Reply, Stop> {
    let mut client = find(plan, client)?;
    if client.reclaim_complete {
        return Err(Error::CompleteAlready.into());
    }
    client.reclaim_complete = true;
    plan.put(&keys::client(client.id), &client)?;
    Ok(Reply::Done)
}

pub(super) fn find(plan: &Plan<'_>, client: ClientId) -> Result<ClientRecord, Stop> {
    Ok(read::client(plan.view(), client)?.ok_or(Error::StaleClient)?)
}

fn owner_record(plan: &Plan<'_>, owner: &[u8]) -> Result<OwnerRecord, StoreError> {
    Ok(get(plan.view(), &keys::owner(owner))?.unwrap_or_default())
}

fn is_busy(plan: &Plan<'_>, client: ClientId) -> Result<bool, StoreError> {
    Ok(read::has_state(plan.view(), client)?
        || read::any_key(plan.view(), &keys::of(keys::CLIENT_SESSIONS, &[client.0]))?)
}

/// Ends a client with all its state. From then on it has no record, and its states conflict with nothing.
/// States beyond the bound of one command are removed later, see `leftovers.rs`.
pub(super) fn end(plan: &mut Plan<'_>, client: &ClientRecord) -> Result<(), Stop> {
    for id in read::sessions(plan.view(), client.id)? {
        session::end(plan, client, id)?;
    }
    if client.confirmed {
        plan.count(|counters| counters.clients = counters.clients.saturating_sub(1))?;
        if let Some(address) = counts_at(client) {
            change_address_use(plan, address, |uses| uses.clients = uses.clients.saturating_sub(1))?;
        }
    } else {
        no_more_unconfirmed(plan, client)?;
    }
    plan.delete(&keys::client(client.id));
    let mut known = owner_record(plan, &client.owner)?;
    known.confirmed = known.confirmed.filter(|id| *id != client.id);
    known.unconfirmed.retain(|id| *id != client.id);
    let key = keys::owner(&client.owner);
    plan.put_or_delete(&key, &known)?;
    leftovers::of_client(plan, client.id)
}
