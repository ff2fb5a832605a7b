//! What happened, as seen from outside (clients: what they asked, when, and what they were answered) and from inside
//! (members: what they applied, and what they held then). The oracles judge it; nothing here does.

use std::collections::BTreeMap;

use namespace::{Proposal, Reply, RequestId};

use crate::net::Address;
use crate::request::{Answer, Request};
use crate::store::hash;

/// What a request id is known by: who, slot, sequence, index.
pub type Key = (Vec<u8>, u64, u64, u32);

/// Of a request id.
#[must_use]
pub fn key(request: &RequestId) -> Key {
    match request {
        RequestId::Compound(at) => (at.session.0.to_vec(), at.slot.into(), at.sequence.into(), at.index),
        RequestId::Call(call, index) => {
            (call.client.to_vec(), call.procedure.into(), call.xid.into(), *index)
        }
        RequestId::Server(at) => {
            ([at.member, at.life].map(u64::to_be_bytes).concat(), at.slot.into(), at.sequence, 0)
        }
    }
}

/// One operation of one client.
#[derive(Debug, Clone)]
pub struct Operation {
    /// Who.
    pub client: Address,
    /// What.
    pub request: Request,
    /// When it was asked first. A moment is the count of moments before it.
    pub asked: u64,
    /// When it was answered, and what; none: it never was.
    pub answered: Option<(u64, Answer)>,
}

/// All that happened.
#[derive(Default)]
pub struct History {
    moments: u64,
    /// What clients did, in the order in which they asked.
    pub operations: Vec<Operation>,
    /// What stands at each index of the log, and what it was answered, as the first who applied it had it.
    pub log: BTreeMap<u64, (Proposal, Reply)>,
    /// A sum of what a store held when all below an index was applied, and the first member that was there.
    pub sums: BTreeMap<u64, (Address, u64)>,
    /// Members that did not agree with who was there first.
    pub disagreements: Vec<String>,
    trace: u64,
    told: Option<Vec<String>>,
}

impl History {
    /// An empty one; `tells` prints what happens.
    #[must_use]
    pub fn new(tells: bool) -> Self {
        Self { told: tells.then(Vec::new), ..Self::default() }
    }

    /// The next moment.
    pub fn moment(&mut self) -> u64 {
        self.moments += 1;
        self.moments
    }

    /// Something that must be the same when the seed is.
    pub fn note(&mut self, now_ms: u64, what: impl FnOnce() -> String) {
        let what = what();
        self.trace = hash(&(self.trace, now_ms, &what));
        if self.told.is_some() {
            eprintln!("{:>7}.{:03} {what}", now_ms / 1000, now_ms % 1000);
        }
    }

    /// The sum of all that was noted.
    #[must_use]
    pub fn trace(&self) -> u64 {
        self.trace
    }

    /// A client asks; returns the number of the operation.
    pub fn asked(&mut self, now_ms: u64, client: Address, request: Request) -> usize {
        let asked = self.moment();
        let number = self.operations.len();
        self.note(now_ms, || format!("client {client} asks {number}: {request:?}"));
        self.operations.push(Operation { client, request, asked, answered: None });
        number
    }

    /// It was answered.
    pub fn answered(&mut self, now_ms: u64, number: usize, answer: Answer) {
        let moment = self.moment();
        self.note(now_ms, || format!("answer to {number}: {answer:?}"));
        self.operations[number].answered = Some((moment, answer));
    }

    /// The group goes on from a backup that has what is below `applied`. What was asked and answered before is judged already.
    pub fn goes_on_from(&mut self, applied: u64) {
        self.operations.clear();
        self.log.split_off(&applied);
        self.sums.clear();
        self.disagreements.clear();
    }

    /// A member applied what stands at `index`.
    pub fn applied(&mut self, now_ms: u64, member: Address, index: u64, proposal: &Proposal, reply: &Reply) {
        match self.log.get(&index) {
            None => {
                self.note(now_ms, || format!("member {member} applies {index}: {proposal:?} -> {reply:?}"));
                self.log.insert(index, (proposal.clone(), reply.clone()));
            }
            Some((first, its_reply)) if (first, its_reply) != (proposal, reply) => {
                let what = format!(
                    "member {member} applied at {index} {proposal:?} -> {reply:?}; another had {first:?} -> {its_reply:?}"
                );
                self.note(now_ms, || what.clone());
                self.disagreements.push(what);
            }
            Some(_) => {}
        }
    }

    /// What a member's store holds after all below `next`.
    pub fn holds(&mut self, now_ms: u64, member: Address, next: u64, sum: u64) {
        let (first, expected) = *self.sums.entry(next).or_insert((member, sum));
        if expected != sum {
            let what = format!("below {next} member {member} holds other things than member {first} did");
            self.note(now_ms, || what.clone());
            self.disagreements.push(what);
        }
    }
}
