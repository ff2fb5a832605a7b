//! Chains: the copies of a column at several data servers (docs/decisions/0010-chains.md).
//!
//! ```text
//! client ─▶ any member ─▶ head: lock of the range ─▶ own disk
//!                           └─▶ next: lock ─▶ own disk            at the same time
//!                                 └─▶ tail: lock ─▶ own disk
//! client ◀────────── head ◀────── next ◀────── tail                each unlocks as it answers
//! ```
//!
//! **One order.** The head takes the lock of a change's range before any other member hears of the change,
//! and holds the lock until all members have it. So changes that overlap reach all members in one order.
//!
//! **No member stays different.** Every member holds its lock until all members after it have the change. If
//! the call to the next member fails, a member keeps the lock, waits for a later version of the chain or for
//! the return of the next member, and sends the same change again. So if the head dies after a middle member
//! has written, that member, which is the next head, still holds the lock and carries the change to the tail,
//! before it serves a read or a change of these bytes. A change ends when all members of the version that is
//! known at its end have it, or when its own target is no member any more.
//!
//! So a head must stay the head until it leaves the chain: a member before it would lack what it has begun.
//! The leader puts a member that is taken in behind all that are in.
//!
//! **Reads are linearizable at every member.** A read waits for the locks of its range. A member that answers
//! with a change's bytes has released the lock, so all members after it have the bytes; those before it hold
//! their locks until they have been answered, and serve no read of the range meanwhile. So once a read has
//! returned new bytes, no later read at any member returns older ones.
//!
//! **Copies of a call.** A change that is sent again may leave a copy of itself on its way. A later change of
//! the same bytes must not be overtaken by this copy. The two copies have the same place in the queue of the
//! lock, or the copy is refused: a member takes a forwarded change into the queue as it reads the change off
//! the connection, in the order of sending; it refuses changes that come by an earlier connection than the
//! latest one; and it refuses an earlier version of the chain.
//!
//! **Leases.** A member without a lease answers no read, and a head without one acknowledges nothing: it may
//! have been taken out of the chain. The leader waits for the end of a member's lease before it takes the
//! member out, unless the member has stopped by itself (`chain::leave`) or its process is dead.

mod calls;
mod change;
mod compare;
mod copy;
mod dirty_log;
mod dirty_log_file;
mod forward;
mod lead;
mod leave;
mod locks;
mod member;
mod mend;
mod metrics;
mod names;
mod news;
mod objects;
mod pace;
mod progress;
mod read;
mod records;
mod refill;
mod refill_dirty;
mod regions;
mod relay;
mod stat;
mod stuck;
mod table;
mod tell;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use host::Clock;
use nfs::ConnectionId;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use wire::data::{Status, WriteVerifier};
use wire::handle::HandleKey;

pub(crate) use change::Change;
pub(crate) use copy::Source;
pub(crate) use dirty_log_file::DirtyLogFile;
pub use metrics::ChainMetrics;
pub use pace::REFILL_RATE;
pub use progress::RefillProgress;
pub(crate) use records::ChainRecords;

use crate::data_program::refusal;
use crate::found::Found;
use crate::object::ObjectName;
use crate::objects::ObjectError;
use crate::peers::Peers;
use crate::pull::Pull;
use crate::ranges::Reserve;
use dirty_log::DirtyLog;
use locks::RangeLocks;
use table::{ChainTable, NotServing};

/// Time that a client's call waits for a lease or for its chain; then the client asks a metaserver. A change
/// of a chain takes 1.7 s of lease and half a second.
const CLIENT_HOLD: Duration = Duration::from_secs(4);
/// The same of a server's call: the caller has other ways, and waits by itself.
const SERVER_HOLD: Duration = Duration::from_millis(500);
/// Time after which the caller of a change, or of a read that waits for one, gets an answer. The change
/// itself goes on.
const CALL_TIME_MAX: Duration = Duration::from_secs(20);
/// Changes that go on after their callers were answered: each holds 1 MiB of memory. When there are more,
/// their callers wait.
const UNANSWERED_MAX: usize = 64;
/// Memory, in KiB, of calls from servers that wait for this head's chain. Together with [`FORWARDED_KIB_MAX`]
/// less than the memory for calls of servers (`nfs::Limits::members_bytes_max`), so that calls that need no
/// other server always find room: they end, and free those that wait for them.
const LED_KIB_MAX: usize = 48 << 10;
/// The same of forwarded calls that wait for the next member.
const FORWARDED_KIB_MAX: usize = 48 << 10;

/// Caller of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    /// A client.
    Client,
    /// A metaserver or another member, by this connection.
    Server(ConnectionId),
}

impl Caller {
    fn hold(self) -> Duration {
        match self {
            Caller::Client => CLIENT_HOLD,
            Caller::Server(_) => SERVER_HOLD,
        }
    }
}

/// Sender of changes to a member. In one version of a chain, each is one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Sender {
    /// The member before this one.
    Forwards,
    /// The head, which refills this member.
    Refills,
}

/// Result of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Done {
    /// Write verifier of the chain.
    pub verifier: WriteVerifier,
    /// Room that ALLOCATE found at the head, and the head's file system.
    pub reserve: Option<(Reserve, u64)>,
}

/// Reason why an operation was not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Refused. Nothing of it is done after the answer.
    Refused(Status),
    /// It may still be done.
    Unknown,
}

impl From<Status> for Trouble {
    fn from(status: Status) -> Self {
        Trouble::Refused(status)
    }
}

impl From<ObjectError> for Trouble {
    fn from(error: ObjectError) -> Self {
        Trouble::Refused(refusal(error))
    }
}

impl From<NotServing> for Trouble {
    fn from(why: NotServing) -> Self {
        Trouble::Refused(match why {
            NotServing::Waits => Status::ChainWaits,
            NotServing::NoMember | NotServing::Refilling => Status::StaleChain,
        })
    }
}

/// Chain, target and sender of forwarded calls.
type SenderKey = (u64, u64, Sender);

/// The chains of this server's targets.
pub(crate) struct Chains {
    pub(crate) table: ChainTable,
    pub(crate) dirty: Arc<DirtyLog>,
    locks: Arc<RangeLocks>,
    peers: Arc<Peers>,
    pull: Pull,
    key: HandleKey,
    metrics: Arc<ChainMetrics>,
    /// Latest connection that changes of a version have come by, by chain and target: two for each chain
    /// here.
    senders: Mutex<BTreeMap<SenderKey, (u32, ConnectionId)>>,
    unanswered: Arc<Semaphore>,
    led: Arc<Semaphore>,
    forwarded: Arc<Semaphore>,
    /// Time of the last line in the log about a change that waits.
    warned: Mutex<Option<Instant>>,
    refilled: refill::RefilledMembers,
    pace: pace::Pace,
    progress: progress::Progress,
    names: names::ChainNames,
    /// Calls of clients and metaservers so far.
    calls: AtomicU64,
    /// Changes that wait for a block of this server to be mended.
    stuck: stuck::StuckChanges,
    mends: Semaphore,
}

impl Chains {
    pub(crate) fn new(clock: Arc<dyn Clock>, peers: Arc<Peers>, key: HandleKey) -> Arc<Self> {
        let locks: Arc<RangeLocks> = Arc::default();
        let dirty = Arc::new(DirtyLog::new(Arc::clone(&locks)));
        Arc::new(Self {
            table: ChainTable::new(clock, Arc::clone(&dirty)),
            dirty,
            locks,
            pull: Pull::new(Arc::clone(&peers)),
            peers,
            key,
            metrics: Arc::default(),
            senders: Mutex::default(),
            unanswered: Arc::new(Semaphore::new(UNANSWERED_MAX)),
            led: Arc::new(Semaphore::new(LED_KIB_MAX)),
            forwarded: Arc::new(Semaphore::new(FORWARDED_KIB_MAX)),
            warned: Mutex::default(),
            refilled: refill::RefilledMembers::default(),
            pace: pace::Pace::default(),
            progress: progress::Progress::default(),
            names: names::ChainNames::default(),
            calls: AtomicU64::new(0),
            stuck: stuck::StuckChanges::default(),
            mends: Semaphore::new(mend::MENDS_AT_A_TIME),
        })
    }

    pub(crate) fn pull(&self) -> &Pull {
        &self.pull
    }

    /// Ranges of an object of which changes are under way: other members may not have them yet.
    pub(crate) fn under_way(&self, target: u64, name: &ObjectName) -> Vec<Range<u64>> {
        self.locks.changes_of(&(target, *name))
    }

    pub(crate) fn metrics(&self) -> &Arc<ChainMetrics> {
        &self.metrics
    }

    /// Notes that clients work here: refilling gives way.
    fn note_call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Makes a change of an object that has copies, at all of them.
    pub(crate) async fn change(
        self: &Arc<Self>,
        found: Found,
        change: Change,
        caller: Caller,
    ) -> Result<Done, Trouble> {
        self.note_call();
        match caller {
            Caller::Server(connection) if found.handle.chain_version != 0 => {
                self.forwarded(found, change, connection).await
            }
            _ => self.lead(found, change, caller).await,
        }
    }
}
