//! Network: calls and answers in flight, each with its own delay, in the order that connections keep.
//!
//! A link has one direction, so that a partition can have any shape. A message on a broken link is lost
//! silently; a broken connection is reported to its caller. A duplicated call is carried out twice.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use replica::Unreachable;
use tokio::sync::oneshot;

use crate::request::{Answer, Request};
use crate::rng::Rng;

/// Address: members from 1, clients from [`CLIENTS`].
pub type Address = u64;

/// Address of the first client.
pub const CLIENTS: Address = 100;

/// Content of a call.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "few of them live at a time, in a simulation")]
pub enum Call {
    /// Call between members, for [`replica::Replica::serve`].
    Member(Bytes),
    /// Request of a client.
    Client(Request),
}

/// Content of an answer.
#[derive(Debug)]
pub enum CallAnswer {
    /// Answer to a member.
    Member(Bytes),
    /// Answer to a client.
    Client(Box<Answer>),
}

type Outcome = Result<CallAnswer, Unreachable>;

/// Arrived message.
#[expect(clippy::large_enum_variant, reason = "few of them live at a time, in a simulation")]
pub enum Arrival {
    /// Call to an address.
    Call {
        /// Number of the call, for its answer.
        number: u64,
        /// Called address.
        to: Address,
        /// Content of the call.
        call: Call,
    },
    /// Answer to a waiting caller.
    Answer(u64, Outcome),
}

/// Delays, losses and duplicates of messages.
#[derive(Debug, Clone, Copy)]
pub struct LinkConditions {
    /// Least and greatest delay of a message.
    pub delay_ms: (u64, u64),
    /// Lost messages per thousand; their connection breaks.
    pub lost: u64,
    /// Duplicated calls per thousand.
    pub twice: u64,
}

impl LinkConditions {
    /// No faults.
    pub const FAIR: Self = Self { delay_ms: (0, 2), lost: 0, twice: 0 };
}

struct Waiting {
    from: Address,
    to: Address,
    sender: oneshot::Sender<Outcome>,
}

/// Lane of a link, on which calls arrive in order.
type Lane = (Address, Address, u8);

/// State of the network.
pub struct Net {
    now_ms: u64,
    next: u64,
    rng: Rng,
    /// Messages in flight, by time of arrival and order of sending.
    under_way: BTreeMap<(u64, u64), (Address, Address, Arrival)>,
    last: BTreeMap<Lane, u64>,
    waiting: BTreeMap<u64, Waiting>,
    blocked: BTreeSet<(Address, Address)>,
    /// Current delays, losses and duplicates.
    pub conditions: LinkConditions,
}

impl Net {
    /// Creates a network without faults.
    #[must_use]
    pub fn new(rng: Rng) -> Self {
        Self {
            now_ms: 0,
            next: 0,
            rng,
            under_way: BTreeMap::new(),
            last: BTreeMap::new(),
            waiting: BTreeMap::new(),
            blocked: BTreeSet::new(),
            conditions: LinkConditions::FAIR,
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn put(&mut self, from: Address, to: Address, lane: Option<u8>, extra_ms: u64, arrival: Arrival) {
        if self.blocked.contains(&(from, to)) {
            return;
        }
        let (least, most) = self.conditions.delay_ms;
        let mut due = self.now_ms + self.rng.within(least..=most) + extra_ms;
        if let Some(lane) = lane {
            let last = self.last.entry((from, to, lane)).or_default();
            due = due.max(*last);
            *last = due;
        }
        let order = self.number();
        self.under_way.insert((due, order), (from, to, arrival));
    }

    /// Sends a call; the receiver gets its outcome, or nothing.
    pub fn call(
        &mut self,
        from: Address,
        to: Address,
        lane: u8,
        may_come_twice: bool,
        call: Call,
    ) -> oneshot::Receiver<Outcome> {
        let (sender, outcome) = oneshot::channel();
        let number = self.number();
        self.waiting.insert(number, Waiting { from, to, sender });
        if self.rng.per_mille(self.conditions.lost) {
            self.break_connection(number);
            return outcome;
        }
        if may_come_twice && self.rng.per_mille(self.conditions.twice) {
            let late_ms = self.rng.within(0..=1500);
            self.put(from, to, None, late_ms, Arrival::Call { number: 0, to, call: call.clone() });
        }
        self.put(from, to, Some(lane), 0, Arrival::Call { number, to, call });
        outcome
    }

    /// Sends the outcome of a call; number 0 has no caller.
    pub fn answer(&mut self, number: u64, outcome: Outcome) {
        let Some(Waiting { from, to, .. }) = self.waiting.get(&number) else { return };
        let (from, to) = (*from, *to);
        if self.rng.per_mille(self.conditions.lost) {
            return self.break_connection(number);
        }
        self.put(to, from, None, 0, Arrival::Answer(number, outcome));
    }

    /// Breaks the connection of a call: its caller is told after a while, or runs into its time-out.
    fn break_connection(&mut self, number: u64) {
        let Some(Waiting { from, to, .. }) = self.waiting.get(&number) else { return };
        let (from, to, after_ms) = (*from, *to, self.rng.within(0..=20));
        if self.rng.below(4) > 0 {
            let why = Unreachable::NoAnswer("the connection broke".into());
            let order = self.number();
            let arrival = Arrival::Answer(number, Err(why));
            self.under_way.insert((self.now_ms + after_ms, order), (to, from, arrival));
        }
    }

    /// Drops the calls from `address`, which has stopped or started, and fails the calls to it.
    pub fn reset(&mut self, address: Address) {
        self.waiting.retain(|_, waiting| waiting.from != address);
        let at: Vec<u64> =
            self.waiting.iter().filter(|(_, waiting)| waiting.to == address).map(|(n, _)| *n).collect();
        at.into_iter().for_each(|number| self.break_connection(number));
    }

    /// Drops all calls of clients. Those of members still arrive, however late.
    pub fn forget_clients(&mut self) {
        self.waiting.retain(|_, waiting| waiting.from < CLIENTS);
        self.under_way
            .retain(|_, (_, _, arrival)| !matches!(arrival, Arrival::Call { call: Call::Client(_), .. }));
    }

    /// Breaks the link from one address to another.
    pub fn block_link(&mut self, from: Address, to: Address) {
        self.blocked.insert((from, to));
    }

    /// True if the link from one address to another is broken.
    #[must_use]
    pub fn is_blocked(&self, from: Address, to: Address) -> bool {
        self.blocked.contains(&(from, to))
    }

    /// True if no link is broken.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.blocked.is_empty()
    }

    /// Repairs all links.
    pub fn unblock_all(&mut self) {
        self.blocked.clear();
    }

    /// Returns the calls that have arrived; passes answers to their callers.
    pub fn arrived(&mut self, now_ms: u64) -> Vec<Arrival> {
        self.now_ms = now_ms;
        if self.under_way.first_key_value().is_none_or(|((due_ms, _), _)| *due_ms > now_ms) {
            return vec![];
        }
        let later = self.under_way.split_off(&(now_ms + 1, 0));
        let due = std::mem::replace(&mut self.under_way, later);
        let due = due.into_values().filter(|(from, to, _)| !self.blocked.contains(&(*from, *to)));
        let mut calls = vec![];
        for (_, _, arrival) in due.collect::<Vec<_>>() {
            match arrival {
                Arrival::Answer(number, outcome) => {
                    if let Some(Waiting { sender, .. }) = self.waiting.remove(&number) {
                        let _ = sender.send(outcome);
                    }
                }
                call @ Arrival::Call { .. } => calls.push(call),
            }
        }
        calls
    }
}
