//! The network: calls and answers on their way, each with its own delay, in an order that links keep as connections do.
//!
//! A link is one way, from one address to another, so that a partition can be of any shape. What a cut link is given is
//! lost without a word; a connection that breaks says so to who waits on it. What is called twice is carried out twice.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use replica::Unreachable;
use tokio::sync::oneshot;

use crate::dice::Dice;
use crate::request::{Answer, Request};

/// Members are 1 and up, clients [`CLIENTS`] and up.
pub type Address = u64;

/// The first client.
pub const CLIENTS: Address = 100;

/// What is carried out at the other end.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "few of them live at a time, in a simulation")]
pub enum Call {
    /// A member's, for a member's [`replica::Replica::serve`].
    Member(Bytes),
    /// A client's.
    Client(Request),
}

/// What comes back.
#[derive(Debug)]
pub enum Carried {
    /// To a member.
    Member(Bytes),
    /// To a client.
    Client(Box<Answer>),
}

type Outcome = Result<Carried, Unreachable>;

/// What arrives.
#[expect(clippy::large_enum_variant, reason = "few of them live at a time, in a simulation")]
pub enum Arrival {
    /// A call, for this address.
    Call {
        /// To be given back with the answer.
        number: u64,
        /// Whom it is for.
        to: Address,
        /// What is to be done.
        call: Call,
    },
    /// An answer, which goes to whoever waits.
    Answer(u64, Outcome),
}

/// How it is on the wires now.
#[derive(Debug, Clone, Copy)]
pub struct Weather {
    /// What a message takes, at least and at most.
    pub delay_ms: (u64, u64),
    /// Messages lost, of a thousand, with the connection that they were on.
    pub lost: u64,
    /// Calls that arrive twice, of a thousand.
    pub twice: u64,
}

impl Weather {
    /// Nothing goes wrong.
    pub const FAIR: Self = Self { delay_ms: (0, 2), lost: 0, twice: 0 };
}

struct Waiting {
    from: Address,
    to: Address,
    sender: oneshot::Sender<Outcome>,
}

/// Calls of one lane of one link arrive in order.
type Lane = (Address, Address, u8);

/// Everything that is on its way.
pub struct Net {
    now_ms: u64,
    next: u64,
    dice: Dice,
    /// By the time at which it arrives, and the order in which it was sent.
    under_way: BTreeMap<(u64, u64), (Address, Address, Arrival)>,
    last: BTreeMap<Lane, u64>,
    waiting: BTreeMap<u64, Waiting>,
    cut: BTreeSet<(Address, Address)>,
    /// What may be changed at any time.
    pub weather: Weather,
}

impl Net {
    /// A quiet one.
    #[must_use]
    pub fn new(dice: Dice) -> Self {
        Self {
            now_ms: 0,
            next: 0,
            dice,
            under_way: BTreeMap::new(),
            last: BTreeMap::new(),
            waiting: BTreeMap::new(),
            cut: BTreeSet::new(),
            weather: Weather::FAIR,
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn put(&mut self, from: Address, to: Address, lane: Option<u8>, extra_ms: u64, arrival: Arrival) {
        if self.cut.contains(&(from, to)) {
            return;
        }
        let (least, most) = self.weather.delay_ms;
        let mut due = self.now_ms + self.dice.within(least..=most) + extra_ms;
        if let Some(lane) = lane {
            let last = self.last.entry((from, to, lane)).or_default();
            due = due.max(*last);
            *last = due;
        }
        let order = self.number();
        self.under_way.insert((due, order), (from, to, arrival));
    }

    /// Sends a call; its outcome comes out of what is returned, or never.
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
        if self.dice.per_mille(self.weather.lost) {
            self.broken(number);
            return outcome;
        }
        if may_come_twice && self.dice.per_mille(self.weather.twice) {
            let late_ms = self.dice.within(0..=1500);
            self.put(from, to, None, late_ms, Arrival::Call { number: 0, to, call: call.clone() });
        }
        self.put(from, to, Some(lane), 0, Arrival::Call { number, to, call });
        outcome
    }

    /// What a call came to; 0 is one that nobody waits for.
    pub fn answer(&mut self, number: u64, outcome: Outcome) {
        let Some(Waiting { from, to, .. }) = self.waiting.get(&number) else { return };
        let (from, to) = (*from, *to);
        if self.dice.per_mille(self.weather.lost) {
            return self.broken(number);
        }
        self.put(to, from, None, 0, Arrival::Answer(number, outcome));
    }

    /// The connection broke: sooner or later who waits is told, or finds out by himself.
    fn broken(&mut self, number: u64) {
        let Some(Waiting { from, to, .. }) = self.waiting.get(&number) else { return };
        let (from, to, after_ms) = (*from, *to, self.dice.within(0..=20));
        if self.dice.below(4) > 0 {
            let why = Unreachable::NoAnswer("the connection broke".into());
            let order = self.number();
            let arrival = Arrival::Answer(number, Err(why));
            self.under_way.insert((self.now_ms + after_ms, order), (to, from, arrival));
        }
    }

    /// Who is there no more, or again: what it waited for comes no more, and who waits for it is told or finds out.
    pub fn reset(&mut self, address: Address) {
        self.waiting.retain(|_, waiting| waiting.from != address);
        let at: Vec<u64> =
            self.waiting.iter().filter(|(_, waiting)| waiting.to == address).map(|(n, _)| *n).collect();
        at.into_iter().for_each(|number| self.broken(number));
    }

    /// No client waits for anything any more, and none of their calls arrives. Those of members do, however late.
    pub fn forget_clients(&mut self) {
        self.waiting.retain(|_, waiting| waiting.from < CLIENTS);
        self.under_way
            .retain(|_, (_, _, arrival)| !matches!(arrival, Arrival::Call { call: Call::Client(_), .. }));
    }

    /// Cuts the link from one to another.
    pub fn cut(&mut self, from: Address, to: Address) {
        self.cut.insert((from, to));
    }

    /// Mends all links.
    pub fn mend(&mut self) {
        self.cut.clear();
    }

    /// What has arrived by now. An answer goes to who waits for it, and is not returned.
    pub fn arrived(&mut self, now_ms: u64) -> Vec<Arrival> {
        self.now_ms = now_ms;
        let later = self.under_way.split_off(&(now_ms + 1, 0));
        let due = std::mem::replace(&mut self.under_way, later);
        let due = due.into_values().filter(|(from, to, _)| !self.cut.contains(&(*from, *to)));
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
