//! Clients: each has a session, and sends one request after the other on each slot, to any member. A request
//! without an answer in time is repeated, to the same or another member, with the same slot and sequence,
//! until it is answered.

use std::sync::Arc;
use std::time::Duration;

use namespace::{
    Callback, CallbackCredential, Channel, Channels, ClientId, Command, CompoundRequest, Error, InodeId,
    Principal, Reply, RequestId, SessionId, Stateid,
};
use parking_lot::{Mutex, MutexGuard};

use crate::choose;
use crate::net::{Address, Call, CallAnswer};
use crate::request::{Answer, Request};
use crate::rng::Rng;
use crate::shared::Shared;

/// Concurrent requests of a client.
const SLOTS: u32 = 2;

/// Knowledge of a client, from its answers.
#[derive(Debug, Default)]
pub struct Knowledge {
    /// Known directories.
    pub dirs: Vec<InodeId>,
    /// Other known inodes.
    pub files: Vec<InodeId>,
    /// Opens of the client, by slot.
    pub opens: Vec<(u32, InodeId, Stateid)>,
    /// Locks of the client, by slot.
    pub locks: Vec<(u32, InodeId, Stateid)>,
}

/// Simulated client.
#[derive(Clone)]
pub struct Client {
    address: Address,
    members: u64,
    shared: Arc<Shared>,
    known: Arc<Mutex<Knowledge>>,
}

/// Session of a client.
#[derive(Clone, Copy)]
struct Session {
    client: ClientId,
    id: SessionId,
}

impl Client {
    /// Creates a client that knows `members` members.
    #[must_use]
    pub fn new(address: Address, members: u64, shared: &Arc<Shared>) -> Self {
        let known = Knowledge { dirs: vec![InodeId::ROOT], ..Knowledge::default() };
        Self { address, members, shared: Arc::clone(shared), known: Arc::new(Mutex::new(known)) }
    }

    fn known(&self) -> MutexGuard<'_, Knowledge> {
        self.known.lock()
    }

    /// Sends requests until the simulation ends.
    pub async fn run(self, mut rng: Rng) {
        let session = self.begin(&mut rng).await;
        let slots: Vec<_> =
            (0..SLOTS).map(|slot| tokio::spawn(self.clone().work_on(session, slot, rng.fork()))).collect();
        for slot in slots {
            let _ = slot.await;
        }
    }

    /// Sends EXCHANGE_ID and CREATE_SESSION.
    async fn begin(&self, rng: &mut Rng) -> Session {
        let owner = format!("client {}", self.address).into_bytes();
        let principal = Principal::Sys { uid: 0, machine: owner.clone() };
        let verifier = self.address.to_le_bytes();
        let address = std::net::Ipv4Addr::from_bits(self.address as u32).into();
        loop {
            let exchange = Command::ExchangeId {
                owner: owner.clone(),
                verifier,
                principal: principal.clone(),
                update: false,
                address,
            };
            let Reply::Client { id: client, sequence, .. } = self.change(None, exchange, rng).await else {
                continue;
            };
            let (principal, channels) = (principal.clone(), channels());
            let create = Command::CreateSession { client, sequence, principal, channels, address };
            if let Reply::Session { id, client, .. } = self.change(None, create, rng).await {
                return Session { client, id };
            }
        }
    }

    async fn work_on(self, session: Session, slot: u32, mut rng: Rng) {
        let mut sequence = 0;
        let pause_ms_max = if self.shared.short_logs { 15 } else { 40 };
        while !self.shared.is_ending() {
            tokio::time::sleep(Duration::from_millis(rng.within(0..=pause_ms_max))).await;
            let asked = choose::request(session.client, slot, &self.known(), &mut rng);
            match asked {
                choose::Choice::Query(look) => drop(self.ask(Request::Query(look), &mut rng).await),
                choose::Choice::Change(command) => {
                    sequence += 1;
                    let request = RequestId::Compound(CompoundRequest {
                        session: session.id,
                        slot,
                        sequence,
                        index: 0,
                    });
                    let reply = self.change(Some(request), command.clone(), &mut rng).await;
                    choose::learn(&mut self.known(), slot, &command, &reply);
                }
            }
        }
    }

    async fn change(&self, request: Option<RequestId>, command: Command, rng: &mut Rng) -> Reply {
        match self.ask(Request::Change(request, command), rng).await {
            Answer::Reply(reply) => reply,
            Answer::Read(..) | Answer::None(_) => Reply::Refused(Error::Delay),
        }
    }

    /// Repeats a request until it is answered.
    async fn ask(&self, request: Request, rng: &mut Rng) -> Answer {
        let number = self.shared.history().note_request(self.shared.now_ms(), self.address, request.clone());
        let mut to = rng.within(1..=self.members);
        loop {
            // Now and then a copy is delayed, and arrives when no caller waits for it any more.
            let outcome = self.shared.net().call(self.address, to, 0, true, Call::Client(request.clone()));
            let limit = Duration::from_millis(rng.within(200..=2000));
            let answer = match tokio::time::timeout(limit, outcome).await {
                Ok(Ok(Ok(CallAnswer::Client(answer)))) => *answer,
                _ => Answer::None("no answer".into()),
            };
            if !matches!(answer, Answer::None(_)) {
                self.shared.history().note_answer(self.shared.now_ms(), number, answer.clone());
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(rng.within(1..=50))).await;
            if rng.below(3) > 0 {
                to = rng.within(1..=self.members);
            }
        }
    }
}

fn channels() -> Channels {
    let channel = Channel {
        request_bytes_max: 1 << 20,
        response_bytes_max: 1 << 20,
        cached_bytes_max: 4096,
        operations_max: 8,
        slots: SLOTS,
    };
    Channels {
        fore: channel,
        back: channel,
        callback: Callback { program: 7, credential: CallbackCredential::Nobody },
    }
}
