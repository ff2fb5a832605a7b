//! The model's clients and sessions.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use namespace::*;

use super::{Outcome, Plain};

#[derive(Debug, Clone)]
pub struct PlainClient {
    pub owner: Vec<u8>,
    pub verifier: [u8; 8],
    pub principal: Principal,
    pub confirmed: bool,
    pub sequence: u32,
    /// What the last CREATE_SESSION was answered.
    pub answered: Option<Reply>,
    pub reclaimed: bool,
    pub lapsed: Option<Time>,
    pub addresses: Vec<IpAddr>,
}

#[derive(Debug, Clone)]
pub struct PlainSession {
    pub client: ClientId,
    pub channels: Channels,
    /// Sequence, and replies by index.
    pub slots: BTreeMap<u32, (u32, BTreeMap<u32, Reply>)>,
}

impl Plain {
    fn confirmed_of(&self, owner: &[u8]) -> Option<ClientId> {
        let is = |client: &PlainClient| client.owner == owner && client.confirmed;
        self.clients.iter().find(|(_, client)| is(client)).map(|(id, _)| *id)
    }

    fn is_busy(&self, client: ClientId) -> bool {
        self.has_state(client) || self.sessions.values().any(|session| session.client == client)
    }

    pub fn has_state(&self, client: ClientId) -> bool {
        self.opens.values().any(|open| open.client == client)
            || self.locks.values().any(|lock| lock.client == client)
            || self.layouts.values().any(|layout| layout.client == client)
            || self.delegations.values().any(|delegation| delegation.client == client)
    }

    fn unconfirmed_of(&self, owner: &[u8]) -> Vec<ClientId> {
        let of_owner = self.clients.iter().filter(|(_, client)| client.owner == owner && !client.confirmed);
        of_owner.map(|(id, _)| *id).collect()
    }

    pub(super) fn exchange_id(
        &mut self,
        owner: &[u8],
        verifier: [u8; 8],
        principal: &Principal,
        update: bool,
        address: IpAddr,
    ) -> Outcome {
        if let Some(id) = self.confirmed_of(owner) {
            let client = &self.clients[&id];
            let known = Reply::Client { id, sequence: client.sequence + 1, confirmed: true };
            let (same_verifier, same_principal) =
                (client.verifier == verifier, client.principal == *principal);
            match (update, same_verifier, same_principal) {
                (true, true, true) => return Ok(self.shows_verifier(id, address, known)),
                (true, false, _) => return Err(Error::NotSame),
                (true, true, false) => return Err(Error::Permission),
                (false, true, true) => return Ok(self.shows_verifier(id, address, known)),
                (false, _, false) if self.is_busy(id) && self.clients[&id].lapsed.is_none() => {
                    return Err(Error::ClientInUse);
                }
                (false, _, false) => self.end_client(id),
                (false, false, true) => {
                    let client = &self.clients[&id];
                    if !client.addresses.contains(&address) && client.lapsed.is_none() && self.is_busy(id) {
                        return Err(Error::ClientInUse);
                    }
                }
            }
        } else if update {
            return Err(Error::NotConfirmed);
        }
        let of_owner: Vec<ClientId> = self.unconfirmed_of(owner);
        assert!(of_owner.len() < UNCONFIRMED_OF_OWNER_MAX, "the model has few addresses");
        for old in of_owner {
            if self.clients[&old].addresses[0] == address {
                self.end_client(old);
            }
        }
        let unconfirmed = self.clients.values().filter(|client| !client.confirmed).count();
        assert!(unconfirmed < UNCONFIRMED_MAX as usize, "the model has no flood");
        let id = ClientId(self.next_client);
        self.next_client += 1;
        let client = PlainClient {
            owner: owner.to_vec(),
            verifier,
            principal: principal.clone(),
            confirmed: false,
            sequence: 0,
            answered: None,
            reclaimed: false,
            lapsed: None,
            addresses: vec![address],
        };
        self.clients.insert(id, client);
        Ok(Reply::Client { id, sequence: 1, confirmed: false })
    }

    pub(super) fn create_session(
        &mut self,
        id: ClientId,
        sequence: u32,
        principal: &Principal,
        channels: Channels,
        address: IpAddr,
    ) -> Outcome {
        let client = self.clients.get(&id).ok_or(Error::StaleClient)?.clone();
        if !client.addresses.contains(&address) {
            return Err(Error::StaleClient);
        }
        if !client.confirmed && client.principal != *principal {
            return Err(Error::ClientInUse);
        }
        match client.answered {
            Some(reply) if sequence == client.sequence => return Ok(reply),
            _ if sequence != client.sequence + 1 => return Err(Error::Misordered),
            _ => {}
        }
        let has = self.sessions.values().filter(|session| session.client == id).count();
        if has >= SESSIONS_OF_CLIENT_MAX {
            return Err(Error::TooManyClients);
        }
        let ended = if client.confirmed { None } else { self.confirmed_of(&client.owner) };
        if let Some(old) = ended {
            self.end_client(old);
        }
        if !client.confirmed {
            for other in self.unconfirmed_of(&client.owner).into_iter().filter(|other| *other != id) {
                self.end_client(other);
            }
        }
        let mut name = [0; 16];
        name[..4].copy_from_slice(&(id.0 as u32).to_be_bytes());
        name[4..8].copy_from_slice(&self.next_session.to_be_bytes());
        name[8..].copy_from_slice(&self.random.to_be_bytes());
        self.next_session += 1;
        let session = SessionId(name);
        self.sessions
            .insert(session, PlainSession { client: id, channels: channels.clone(), slots: BTreeMap::new() });
        let reply = Reply::Session { id: session, client: id, sequence, channels, ended };
        let client = self.clients.get_mut(&id).expect("it was there");
        client.confirmed = true;
        client.sequence = sequence;
        client.lapsed = None;
        client.answered = Some(reply.clone());
        Ok(reply)
    }

    fn shows_verifier(&mut self, client: ClientId, from: IpAddr, known: Reply) -> Reply {
        let addresses = &mut self.clients.get_mut(&client).expect("it was there").addresses;
        if !addresses.contains(&from) {
            assert!(addresses.len() < ADDRESSES_OF_CLIENT_MAX, "the model has few addresses");
            addresses.push(from);
        }
        known
    }

    pub(super) fn destroy_client(&mut self, client: ClientId) -> Outcome {
        if !self.clients.contains_key(&client) {
            return Err(Error::StaleClient);
        }
        if self.is_busy(client) {
            return Err(Error::ClientBusy);
        }
        self.end_client(client);
        Ok(Reply::Done)
    }

    pub(super) fn lapse_lease(&mut self, id: ClientId, sequence: Option<u32>) -> Outcome {
        let now = self.now;
        let has_state = self.has_state(id);
        let client = self.clients.get_mut(&id).ok_or(Error::StaleClient)?;
        if sequence.is_some_and(|judged| judged != client.sequence) {
            return Err(Error::ClientBusy);
        }
        match has_state {
            true => client.lapsed = client.lapsed.or(Some(now)),
            false => self.end_client(id),
        }
        Ok(Reply::Done)
    }

    pub(super) fn renew_lease(&mut self, client: ClientId) -> Outcome {
        self.clients.get_mut(&client).ok_or(Error::StaleClient)?.lapsed = None;
        Ok(Reply::Done)
    }

    /// Those who are in the way go, if all of them have lapsed and none is who asks.
    pub(super) fn make_way(&mut self, holders: &BTreeSet<ClientId>, asks: ClientId) -> bool {
        let yields_to_conflict = |id: &ClientId| *id != asks && self.clients[id].lapsed.is_some();
        let all = holders.iter().all(yields_to_conflict);
        if all {
            holders.iter().for_each(|holder| self.end_client(*holder));
        }
        all
    }

    pub(super) fn expire_client(&mut self, client: ClientId) -> Outcome {
        if self.clients.get(&client).ok_or(Error::StaleClient)?.lapsed.is_none() {
            return Err(Error::ClientBusy);
        }
        self.end_client(client);
        Ok(Reply::Done)
    }

    fn end_client(&mut self, client: ClientId) {
        let mut ids: Vec<StateId> = Vec::new();
        ids.extend(self.opens.iter().filter(|(_, state)| state.client == client).map(|(id, _)| *id));
        ids.extend(self.locks.iter().filter(|(_, state)| state.client == client).map(|(id, _)| *id));
        ids.extend(self.layouts.iter().filter(|(_, state)| state.client == client).map(|(id, _)| *id));
        ids.extend(self.delegations.iter().filter(|(_, state)| state.client == client).map(|(id, _)| *id));
        // The oldest first: files that nothing holds any more go in this order.
        ids.sort_unstable();
        for id in ids {
            self.opens.remove(&id);
            self.locks.remove(&id);
            self.lose_layout(id);
            self.delegations.remove(&id);
            self.collect();
        }
        self.sessions.retain(|_, session| session.client != client);
        self.clients.remove(&client);
    }

    pub(super) fn reclaim_complete(&mut self, client: ClientId) -> Outcome {
        let client = self.clients.get_mut(&client).ok_or(Error::StaleClient)?;
        if client.reclaimed {
            return Err(Error::CompleteAlready);
        }
        client.reclaimed = true;
        Ok(Reply::Done)
    }
}
