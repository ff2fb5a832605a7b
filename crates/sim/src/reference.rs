//! Reference for the log's replies: the plain model with which the state machine's own tests compare it
//! (structs in maps, which share only the types of its interface), and the server sessions of metaservers,
//! which the model lacks.

use std::collections::BTreeMap;

use namespace::{Command, Error, MemberRequest, Proposal, Reply, RequestId};

use crate::plain::Plain;

/// Reference state machine.
pub(crate) struct Reference {
    pub plain: Plain,
    /// Life and nonce of each metaserver's process.
    servers: BTreeMap<u64, (u64, u64)>,
    /// Last sequence and reply, by member and slot.
    slots: BTreeMap<(u64, u32), (u64, Reply)>,
}

impl Reference {
    /// State after the first command of a log.
    pub(crate) fn new(plain: Plain) -> Self {
        Self { plain, servers: BTreeMap::new(), slots: BTreeMap::new() }
    }

    pub(crate) fn apply(&mut self, proposal: &Proposal) -> Reply {
        match (&proposal.command, &proposal.request) {
            (Command::ServerStarts { member, .. }, None) => self.starts(*member, proposal.stamp.random),
            (_, Some(RequestId::Server(request))) => self.by_server(request, proposal),
            _ => self.plain.apply(proposal),
        }
    }

    fn starts(&mut self, member: u64, nonce: u64) -> Reply {
        match self.servers.get(&member) {
            Some((life, its_nonce)) if *its_nonce == nonce => Reply::Started { life: *life },
            _ => {
                let life = self.servers.values().map(|(life, _)| *life).max().unwrap_or(0) + 1;
                self.servers.insert(member, (life, nonce));
                self.slots.retain(|(of, _), _| *of != member);
                Reply::Started { life }
            }
        }
    }

    fn by_server(&mut self, request: &MemberRequest, proposal: &Proposal) -> Reply {
        if self.servers.get(&request.member).is_none_or(|(life, _)| *life != request.life) {
            return Reply::Refused(Error::ServerGone);
        }
        match self.slots.get(&(request.member, request.slot)) {
            Some((sequence, reply)) if *sequence == request.sequence => return reply.clone(),
            Some((sequence, _)) if *sequence > request.sequence => return Reply::Refused(Error::Misordered),
            _ => {}
        }
        let reply = self.plain.apply(&Proposal { request: None, ..proposal.clone() });
        self.slots.insert((request.member, request.slot), (request.sequence, reply.clone()));
        reply
    }
}
