//! History of a run: the requests and answers of clients with their times, and the commands and stores of
//! members. The oracles judge it.

use std::collections::BTreeMap;

use namespace::{Command, OpenTarget, Proposal, Reply, RequestId};

use crate::net::Address;
use crate::request::{Answer, Request};
use crate::store::hash;

/// Key of a request id: owner, slot, sequence, index.
pub type Key = (Vec<u8>, u64, u64, u32);

/// Key of `request`.
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

/// Operation of a client.
#[derive(Debug, Clone)]
pub struct Operation {
    /// Client of the operation.
    pub client: Address,
    /// Its request.
    pub request: Request,
    /// Moment of the first request. Moments are counted, one for each event.
    pub asked: u64,
    /// Moment and content of the answer; None: no answer.
    pub answered: Option<(u64, Answer)>,
}

/// History of a run.
#[derive(Default)]
pub struct History {
    moments: u64,
    /// Operations of clients, in the order of their first requests.
    pub operations: Vec<Operation>,
    /// Proposal and reply at each index of the log, from the first member that applied it.
    pub log: BTreeMap<u64, (Proposal, Reply)>,
    /// Names under which a file was made, with the times in milliseconds.
    pub made: Vec<(u64, Vec<u8>)>,
    /// Hash of a store in which all entries below an index are applied, and the first member that had it.
    pub sums: BTreeMap<u64, (Address, u64)>,
    /// Members whose state differs from that of the first member at an index.
    pub disagreements: Vec<String>,
    trace: u64,
    prints: bool,
}

impl History {
    /// Creates an empty history; `prints` prints events.
    #[must_use]
    pub fn new(prints: bool) -> Self {
        Self { prints, ..Self::default() }
    }

    /// Returns the next moment.
    pub fn moment(&mut self) -> u64 {
        self.moments += 1;
        self.moments
    }

    /// Notes an event that must be the same for the same seed.
    pub fn note(&mut self, now_ms: u64, what: impl FnOnce() -> String) {
        let what = what();
        self.trace = hash(&(self.trace, now_ms, &what));
        if self.prints {
            eprintln!("{:>7}.{:03} {what}", now_ms / 1000, now_ms % 1000);
        }
    }

    /// Hash of all noted events.
    #[must_use]
    pub fn trace(&self) -> u64 {
        self.trace
    }

    /// Notes a request of a client; returns the number of the operation.
    pub fn note_request(&mut self, now_ms: u64, client: Address, request: Request) -> usize {
        let asked = self.moment();
        let number = self.operations.len();
        self.note(now_ms, || format!("client {client} asks {number}: {request:?}"));
        self.operations.push(Operation { client, request, asked, answered: None });
        number
    }

    /// Notes the answer to an operation.
    pub fn note_answer(&mut self, now_ms: u64, number: usize, answer: Answer) {
        let moment = self.moment();
        self.note(now_ms, || format!("answer to {number}: {answer:?}"));
        self.operations[number].answered = Some((moment, answer));
    }

    /// Restarts the history after a restore from a backup of the entries below `applied`. Earlier operations
    /// are judged already.
    pub fn restart_from(&mut self, applied: u64) {
        self.operations.clear();
        self.log.split_off(&applied);
        self.sums.clear();
        self.disagreements.clear();
    }

    /// Notes that a member applied the entry at `index`.
    pub fn note_applied(
        &mut self,
        now_ms: u64,
        member: Address,
        index: u64,
        proposal: &Proposal,
        reply: &Reply,
    ) {
        match self.log.get(&index) {
            None => {
                self.note(now_ms, || format!("member {member} applies {index}: {proposal:?} -> {reply:?}"));
                if let Command::Open(open) | Command::OpenOrDelegate(open) = &proposal.command
                    && let Reply::Opened { created: true, .. } = reply
                    && let OpenTarget::Create { create, .. } = &open.target
                {
                    self.made.push((now_ms, create.name.clone()));
                }
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

    /// Notes the hash of a member's store after all entries below `next`.
    pub fn note_store(&mut self, now_ms: u64, member: Address, next: u64, sum: u64) {
        let (first, expected) = *self.sums.entry(next).or_insert((member, sum));
        if expected != sum {
            let what = format!("below {next} member {member} holds other things than member {first} did");
            self.note(now_ms, || what.clone());
            self.disagreements.push(what);
        }
    }
}
