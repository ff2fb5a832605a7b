//! Held requests: operations of clients that wait here while a data server is away.
//!
//! A client that is told DELAY waits, each time twice as long (Linux up to 15 s, and always 5 s in NFSv3), also
//! when the data server came back right after. A request that is held is answered then.
//!
//! ```text
//! call ─▶ no data server ─▶ up to 2 s ─▶ a place of its session? ─▶ up to 20 s ─▶ DELAY
//!            ▲                  │              │ no: DELAY               │
//!            └── after 100 ms ──┴──────────────┴─────────────────────────┘
//! ```
//!
//! A held request has a slot of its session, and its payload in memory. So each session, and each connection of
//! NFSv3, has a few places ([`nfs::HELD_CALLS_MAX`]): a data server that is away does not stop the requests for
//! files of others.
//!
//! A request goes on only while its client is there, and this metaserver serves it: elsewhere the client may
//! have sent it again, and other writes after it.

use std::sync::Arc;
use std::time::Duration;

use cluster::Cluster;
use namespace::{SessionId, read};
use nfs::{Connection, Session};
use parking_lot::Mutex;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::data::Data;
use crate::errors::FileError;
use crate::state::ClientState;

/// Time that a request may wait without a place.
pub(crate) const SHORT_TIME_MAX: Duration = Duration::from_secs(2);
/// Time that a request may wait. Linux takes a server for dead after 60 s.
const TIME_MAX: Duration = Duration::from_secs(20);
/// Pause before the next call to a data server that is away.
const AGAIN_AFTER: Duration = Duration::from_millis(100);

tokio::task_local! {
    /// The request of a client that this task carries out, if it may wait.
    static HOLD: Option<Arc<Hold>>;
}

/// One request of a client, and its waiting time for data servers.
pub(crate) struct Hold {
    cluster: Arc<Cluster>,
    state: Arc<ClientState>,
    connection: Arc<Connection>,
    session: Option<Arc<Session>>,
    /// Arrival of the request, by the metaserver's clock.
    arrived: Duration,
    wait: Mutex<Wait>,
}

#[derive(Default)]
struct Wait {
    /// Time of the first wait.
    since: Option<Instant>,
    place: Option<OwnedSemaphorePermit>,
}

impl std::fmt::Debug for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Hold({:?})", self.connection)
    }
}

impl Hold {
    /// The end of the present wait; none: it has lasted long enough.
    fn until(&self) -> Option<Instant> {
        let mut wait = self.wait.lock();
        let now = Instant::now();
        let since = *wait.since.get_or_insert(now);
        let waited = now.saturating_duration_since(since);
        if waited < SHORT_TIME_MAX {
            return Some(since + SHORT_TIME_MAX);
        }
        if wait.place.is_none() {
            let held_calls = match &self.session {
                Some(session) => session.held_calls(),
                None => self.connection.held_calls(),
            };
            wait.place = Some(Arc::clone(held_calls).try_acquire_owned().ok()?);
        }
        (waited < TIME_MAX).then_some(since + TIME_MAX)
    }

    /// True if the client of the request still has its locks and opens, and has not gone to another metaserver.
    fn is_present(&self) -> bool {
        let has_state = |session: &Arc<Session>| {
            let id = SessionId(session.id().0);
            let session = self.state.machine.view().and_then(|view| Ok(read::session(&*view, id)?));
            session.is_ok_and(|session| session.is_some())
        };
        self.connection.is_open()
            && self.cluster.may_answer(&self.connection, self.arrived)
            && self.session.as_ref().is_none_or(has_state)
    }
}

/// The present request; none in the metaserver's own work, where nothing is held.
pub(crate) fn current() -> Option<Arc<Hold>> {
    HOLD.try_with(Clone::clone).ok().flatten()
}

/// Work for a request, whose calls may be held.
pub(crate) fn held<W: Future>(hold: Arc<Hold>, work: W) -> impl Future<Output = W::Output> {
    HOLD.scope(Some(hold), work)
}

/// Work for the present request that may run as a task of its own.
pub(crate) fn held_as_now<W: Future>(work: W) -> impl Future<Output = W::Output> + use<W> {
    HOLD.scope(current(), work)
}

/// Work whose calls are not held: others wait for it, or it goes on without an answer.
pub(crate) fn unheld<W: Future>(work: W) -> impl Future<Output = W::Output> {
    HOLD.scope(None, work)
}

/// Does [`unheld`] work again until no data server that it needs is away.
///
/// # Errors
/// Those of the work, when the request has waited long enough.
pub(crate) async fn again_until_return<W, T>(work: impl Fn() -> W + Send) -> Result<T, FileError>
where
    W: Future<Output = Result<T, FileError>> + Send,
{
    loop {
        match unheld(work()).await {
            Err(why @ (FileError::Delay | FileError::Away | FileError::NoAnswer)) => {
                wait_for_return(why).await?;
            }
            outcome => return outcome,
        }
    }
}

/// Waits a moment for a data server that is away.
///
/// # Errors
/// `why`, for work of the metaserver itself, when the request has waited long enough, or when its client may
/// have gone to another metaserver.
pub(crate) async fn wait_for_return(why: FileError) -> Result<(), FileError> {
    let hold = current().ok_or(why)?;
    let until = hold.until().ok_or(why)?;
    tokio::time::sleep_until(until.min(Instant::now() + AGAIN_AFTER)).await;
    if hold.is_present() { Ok(()) } else { Err(why) }
}

/// Waits for work that another request has begun, such as a round of calls.
///
/// # Errors
/// `Delay` when the request has waited long enough.
pub(crate) async fn wait_for_work<T>(work: impl Future<Output = T>) -> Result<T, FileError> {
    let Some(hold) = current() else { return Ok(work.await) };
    let mut work = std::pin::pin!(work);
    loop {
        let until = hold.until().ok_or(FileError::Delay)?;
        if let Ok(done) = tokio::time::timeout_at(until, &mut work).await {
            return Ok(done);
        }
    }
}

impl Data {
    /// A request that arrived now; `session` is that of an NFSv4 compound.
    pub(crate) fn hold(&self, connection: &Arc<Connection>, session: Option<&Arc<Session>>) -> Arc<Hold> {
        Arc::new(Hold {
            cluster: Arc::clone(&self.cluster),
            state: Arc::clone(&self.state),
            connection: Arc::clone(connection),
            session: session.cloned(),
            arrived: self.machine.clock.monotonic(),
            wait: Mutex::default(),
        })
    }
}
