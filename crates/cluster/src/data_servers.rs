//! The data servers that this metaserver knows: the address and the free space of their targets.

mod refills;
mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use host::{Clock, Entropy, watch};
use namespace::{ClusterMap, DataServer, DataServerId, TargetId};
use nfs::{CallFailure, Peer, PeerKey, StreamNetwork};
use parking_lot::{Mutex, RwLock};
use wire::cluster;
use wire::data::{self, TargetCondition, TargetSpace};

pub use refills::Refilling;
pub use report::TargetReport;

/// Interval at which a data server registers again, with its free space.
pub const HEARTBEAT: Duration = Duration::from_secs(1);
/// A target that is silent for this long gets no new files.
pub(crate) const SILENT_AFTER: Duration = Duration::from_secs(5);

/// A target that answered NOSPC counts as full for this long, whatever its report says: the report is as old
/// as a heartbeat.
pub(crate) const NO_ROOM_FOR: Duration = Duration::from_secs(5);
/// A target that answered with a disk error gets no new files for this long after the last error. Its data
/// server reports lasting faults; after others (a sector that was written anew) the target is tried again.
const FAILING_FOR: Duration = Duration::from_secs(60);

/// Most data servers remembered as refused.
const REFUSED_MAX: usize = 1024;

/// A target that takes new files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usable {
    /// The target.
    pub target: TargetId,
    /// Bytes that can be written.
    pub free: u64,
    /// True if it has free space for more than a moment.
    pub has_room: bool,
}

/// State of one target.
#[derive(Clone)]
pub(crate) struct Target {
    pub server: DataServerId,
    /// Random number of the run of its server's process.
    process: u64,
    pub peer: Arc<Peer>,
    /// Last report; none after a restart, until its server reports.
    pub space: Option<TargetSpace>,
    heard: Option<Duration>,
    /// Time of its last NOSPC answer; below, of its last disk error.
    no_room: Option<Duration>,
    failing: Option<Duration>,
    /// Calls without an answer since the server's last answer, of all targets of the server.
    unanswered: Arc<AtomicU64>,
}

/// Reason why a target cannot be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoServer {
    /// The target is lost: nothing waits for it.
    Lost,
    /// No data server has registered the target yet.
    Unknown,
}

/// Connection to the server of a target, with its count of unanswered calls.
pub struct Reach {
    /// The connection to its server.
    pub peer: Arc<Peer>,
    unanswered: Arc<AtomicU64>,
}

impl Reach {
    /// Notes a call without an answer: the first is logged as a warning, and all are counted.
    pub fn failed(&self, procedure: &str, error: &CallFailure) {
        let address = self.peer.address();
        if self.unanswered.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::warn!(
                %address, %error, procedure,
                "a data server does not answer: its files wait for it; start it, or remove it if it is gone for good"
            );
        } else {
            tracing::debug!(%address, %error, procedure, "the data server does not answer");
        }
    }

    /// Notes an answer.
    pub fn answered(&self) {
        // The usual case: no write to memory that all threads share.
        if self.unanswered.load(Ordering::Relaxed) != 0 {
            let calls = self.unanswered.swap(0, Ordering::Relaxed);
            tracing::info!(address = %self.peer.address(), calls, "the data server answers again; calls failed meanwhile");
        }
    }
}

/// All targets, by id.
pub struct DataServers {
    targets: RwLock<BTreeMap<TargetId, Target>>,
    /// Targets that take no new files, since they or their data servers drain.
    closed: RwLock<BTreeSet<TargetId>>,
    /// Targets that nothing waits for: declared lost, or of removed data servers. Waiting calls follow this
    /// set.
    lost: watch::Sender<Arc<BTreeSet<TargetId>>>,
    /// Directories of lost targets, as their servers reported them before, so that people can still name the
    /// targets by directory.
    lost_paths: Mutex<BTreeMap<TargetId, String>>,
    /// Last registrations of data servers here, also of those that have no target but lost ones.
    registered: Mutex<BTreeMap<DataServerId, Duration>>,
    /// Reports of the refilling of members of chains.
    refills: Mutex<refills::Refills>,
    /// Data servers that may not register, each with the logged reason.
    refused: Mutex<BTreeMap<DataServerId, cluster::Status>>,
    network: Arc<dyn StreamNetwork>,
    key: PeerKey,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
}

impl DataServers {
    pub(crate) fn new(
        network: Arc<dyn StreamNetwork>,
        key: PeerKey,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Self {
        Self {
            network,
            targets: RwLock::default(),
            closed: RwLock::default(),
            lost: watch::Sender::default(),
            lost_paths: Mutex::default(),
            registered: Mutex::default(),
            refills: Mutex::default(),
            refused: Mutex::default(),
            key,
            clock,
            entropy,
        }
    }

    /// Follows the cluster map. Targets that are lost, or that no data server has any more, are forgotten.
    pub(crate) fn follow(&self, map: &ClusterMap) {
        let of_servers = map.present_data_servers().flat_map(|server| {
            server.targets.iter().copied().filter(|target| map.is_draining(*target, server.id))
        });
        *self.closed.write() = of_servers.collect();
        let removed = map.data_servers.iter().filter(|server| map.is_removed(server.id));
        let mut lost: BTreeSet<TargetId> = removed.flat_map(|server| &server.targets).copied().collect();
        let declared: BTreeSet<TargetId> = map.lost_targets().collect();
        lost.extend(&declared);
        let held: BTreeSet<TargetId> =
            map.present_data_servers().flat_map(|server| &server.targets).copied().collect();
        let lost = Arc::new(lost);
        let is_news = |known: &mut Arc<BTreeSet<TargetId>>| {
            let news = *known != lost;
            *known = Arc::clone(&lost);
            news
        };
        // First: a call to a forgotten target then learns that the target is lost.
        self.lost.set_if(is_news);
        let mut paths = self.lost_paths.lock();
        paths.retain(|id, _| declared.contains(id));
        self.targets.write().retain(|id, target| {
            if let Some(space) = target.space.as_ref().filter(|_| declared.contains(id)) {
                paths.insert(*id, String::from_utf8_lossy(&space.path).into_owned());
            }
            held.contains(id) && !lost.contains(id)
        });
        drop(paths);
        self.registered.lock().retain(|server, _| !map.is_removed(*server));
        self.refills.lock().retain(|server| !map.is_removed(server));
        map.present_data_servers().for_each(|server| self.learn(server));
    }

    /// True if nothing waits for the target any more: its data are lost.
    #[must_use]
    pub fn is_lost(&self, target: TargetId) -> bool {
        self.lost_targets().contains(&target)
    }

    /// The directory of a target that was declared lost, if its server reported it since the start of this
    /// metaserver.
    pub(crate) fn lost_path(&self, target: TargetId) -> Option<String> {
        self.lost_paths.lock().get(&target).cloned()
    }

    /// The targets that nothing waits for.
    #[must_use]
    pub fn lost_targets(&self) -> Arc<BTreeSet<TargetId>> {
        Arc::clone(&self.lost.get())
    }

    /// Returns when nothing waits for the target any more.
    pub fn until_lost(&self, target: TargetId) -> impl Future<Output = ()> + Send + 'static {
        let mut lost = self.lost.subscribe();
        async move {
            if lost.wait_for(|lost| lost.contains(&target)).await.is_err() {
                std::future::pending().await // this metaserver ends
            }
        }
    }

    /// Notes why a data server is refused, or that it is accepted. Returns true if that is new: a refused
    /// data server asks twice a second.
    pub fn refuse(&self, server: DataServerId, why: Option<cluster::Status>) -> bool {
        let mut refused = self.refused.lock();
        if refused.len() >= REFUSED_MAX {
            refused.clear();
        }
        match why {
            Some(why) => refused.insert(server, why) != Some(why),
            None => refused.remove(&server).is_some(),
        }
    }

    /// Time since the last contact with a data server.
    pub(crate) fn heard(&self, server: DataServerId) -> Option<Duration> {
        let targets = self.targets.read();
        let mut of_server = targets.values().filter(|target| target.server == server).peekable();
        let heard = match of_server.peek() {
            Some(_) => of_server.filter_map(|target| target.heard).max(),
            None => self.registered.lock().get(&server).copied(),
        };
        Some(self.clock.monotonic().saturating_sub(heard?))
    }

    /// Adds a data server from the state machine, or from its registration with `spaces`. Returns true if one
    /// of its targets was silent before.
    pub fn put(&self, server: &DataServer, spaces: Option<&[TargetSpace]>) -> bool {
        let Some(address) = server.addresses.first().and_then(|a| a.parse::<SocketAddr>().ok()) else {
            return false;
        };
        let lost = self.lost_targets();
        let mut targets = self.targets.write();
        if spaces.is_some() {
            self.registered.lock().insert(server.id, self.clock.monotonic());
        }
        let known = targets.values().find(|t| t.server == server.id && t.peer.address() == address);
        let (peer, unanswered) = known.map_or_else(
            || {
                let program = (data::PROGRAM, data::VERSION);
                let (network, entropy) = (Arc::clone(&self.network), Arc::clone(&self.entropy));
                let peer = Peer::new_on(network, address, program, self.key.clone(), entropy);
                (Arc::new(peer), Arc::default())
            },
            |t| (Arc::clone(&t.peer), Arc::clone(&t.unanswered)),
        );
        let mut is_back = false;
        for id in server.targets.iter().filter(|id| !lost.contains(id)) {
            let before = targets.get(id);
            is_back |= !before.is_some_and(|target| self.is_alive(target));
            let as_before = before.filter(|target| spaces.is_none() && Arc::ptr_eq(&target.peer, &peer));
            let reported = spaces.and_then(|s| s.iter().find(|s| s.target == id.0).cloned());
            // A process that starts does so with a disk that can be written.
            let same_run = before.filter(|target| target.process == server.process);
            let target = Target {
                server: server.id,
                process: server.process,
                peer: Arc::clone(&peer),
                space: reported.or_else(|| as_before?.space.clone()),
                heard: spaces.map(|_| self.clock.monotonic()).or_else(|| as_before?.heard),
                no_room: same_run.and_then(|target| target.no_room),
                failing: same_run.and_then(|target| target.failing),
                unanswered: Arc::clone(&unanswered),
            };
            targets.insert(*id, target);
        }
        is_back && spaces.is_some()
    }

    /// Adds a data server that registered with another metaserver. The state of a target stays if its address
    /// is the same.
    pub fn learn(&self, server: &DataServer) {
        let address = server.addresses.first().and_then(|a| a.parse::<SocketAddr>().ok());
        let lost = self.lost_targets();
        let is_known = {
            let targets = self.targets.read();
            let same = |t: &Target| t.server == server.id && Some(t.peer.address()) == address;
            server.targets.iter().all(|id| lost.contains(id) || targets.get(id).is_some_and(same))
        };
        if !is_known {
            self.put(server, None);
        }
    }

    /// True if its server registered here, and reported that the target obeys this incarnation of the group.
    #[must_use]
    pub fn obeys(&self, target: TargetId, incarnation: u64) -> bool {
        let targets = self.targets.read();
        let space = targets.get(&target).and_then(|target| target.space.as_ref());
        space.is_some_and(|space| space.incarnation == incarnation)
    }

    /// Notes an error that a target answered.
    pub fn refused(&self, target: TargetId, status: data::Status) {
        let now = self.clock.monotonic();
        let mut targets = self.targets.write();
        let Some(known) = targets.get_mut(&target) else { return };
        match status {
            data::Status::NoSpace => known.no_room = Some(now),
            data::Status::Io | data::Status::ReadOnly | data::Status::TargetLost => {
                if known.failing.is_none_or(|at| now.saturating_sub(at) >= FAILING_FOR) {
                    let (address, target) = (known.peer.address(), format!("{:016x}", target.0));
                    tracing::warn!(
                        %address, target, ?status,
                        "a target fails: it gets no new files for a minute; look at its disk, and at its data server's log"
                    );
                }
                known.failing = Some(now);
            }
            _ => {}
        }
    }

    /// Notes the space of a target from an answer of its server.
    pub fn update(&self, target: TargetId, space: TargetSpace) {
        if let Some(target) = self.targets.write().get_mut(&target) {
            target.space = Some(space);
        }
    }

    /// Space of the live targets, for a metaserver that has just started.
    pub(crate) fn living(&self) -> Vec<TargetSpace> {
        let targets = self.targets.read();
        targets.values().filter(|target| self.is_alive(target)).filter_map(|t| t.space.clone()).collect()
    }

    /// Notes the spaces that another metaserver knows, for targets without a report here yet.
    pub(crate) fn learn_living(&self, spaces: Vec<TargetSpace>) {
        let mut targets = self.targets.write();
        for space in spaces {
            if let Some(target) = targets.get_mut(&TargetId(space.target))
                && target.heard.is_none()
            {
                target.space = Some(space);
                target.heard = Some(self.clock.monotonic());
            }
        }
    }

    /// Notes that the target's server does not answer: the target gets no new files until the server reports
    /// again.
    pub fn silence(&self, target: TargetId) {
        if let Some(target) = self.targets.write().get_mut(&target) {
            target.heard = None;
        }
    }

    /// The connection to the server that has `target`.
    #[must_use]
    pub fn peer(&self, target: TargetId) -> Option<Arc<Peer>> {
        Some(Arc::clone(&self.targets.read().get(&target)?.peer))
    }

    /// The connection to the server of `target`, with its count of unanswered calls.
    ///
    /// # Errors
    /// [`NoServer`].
    pub fn reach(&self, target: TargetId) -> Result<Reach, NoServer> {
        let targets = self.targets.read();
        match targets.get(&target) {
            Some(known) => {
                Ok(Reach { peer: Arc::clone(&known.peer), unanswered: Arc::clone(&known.unanswered) })
            }
            None if self.is_lost(target) => Err(NoServer::Lost),
            None => Err(NoServer::Unknown),
        }
    }

    /// True if an object of one target can share its data with an object of the other (reflink): both are on
    /// one file system with reflinks, and belong to one server, which does the work. None: a server has not
    /// reported yet.
    #[must_use]
    pub fn share(&self, one: TargetId, other: TargetId) -> Option<bool> {
        let targets = self.targets.read();
        let (one, other) = (targets.get(&one)?, targets.get(&other)?);
        let (a, b) = (one.space.as_ref()?, other.space.as_ref()?);
        Some(one.server == other.server && a.file_system == b.file_system && a.reflinks && b.reflinks)
    }

    fn is_alive(&self, target: &Target) -> bool {
        target.heard.is_some_and(|at| self.is_recent(at, SILENT_AFTER))
    }

    /// Targets that take new files, in the order of their ids.
    #[must_use]
    pub fn usable(&self) -> Vec<Usable> {
        let targets = self.targets.read();
        let closed = self.closed.read();
        let usable = |(id, target): (&TargetId, &Target)| {
            let takes = !closed.contains(id) && self.is_alive(target) && self.is_well(target);
            let space = target.space.as_ref().filter(|_| takes)?;
            Some(Usable { target: *id, free: space.free, has_room: self.has_room(target) })
        };
        targets.iter().filter_map(usable).collect()
    }

    /// True if the target takes no new files, since it or its data server drains.
    #[must_use]
    pub fn is_closed(&self, target: TargetId) -> bool {
        self.closed.read().contains(&target)
    }

    /// True if data that are not on `target` yet should go to another target: this one is lost, fails, or is
    /// full. An absent target is waited for.
    #[must_use]
    pub fn is_unfit(&self, target: TargetId) -> bool {
        let targets = self.targets.read();
        match targets.get(&target) {
            Some(known) => !self.is_well(known) || !self.has_room(known),
            None => self.is_lost(target),
        }
    }

    /// True if the target has no room, as last reported or answered.
    pub(crate) fn is_full(&self, target: TargetId) -> bool {
        self.targets.read().get(&target).is_some_and(|known| !self.has_room(known))
    }

    fn is_well(&self, target: &Target) -> bool {
        let fails = target.failing.is_some_and(|at| self.is_recent(at, FAILING_FOR));
        !fails && target.space.as_ref().is_none_or(|space| takes_files(space.condition))
    }

    fn has_room(&self, target: &Target) -> bool {
        let is_full = target.space.as_ref().is_some_and(|space| space.condition == TargetCondition::Full);
        !is_full && !target.no_room.is_some_and(|at| self.is_recent(at, NO_ROOM_FOR))
    }

    fn is_recent(&self, at: Duration, time: Duration) -> bool {
        self.clock.monotonic().saturating_sub(at) < time
    }
}

/// True if new files are placed on a target in this condition. A full one may have space again with the next
/// report, and placement weighs its free bytes. One with a damaged block may have no other.
fn takes_files(condition: TargetCondition) -> bool {
    match condition {
        TargetCondition::Ok | TargetCondition::Damaged | TargetCondition::Full => true,
        TargetCondition::ReadOnly | TargetCondition::Failed | TargetCondition::Missing => false,
    }
}

#[cfg(test)]
mod tests;
