//! The data servers that this metaserver knows: where their targets are reached, and how much room they have.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use host::{Clock, Entropy};
use namespace::{DataServer, DataServerId, TargetId};
use nfs::{Peer, PeerKey};
use wire::cluster;
use wire::data::{self, TargetCondition, TargetSpace};

/// How often a data server registers again, with its free space.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(1);
/// A target not heard of for this long gets no new files.
pub(crate) const SILENT_AFTER: Duration = Duration::from_secs(5);

/// More are not remembered as refused.
const REFUSED_MAX: usize = 1024;

/// What is known of one target.
#[derive(Clone)]
pub(crate) struct Target {
    pub server: DataServerId,
    pub peer: Arc<Peer>,
    /// As last reported; nothing after a restart until its server reports.
    pub space: Option<TargetSpace>,
    heard: Option<Duration>,
}

/// One row of `heorot status`.
#[derive(Debug, Clone)]
pub struct TargetReport {
    /// The target.
    pub target: TargetId,
    /// The data server that has it.
    pub server: DataServerId,
    /// Its directory there.
    pub path: String,
    /// Bytes of the file system that it is on.
    pub total_bytes: u64,
    /// Bytes free there.
    pub free_bytes: u64,
    /// Objects on it.
    pub objects: u64,
    /// Whether its server reports.
    pub alive: bool,
    /// Whether it can be read and written, as last reported.
    pub condition: TargetCondition,
}

/// All targets, by id.
pub(crate) struct DataServers {
    targets: RwLock<BTreeMap<TargetId, Target>>,
    /// Data servers that take no new files.
    closed: RwLock<BTreeSet<DataServerId>>,
    /// Those that may not register, and why, as was said in the log.
    refused: Mutex<BTreeMap<DataServerId, cluster::Status>>,
    key: PeerKey,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
}

impl DataServers {
    pub(crate) fn new(key: PeerKey, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Self {
        Self {
            targets: RwLock::default(),
            closed: RwLock::default(),
            refused: Mutex::default(),
            key,
            clock,
            entropy,
        }
    }

    /// These take no new files from now on, and all others do.
    pub(crate) fn close(&self, closed: BTreeSet<DataServerId>) {
        *self.closed.write().unwrap_or_else(PoisonError::into_inner) = closed;
    }

    /// Notes why a data server is refused, or that it is not. Returns whether that is news: it asks twice a second.
    pub(crate) fn refuse(&self, server: DataServerId, why: Option<cluster::Status>) -> bool {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.len() >= REFUSED_MAX {
            refused.clear();
        }
        match why {
            Some(why) => refused.insert(server, why) != Some(why),
            None => refused.remove(&server).is_some(),
        }
    }

    /// How long ago a data server was heard of.
    pub(crate) fn heard(&self, server: DataServerId) -> Option<Duration> {
        let targets = self.targets.read().ok()?;
        let heard =
            targets.values().filter(|target| target.server == server).filter_map(|target| target.heard).max();
        Some(self.clock.monotonic().saturating_sub(heard?))
    }

    /// Takes in a data server from the state machine, or as it registered with `spaces`.
    pub(crate) fn put(&self, server: &DataServer, spaces: Option<&[TargetSpace]>) {
        let Some(address) = server.addresses.first().and_then(|a| a.parse::<SocketAddr>().ok()) else {
            return;
        };
        let Ok(mut targets) = self.targets.write() else { return };
        let known = targets.values().find(|t| t.server == server.id && t.peer.address() == address);
        let peer = known.map_or_else(
            || {
                let program = (data::PROGRAM, data::VERSION);
                Arc::new(Peer::new(address, program, self.key.clone(), Arc::clone(&self.entropy)))
            },
            |t| Arc::clone(&t.peer),
        );
        for id in &server.targets {
            let space = spaces.and_then(|s| s.iter().find(|s| s.target == id.0).cloned());
            let heard = spaces.map(|_| self.clock.monotonic());
            targets.insert(*id, Target { server: server.id, peer: Arc::clone(&peer), space, heard });
        }
    }

    /// Another metaserver took in a data server. What is known of its targets stays, where they are reached as before.
    pub(crate) fn learn(&self, server: &DataServer) {
        let address = server.addresses.first().and_then(|a| a.parse::<SocketAddr>().ok());
        let known = self.targets.read().is_ok_and(|targets| {
            let same = |t: &Target| t.server == server.id && Some(t.peer.address()) == address;
            server.targets.iter().all(|id| targets.get(id).is_some_and(same))
        });
        if !known {
            self.put(server, None);
        }
    }

    /// Whether its server registered here, and said that the target obeys this incarnation.
    pub(crate) fn obeys(&self, target: TargetId, incarnation: u64) -> bool {
        let Ok(targets) = self.targets.read() else { return false };
        let space = targets.get(&target).and_then(|target| target.space.as_ref());
        space.is_some_and(|space| space.incarnation == incarnation)
    }

    /// What its server answered about it just now.
    pub(crate) fn update(&self, target: TargetId, space: TargetSpace) {
        if let Ok(mut targets) = self.targets.write()
            && let Some(target) = targets.get_mut(&target)
        {
            target.space = Some(space);
        }
    }

    /// What is known of the targets that live, for a metaserver that has just begun.
    pub(crate) fn living(&self) -> Vec<TargetSpace> {
        let Ok(targets) = self.targets.read() else { return vec![] };
        targets.values().filter(|target| self.is_alive(target)).filter_map(|t| t.space.clone()).collect()
    }

    /// What another metaserver knows, for targets of which nothing was heard here yet.
    pub(crate) fn learn_living(&self, spaces: Vec<TargetSpace>) {
        let Ok(mut targets) = self.targets.write() else { return };
        for space in spaces {
            if let Some(target) = targets.get_mut(&TargetId(space.target))
                && target.heard.is_none()
            {
                target.space = Some(space);
                target.heard = Some(self.clock.monotonic());
            }
        }
    }

    /// Its server does not answer: until it reports again, it gets no new files.
    pub(crate) fn silence(&self, target: TargetId) {
        if let Ok(mut targets) = self.targets.write()
            && let Some(target) = targets.get_mut(&target)
        {
            target.heard = None;
        }
    }

    /// The connection to the server that has `target`.
    pub(crate) fn peer(&self, target: TargetId) -> Option<Arc<Peer>> {
        Some(Arc::clone(&self.targets.read().ok()?.get(&target)?.peer))
    }

    /// Whether an object of one of these targets can share its data with an object of the other: both on one file
    /// system that can, and of one server, which has to do it. None: a server has not said anything yet.
    pub(crate) fn share(&self, one: TargetId, other: TargetId) -> Option<bool> {
        let targets = self.targets.read().ok()?;
        let (one, other) = (targets.get(&one)?, targets.get(&other)?);
        let (a, b) = (one.space.as_ref()?, other.space.as_ref()?);
        Some(one.server == other.server && a.file_system == b.file_system && a.reflinks && b.reflinks)
    }

    fn is_alive(&self, target: &Target) -> bool {
        target.heard.is_some_and(|at| self.clock.monotonic().saturating_sub(at) < SILENT_AFTER)
    }

    /// Targets that take new files, in the order of their ids, with their free bytes.
    pub(crate) fn usable(&self) -> Vec<(TargetId, u64)> {
        let Ok(targets) = self.targets.read() else { return vec![] };
        let closed = self.closed.read().unwrap_or_else(PoisonError::into_inner);
        let usable = |(id, target): (&TargetId, &Target)| {
            if closed.contains(&target.server) {
                return None;
            }
            let space = target.space.as_ref().filter(|s| takes_files(s.condition))?;
            self.is_alive(target).then_some((*id, space.free))
        };
        targets.iter().filter_map(usable).collect()
    }

    /// All targets, for people.
    pub(crate) fn report(&self) -> Vec<TargetReport> {
        let Ok(targets) = self.targets.read() else { return vec![] };
        let row = |(id, target): (&TargetId, &Target)| {
            let space = target.space.as_ref();
            TargetReport {
                target: *id,
                server: target.server,
                path: space.map_or_else(String::new, |s| String::from_utf8_lossy(&s.path).into_owned()),
                total_bytes: space.map_or(0, |s| s.total),
                free_bytes: space.map_or(0, |s| s.free),
                objects: space.map_or(0, |s| s.objects),
                alive: self.is_alive(target),
                condition: space.map_or(TargetCondition::Ok, |s| s.condition),
            }
        };
        targets.iter().map(row).collect()
    }

    /// Total and free bytes of all targets. Targets on one file system share its room, which counts once.
    pub(crate) fn space(&self) -> (u64, u64) {
        let Ok(targets) = self.targets.read() else { return (0, 0) };
        let spaces: BTreeMap<u64, &TargetSpace> =
            targets.values().filter_map(|t| t.space.as_ref()).map(|s| (s.file_system, s)).collect();
        let sum =
            |of: fn(&TargetSpace) -> u64| spaces.values().fold(0u64, |sum, s| sum.saturating_add(of(s)));
        (sum(|s| s.total), sum(|s| s.free))
    }
}

/// Whether new files are placed on a target in this condition. A full one may have room again with the next report, and
/// its free bytes say how much: placement weighs them.
fn takes_files(condition: TargetCondition) -> bool {
    match condition {
        TargetCondition::Ok | TargetCondition::Full => true,
        TargetCondition::ReadOnly | TargetCondition::Failed | TargetCondition::Missing => false,
    }
}
