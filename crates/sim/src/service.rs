//! Metaserver of a member: the real one, over the member's replica, on the simulated network, with the
//! machine's clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use cluster::{Begin, Rules, ThisServer};
use host::{Clock, Entropy, SeededEntropy, WallTime};
use metaserver::{Follower, Metaserver, MetaserverConfig, Upcalls};
use namespace::Command;
use nfs::{PeerKey, Server};
use parking_lot::Mutex;
use replica::{AnswerFuture, Applied, BeforeOrder, Observer, Replica};
use tokio::time::Instant;
use wire::handle::HandleKey;

use crate::bug::Bug;
use crate::disk::SimDisk;
use crate::member::time_of_day;
use crate::net::Address;
use crate::shared::Shared;
use crate::stream_network::{SimNetwork, socket_address};
use crate::wires::HistoryObserver;

/// Client lease: the shortest that the settings allow.
pub const LEASE: Duration = Duration::from_secs(5);
const LEASE_SET: &str = "5s";
/// Pause between looks whether a new member belongs to the group.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Key that all servers of the simulated cluster hold.
#[must_use]
pub fn peer_key() -> PeerKey {
    PeerKey { cluster: [7; 16], secret: [8; 32] }
}

/// Key of the handles.
#[must_use]
pub fn handle_key() -> HandleKey {
    HandleKey::new([9; 32])
}

/// Clock of a machine. Its monotonic time is the time of the machine's process.
pub struct SimClock {
    began: Instant,
    shared: Arc<Shared>,
    clock_offset_ms: Arc<AtomicI64>,
}

impl SimClock {
    /// The clock of a process that begins now.
    #[must_use]
    pub fn begin(shared: &Arc<Shared>, clock_offset_ms: &Arc<AtomicI64>) -> Self {
        let (shared, clock_offset_ms) = (Arc::clone(shared), Arc::clone(clock_offset_ms));
        Self { began: Instant::now(), shared, clock_offset_ms }
    }
}

impl Clock for SimClock {
    fn wall(&self) -> WallTime {
        let time = time_of_day(&self.shared, self.clock_offset_ms.load(Ordering::Relaxed));
        WallTime { seconds: time.seconds, nanoseconds: time.nanoseconds }
    }

    fn monotonic(&self) -> Duration {
        let elapsed = self.began.elapsed();
        match self.shared.bug {
            Some(Bug::ClocksStand) => Duration::ZERO,
            Some(Bug::ClocksRace) => 4 * elapsed,
            _ => elapsed,
        }
    }
}

/// Observer that notes what the replica applies, and tells the metaserver.
pub struct ServiceObserver {
    /// For the history.
    pub history: HistoryObserver,
    /// For the metaserver.
    pub upcalls: Arc<Upcalls>,
}

impl Observer for ServiceObserver {
    fn applied(&self, applied: &Applied<'_>) {
        self.history.applied(applied);
        self.upcalls.applied(applied);
    }

    fn replaced(&self) {
        self.history.replaced();
        self.upcalls.replaced();
    }

    fn answer_peer(&self, question: bytes::Bytes) -> AnswerFuture {
        self.upcalls.answer_peer(question)
    }

    fn before_order(&self, command: &Command) -> Option<BeforeOrder> {
        match self.history.shared.bug {
            Some(Bug::BriefOpensForget) => None,
            _ => self.upcalls.before_order(command),
        }
    }
}

/// Running metaserver.
pub struct Service {
    /// Its server, until it is stopped.
    pub server: Server,
    /// The metaserver.
    pub metaserver: Arc<Metaserver>,
}

/// Place of a metaserver.
pub struct Place {
    /// Address of its machine.
    pub address: Address,
    /// Id of its member.
    pub id: u64,
    /// State shared with the simulation.
    pub shared: Arc<Shared>,
    /// Disk of its machine.
    pub disk: SimDisk,
    /// Offset of the machine's time of day.
    pub clock_offset_ms: Arc<AtomicI64>,
    /// Source of its random bits.
    pub random: u64,
}

impl Place {
    /// Starts the metaserver, and puts it into `service`.
    pub async fn run(self, replica: Replica, follower: Follower, service: Arc<Mutex<Option<Service>>>) {
        let (shared, id) = (Arc::clone(&self.shared), self.id);
        match self.serve(replica, follower).await {
            Ok(serving) => {
                shared.note(|| format!("metaserver {id} serves"));
                *service.lock() = Some(serving);
            }
            // The replica says why, if it fails; one that stops is no finding.
            Err(why) => shared.note(|| format!("metaserver {id} does not serve: {why}")),
        }
    }

    /// Starts the metaserver once its member has a vote.
    ///
    /// # Errors
    /// Why it does not serve.
    async fn serve(self, replica: Replica, follower: Follower) -> Result<Service, String> {
        let votes = || replica.status().members.iter().any(|(id, _, votes)| *id == self.id && *votes);
        while !votes() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        replica.ready().await.map_err(|e| e.to_string())?;
        let begin = (self.id == 1).then(|| begin(&self.shared));
        let config = MetaserverConfig { volume: 1, cluster: peer_key().cluster, begin };
        let clock = Arc::new(SimClock::begin(&self.shared, &self.clock_offset_ms));
        let entropy: Arc<dyn Entropy> = Arc::new(SeededEntropy::new(self.random));
        let disk = self.disk.clone();
        let network = SimNetwork::new(self.address, &self.shared).with_power(move || disk.is_dead());
        let network = Arc::new(network);
        let made = Metaserver::new_on(network, config, replica, handle_key(), peer_key(), clock, entropy);
        let metaserver = made.map_err(|e| e.to_string())?;
        metaserver.follow_others(follower);
        metaserver.cluster().begin().await.map_err(|status| format!("begin: {status:?}"))?;
        let at = socket_address(self.address);
        let server = metaserver.serve(at).await.map_err(|e| e.to_string())?;
        let name = format!("mds{}", self.address);
        metaserver.enter_map(ThisServer { name, address: at.to_string(), version: "0.1.0" });
        Ok(Service { server, metaserver })
    }
}

/// What the cluster begins with.
fn begin(shared: &Shared) -> Begin {
    let mut begin = Begin::for_everybody(Rules::OPEN);
    let read_leases = if shared.leases { "true" } else { "false" };
    let copies = shared.data.copies.to_string();
    let settings = [
        ("lease", LEASE_SET),
        ("stripe_columns", "2"),
        ("stripe_unit", "64KiB"),
        ("stripe_copies", &copies),
        ("read_leases", read_leases),
    ];
    for (key, value) in settings {
        // Keys and values of this program.
        let _ = begin.set(key, value);
    }
    begin
}
