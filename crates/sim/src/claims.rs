//! Claims of NFS clients: what they were told that they hold, since when and until when, how they kept their
//! leases, and how long they were put off. Oracles judge them.

use std::collections::BTreeMap;

use crate::net::Address;
use crate::service::LEASE;

/// Lease in milliseconds.
pub const LEASE_MS: u64 = LEASE.as_millis() as u64;

/// Life of a client: its address, and the number of its client id.
pub type Life = (Address, u64);

/// A request that was answered DELAY, and repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delays {
    /// The request and its client.
    pub what: String,
    /// Name of its file; none: it has the file's handle.
    pub name: Option<Vec<u8>>,
    /// Times of the first and the last such answer.
    pub ms: (u64, u64),
}

/// State that a client was told to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// Open with access and deny bits of OPEN.
    Open {
        /// SHARE_ACCESS bits.
        access: u32,
        /// SHARE_DENY bits.
        deny: u32,
    },
    /// Byte-range lock.
    Lock {
        /// True if it excludes all others.
        is_write: bool,
        /// First byte.
        start: u64,
        /// Byte after the last.
        end: u64,
    },
}

impl Held {
    /// True if two owners must not hold both.
    #[must_use]
    pub fn conflicts(self, other: Self) -> bool {
        match (self, other) {
            (Self::Open { access, deny }, Self::Open { access: other, deny: denies }) => {
                access & denies != 0 || other & deny != 0
            }
            (
                Self::Lock { is_write, start, end },
                Self::Lock { is_write: writes, start: first, end: last },
            ) => (is_write || writes) && start < last && first < end,
            _ => false,
        }
    }
}

/// Claim of a client.
#[derive(Debug, Clone)]
pub struct Claim {
    /// Client.
    pub life: Life,
    /// Open-owner or lock-owner.
    pub owner: u32,
    /// Inode of the file.
    pub inode: u64,
    /// State.
    pub held: Held,
    /// Time of the request.
    pub asked_ms: u64,
    /// Time of the answer.
    pub from_ms: u64,
    /// Time of the request that gave it back, or at which the client knew it lost.
    pub until_ms: Option<u64>,
    /// Time at which the answer to that came.
    pub gone_ms: Option<u64>,
}

/// Wait for a byte-range lock.
#[derive(Debug, Clone)]
pub struct LockWait {
    /// Client, and its lock-owner.
    pub owner: (Life, u32),
    /// Inode of the file.
    pub inode: u64,
    /// Lock that is asked for.
    pub held: Held,
    /// Time of the first denial.
    pub from_ms: u64,
    /// Time of the last denial.
    pub until_ms: u64,
}

/// LOCK without an answer so far: perhaps the client has the lock, and does not know it.
#[derive(Debug, Clone)]
pub struct LockAttempt {
    /// Client, and its lock-owner.
    pub owner: (Life, u32),
    /// Inode of the file.
    pub inode: u64,
    /// Lock that was asked for.
    pub held: Held,
    /// Time of the request.
    pub asked_ms: u64,
    /// True if the answer came.
    pub is_answered: bool,
}

/// A time without faults.
#[derive(Debug, Clone)]
pub struct Calm {
    /// Its beginning, when leaders are elected and processes have started.
    pub from_ms: u64,
    /// Its end.
    pub until_ms: u64,
    /// Clients that are up, and reach all servers.
    pub clients: Vec<Address>,
}

/// Everything that clients know.
#[derive(Debug, Default)]
pub struct Claims {
    /// Claims, in the order of the answers.
    pub all: Vec<Claim>,
    /// Answered requests of each client: times of request and answer.
    pub renewals: BTreeMap<Life, Vec<(u64, u64)>>,
    /// Waits for locks.
    pub waits: Vec<LockWait>,
    /// Requests for locks.
    pub attempts: Vec<LockAttempt>,
    /// Requests that were put off.
    pub delays: Vec<Delays>,
    /// States that were lost without a fault of the client.
    pub lost: Vec<String>,
    /// Answers that must not be.
    pub unexpected: Vec<String>,
}

impl Claims {
    /// Notes a claim; returns its number.
    pub fn claim(&mut self, claim: Claim) -> usize {
        self.all.push(claim);
        self.all.len() - 1
    }

    /// Notes that the client begins to give back a claim.
    pub fn giving_back(&mut self, number: usize, now_ms: u64) {
        self.all[number].until_ms.get_or_insert(now_ms);
    }

    /// Notes that a claim is gone.
    pub fn gone(&mut self, number: usize, now_ms: u64) {
        self.all[number].until_ms.get_or_insert(now_ms);
        self.all[number].gone_ms.get_or_insert(now_ms);
    }

    /// Notes an answered request.
    pub fn renewed(&mut self, life: Life, sent_ms: u64, now_ms: u64) {
        self.renewals.entry(life).or_default().push((sent_ms, now_ms));
    }

    /// True if the client kept its lease up to now: each of its requests was answered before the lease that
    /// began with the one before had run out.
    #[must_use]
    pub fn kept_lease(&self, life: Life, now_ms: u64) -> bool {
        let Some(renewals) = self.renewals.get(&life) else { return false };
        let mut valid_until_ms = None;
        for (sent_ms, answered_ms) in renewals {
            if valid_until_ms.is_some_and(|until_ms| *answered_ms > until_ms) {
                return false;
            }
            valid_until_ms = valid_until_ms.max(Some(sent_ms + LEASE_MS));
        }
        valid_until_ms.is_some_and(|until_ms| now_ms <= until_ms)
    }

    /// Notes that a client was told that its state is gone.
    pub fn loses(&mut self, life: Life, now_ms: u64, what: &str) {
        if self.kept_lease(life, now_ms) {
            let what = format!("client {life:?} kept its lease, and at {now_ms} ms lost {what}");
            self.lost.push(what);
        }
    }

    /// Ends all claims of a client.
    pub fn end_all(&mut self, life: Life, now_ms: u64) {
        for claim in self.all.iter_mut().filter(|claim| claim.life == life) {
            claim.until_ms.get_or_insert(now_ms);
        }
    }
}
