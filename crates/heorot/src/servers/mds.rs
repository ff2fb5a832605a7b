//! Runs a metaserver.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cluster::{Begin, JoinServer, Members, ServiceAddresses, ThisServer};
use host::{Clock, Entropy, SystemClock, SystemEntropy, size};
use metaserver::{Metaserver, MetaserverConfig, Upcalls};
use namespace::{NodeKey, Stamp, Time};
use nfs::Server;
use prometheus_client::registry::Registry;
use replica::{Member, MemberRole, Replica, ReplicaConfig, ReplicaError, Transport};
use store::{OpenError, RedbStore};

use crate::admin::http::Admin;
use crate::admin::server::{AdminPlace, AdminServer};
use crate::boot::BootServers;
use crate::cli::ConfigArgs;
use crate::config;
use crate::config::mds::{GroupConfig, MdsConfig, default_rules};
use crate::node::data_dir::DataDir;
use crate::node::founding_marker;
use crate::node::secret::Secret;
use crate::node::supervisor::say_ready;
use crate::node::{join_client, listen};
use crate::process::notify;
use crate::servers::{rebuild, reload};
use command_line::signals::{Hangups, Signals};
use command_line::{Failure, logging};

/// Kind of a metaserver's data directory.
pub(crate) const KIND: &str = "metaserver";
/// Id of the first member of every group. Other ids are random, of 63 bits, the range of TOML.
const FOUNDER: u64 = 1;
/// Time limit of a join, in which a new member receives all metadata.
const JOIN_TIME_MAX: Duration = Duration::from_secs(600);
/// Time limit of a leadership transfer; after it there is an election.
const HAND_OVER_TIME_MAX: Duration = Duration::from_secs(2);
/// File in the data directory: see [`ServiceAddresses`].
const CLIENTS_FILE: &str = "service-clients";
/// Id of the only volume.
const VOLUME: u32 = 1;
/// Bytes written by a first start: a log segment of 32 MiB, and the store.
const FIRST_START_BYTES: u64 = 40 << 20;
/// Time limit for the last connection to end after its close; the log needs no clean end.
const STOP_TIME_MAX: Duration = Duration::from_secs(5);

/// Configuration of a metaserver in this process.
pub(crate) struct MdsSettings {
    pub listen: SocketAddr,
    /// Option or key of the listen address, for error messages.
    pub listen_setting: &'static str,
    /// First exports and settings, if this metaserver founds the cluster.
    pub begin: Begin,
    pub reserve_bytes: u64,
    pub metadata_memory_bytes: u64,
    /// Group of metaservers; none: this is the only one.
    pub group: Option<GroupConfig>,
}

/// Running metaserver.
pub(crate) struct RunningMds {
    pub metaserver: Arc<Metaserver>,
    server: Server,
    /// Server for the other metaservers.
    consensus: Option<Server>,
    /// Listeners for machines that boot.
    boots: BootServers,
    replica: Replica,
    secret: Secret,
    _dir: DataDir,
}

impl RunningMds {
    /// Opens the name space in `dir`, which is made if necessary, and listens.
    pub(crate) async fn start(
        settings: MdsSettings,
        mut dir: DataDir,
        secret: &Secret,
    ) -> Result<Self, Failure> {
        let (clock, entropy) = (Arc::new(SystemClock::default()), Arc::new(SystemEntropy));
        let cluster = secret.cluster();
        dir.check(&cluster)?;
        let (reserve_bytes, memory_bytes) = (settings.reserve_bytes, settings.metadata_memory_bytes);
        if dir.cluster().is_none() {
            check_room(dir.path(), FIRST_START_BYTES + reserve_bytes)?;
        }
        let wall = clock.wall();
        let time = Time { seconds: wall.seconds, nanoseconds: wall.nanoseconds };
        let stamp = Stamp { time, random: entropy.u64() };
        let group = settings.group;
        let join = group.as_ref().and_then(|group| group.join);
        // A new random id: a metaserver that lost its log must not have the id of the member that had it.
        let id = dir
            .member()
            .unwrap_or_else(|| if join.is_some() { (entropy.u64() >> 1).max(FOUNDER + 1) } else { FOUNDER });
        let member = group.as_ref().map_or_else(Member::default, |group| Member {
            name: group.name.clone(),
            address: group.consensus.to_string(),
            serves: serves(settings.listen, group.consensus).to_string(),
        });
        let founds = join.is_none() && dir.member().is_none();
        let path = dir.path().to_owned();
        let begin = founds.then_some(settings.begin);
        let mut config = ReplicaConfig {
            dir: path,
            reserve_bytes,
            id,
            member: member.clone(),
            founds,
            read_leases: false,
        };
        let another_id = (entropy.u64() >> 1).max(FOUNDER + 1);
        let members: Arc<dyn Transport> = Arc::new(Members::new(secret.peer_key(), entropy.clone()));
        let (observer, follower) = metaserver::upcalls();
        // A task of its own: the replay after a crash would block the runtime's thread.
        let opened = tokio::task::spawn_blocking(move || {
            let open = |config: &ReplicaConfig| {
                let (members, observer) = (Arc::clone(&members), Arc::clone(&observer));
                open_replica(config.clone(), memory_bytes, stamp, members, observer)
            };
            let (replica, lost) = rebuild::open(&mut dir, &cluster, &mut config, another_id, open)?;
            dir.claim_member(&cluster, config.id)?;
            Ok::<_, Failure>((replica, dir, config.id, lost))
        });
        let (replica, dir, id, lost) = opened.await??;
        let consensus = match &group {
            Some(group) => {
                let (address, peer_key) = (group.consensus, secret.peer_key());
                let join_server = join_server(secret);
                let server =
                    cluster::serve_members(replica.clone(), address, peer_key, join_server, entropy.clone());
                Some(server.await.map_err(|e| listen::refused(address, "`consensus`", &e))?)
            }
            None => None,
        };
        let is_rebuilt = !lost.is_empty();
        let rejoin_at = rebuild::remove(lost, &replica).await?;
        let join = rejoin_at.or_else(|| join.map(|join| join.to_string()));
        let wants_vote = group.as_ref().is_none_or(|group| !group.learner);
        let status = replica.status();
        let votes = status.members.iter().find(|(member, ..)| *member == id).map(|(_, _, voter)| *voter);
        let has_served = has_served(&replica, id)?;
        // It was demoted, or there were enough voters.
        let stays_learner = has_served && votes == Some(false);
        let role = if wants_vote && !stays_learner { MemberRole::Voter } else { MemberRole::Learner };
        let belongs = match votes {
            Some(true) => true,
            None if has_served && !status.changing => return Err(removed(dir.path())),
            // If it was removed, the replica finds out from the others.
            _ if has_served => true,
            // Its join was interrupted; or only its own log has the membership change that added it, which
            // may not commit.
            Some(false) => role == MemberRole::Learner && !status.changing,
            None => false,
        };
        if let Some(join) = join.filter(|_| !belongs) {
            if let Ok(address) = join.parse() {
                let checked = join_client::preflight_check(address, secret).await;
                checked.map_err(|why| Failure::new(format!("`join` {join}: {why}")))?;
            }
            tracing::info!(%join, "joining the group");
            let joined = replica.join(&join, member.clone(), role, JOIN_TIME_MAX).await;
            joined.map_err(|why| Failure::new(format!("`join` {join}: not taken in: {why}")))?;
        }
        replica.ready().await.map_err(|e| match replica.is_removed() {
            true => removed(dir.path()),
            false => Failure::new(e.to_string()),
        })?;
        if is_rebuilt {
            rebuild::done(dir.path())?;
        }
        if group.is_some() {
            // Its address or name may have changed, or it may have been alone until now.
            let introduced = replica.announce(member, role).await;
            introduced.map_err(|why| Failure::new(format!("`consensus`: {why}")))?;
            look_at_others(&replica, secret);
        }
        let config = MetaserverConfig { volume: VOLUME, cluster, begin };
        let (key, peer_key) = (secret.handle_key(), secret.peer_key());
        let metaserver = Metaserver::new(config, replica.clone(), key, peer_key, clock, entropy)?;
        metaserver.follow_others(follower);
        // A leader enters the first exports and settings now; another metaserver does so when it becomes
        // leader.
        metaserver.cluster().begin().await.map_err(|status| {
            Failure::new(format!(
                "first exports and settings are not in the cluster map: {status:?}; start it again"
            ))
        })?;
        let server = metaserver
            .serve(settings.listen)
            .await
            .map_err(|e| listen::refused(settings.listen, settings.listen_setting, &e))?;
        let this = this_server(&group, settings.listen);
        let own = this.address.parse().map_or(settings.listen, |address: SocketAddr| address).ip();
        metaserver.enter_map(this);
        let service = ServiceAddresses {
            interface: None,
            open: Box::new(nfs::open_interfaces),
            clients_file: dir.path().join(CLIENTS_FILE),
        };
        metaserver.cluster().hold_addresses(service, &server);
        let boots = BootServers::start(&metaserver, own);
        let secret = secret.clone();
        Ok(Self { metaserver, server, consensus, boots, replica, secret, _dir: dir })
    }

    /// Cluster secret, of a metaserver that machines can join.
    pub(crate) fn group_secret(&self) -> Option<Secret> {
        self.consensus.is_some().then(|| self.secret.clone())
    }

    /// Registers the metrics of log and consensus in `registry`.
    pub(crate) fn register_metrics(&self, registry: &mut Registry) {
        self.replica.metrics().register(registry);
    }

    /// Listen address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Waits until the metaserver can no longer serve; returns the reason.
    pub(crate) async fn failed(&self) -> Failure {
        let why = self.replica.failed().await;
        if self.replica.is_removed() {
            return removed(self._dir.path());
        }
        Failure::new(format!(
            "the metadata service failed: {why}; mend that and start again: nothing acknowledged is lost"
        ))
    }

    /// Stops serving clients once this metaserver's state is in doubt, and continues to vote; never returns.
    pub(crate) async fn leaves_clients_in_doubt(&self) {
        self.replica.wait_out_of_service().await;
        self.metaserver.cluster().release_addresses().await;
        self.server.stop();
        std::future::pending().await
    }

    /// Stops the metaserver, with everything that was acknowledged in the store.
    pub(crate) async fn stop(self) {
        let Self { metaserver, server, consensus, boots, replica, secret: _, _dir } = self;
        // Release the addresses before any client is refused; transfer leadership first, so that there is no
        // election; and retire the read lease, so that no member waits for it.
        drop(boots);
        metaserver.end_brief_opens(HAND_OVER_TIME_MAX).await;
        metaserver.cluster().release_addresses().await;
        replica.transfer_leadership(HAND_OVER_TIME_MAX).await;
        metaserver.stop();
        server.stop();
        replica.retire_read_lease().await;
        consensus.iter().for_each(Server::stop);
        drop((metaserver, server));
        let stopped = tokio::task::spawn_blocking(move || replica.stop());
        if tokio::time::timeout(STOP_TIME_MAX, stopped).await.is_err() {
            tracing::warn!("a connection does not end; the next start replays the log");
        }
    }
}

/// Failure of a metaserver that an operator removed.
fn removed(dir: &Path) -> Failure {
    Failure::taken_out(format!(
        "this metaserver was removed from its group (heorot node remove); to have it join again, as a new one, start it with \
         an empty directory in place of {}, and another metaserver as `join`",
        dir.display()
    ))
}

/// Entry of this metaserver in the cluster map.
fn this_server(group: &Option<GroupConfig>, listen: SocketAddr) -> ThisServer {
    // With the unspecified listen address, the consensus address is a reachable one.
    let address = match group {
        Some(group) if listen.ip().is_unspecified() => SocketAddr::new(group.consensus.ip(), listen.port()),
        _ => listen,
    };
    ThisServer {
        name: group.as_ref().map_or_else(|| "mds".into(), |group| group.name.clone()),
        address: address.to_string(),
        version: env!("CARGO_PKG_VERSION"),
    }
}

fn open_replica(
    config: ReplicaConfig,
    memory_bytes: u64,
    stamp: Stamp,
    members: Arc<dyn Transport>,
    observer: Arc<Upcalls>,
) -> Result<Replica, ReplicaError> {
    let (dir, reserve_bytes) = (config.dir.clone(), config.reserve_bytes);
    let explain =
        |error: String| match free_bytes(&dir) {
            Some(free) if free < reserve_bytes && !error.contains("free some") => ReplicaError::Failed(
                format!("{error}; {} has only {} left: free some", dir.display(), size::show(free)),
            ),
            _ => ReplicaError::Failed(error),
        };
    let memory_bytes = usize::try_from(memory_bytes).unwrap_or(usize::MAX);
    let store = RedbStore::open(dir.join("namespace.redb"), memory_bytes).map_err(|e| match e {
        OpenError::Damaged(why) => {
            let others = replica::noted_voters(&dir, config.id);
            ReplicaError::Damaged { why: format!("{why}: the file is damaged"), others }
        }
        OpenError::Failed(why) => explain(why.to_string()),
    })?;
    let opened = Replica::open(config, Arc::new(store), stamp, members, observer);
    opened.map_err(|e| match e {
        ReplicaError::Failed(why) => explain(why),
        e => e,
    })
}

/// Warns about a member whose clock or version does not match. It is not refused: the group may need its
/// vote.
fn look_at_others(replica: &Replica, secret: &Secret) {
    for other in replica.other_members() {
        let (Ok(address), secret) = (other.address.parse(), secret.clone()) else { continue };
        tokio::spawn(async move {
            if let Err(why) = join_client::preflight_check(address, &secret).await {
                tracing::error!(metaserver = %other.name, "{why}");
            }
        });
    }
}

/// Server side of joins.
fn join_server(secret: &Secret) -> JoinServer {
    JoinServer {
        cluster: secret.cluster(),
        secret: secret.bytes(),
        tokens: secret.token_key(),
        version: env!("CARGO_PKG_VERSION"),
    }
}

/// Address at which others reach `listen`: the consensus address in place of the unspecified address.
fn serves(listen: SocketAddr, consensus: SocketAddr) -> SocketAddr {
    if listen.ip().is_unspecified() { SocketAddr::new(consensus.ip(), listen.port()) } else { listen }
}

/// Whether this metaserver is in the map of its applied state, so that it never has to join again. An
/// interrupted join is not in the map.
fn has_served(replica: &Replica, id: u64) -> Result<bool, Failure> {
    let view = replica.view().map_err(|e| Failure::new(e.to_string()))?;
    let map = namespace::read::cluster_map(&*view).map_err(|e| Failure::new(e.to_string()))?;
    Ok(map.node(NodeKey::Metaserver(id)).is_some())
}

fn free_bytes(dir: &Path) -> Option<u64> {
    let fs = rustix::fs::statvfs(dir).ok()?;
    Some(fs.f_bavail.saturating_mul(fs.f_frsize))
}

fn check_room(dir: &Path, needed: u64) -> Result<(), Failure> {
    match free_bytes(dir) {
        Some(free) if free < needed => Err(Failure::new(format!(
            "{}: the disk has {} left, and a new metaserver needs {}; free some, or name a directory on another disk",
            dir.display(),
            size::show(free),
            size::show(needed)
        ))),
        _ => Ok(()),
    }
}

/// `heorot mds`.
pub(crate) async fn mds(args: ConfigArgs) -> Result<(), Failure> {
    let (signals, hangups) = (Signals::catch_as(args.part.is_some())?, Hangups::catch()?);
    let config = MdsConfig::parse(&args.config, &config::read(&args.config)?)?;
    logging::set(&config.log);
    let dir = DataDir::open(&config.data_dir, KIND)?;
    let lost = dir.cluster().map(|cluster| format!("{} belongs to cluster {cluster}", dir.path().display()));
    let (secret, made) = Secret::read_or_create(&config.secret_file, lost, &SystemEntropy)?;
    if made {
        let file = config.secret_file.display();
        tracing::info!("made a new cluster, secret in {file}: every data server needs a copy of that file");
    }
    let joins = config.group.as_ref().is_some_and(|group| group.join.is_some());
    founding_marker::check(&config.secret_file, &secret, &dir, joins)?;
    let (begin_file, rules) = (config::begin::path(&args.config), default_rules(config.listen));
    let begin = match std::fs::read_to_string(&begin_file) {
        Ok(text) => config::begin::parse(&begin_file, &text, rules)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Begin::for_everybody(rules),
        Err(error) => return Err(Failure::new(format!("{}: cannot be read: {error}", begin_file.display()))),
    };
    let settings = MdsSettings {
        listen: config.listen,
        listen_setting: "`listen`",
        begin,
        reserve_bytes: config.reserve_bytes,
        metadata_memory_bytes: config.metadata_memory_bytes,
        group: config.group.clone(),
    };
    let stop = signals.stop();
    tokio::pin!(stop);
    let running = tokio::select! {
        running = RunningMds::start(settings, dir, &secret) => running?,
        // It waits for the other members until there is a quorum.
        () = &mut stop => return Ok(()),
    };
    let (dir, config_of_admin) = (config.data_dir.clone(), config.admin.clone());
    let place = AdminPlace { dir, above: None, config: config_of_admin, setting: "`admin`" };
    let admin = AdminServer::start(place, Admin::new(Some(&running), &[])).await?;
    founding_marker::note(&config.secret_file, &secret);
    // Remove the file after its use, so that operators do not take it for the current settings.
    match std::fs::remove_file(&begin_file) {
        Ok(()) => {
            tracing::info!(file = %begin_file.display(), "put the first exports and settings into the cluster map")
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => {
            tracing::warn!(file = %begin_file.display(), %error, "cannot remove the file of first settings, which has no effect any more: remove it");
        }
    }
    tracing::info!(address = %running.address(), "ready");
    match args.part {
        Some(_) => say_ready(),
        None => notify::ready(),
    }
    let outcome = tokio::select! {
        () = &mut stop => Ok(()),
        failure = running.failed() => Err(failure),
        () = running.leaves_clients_in_doubt() => Ok(()),
        () = reload::metaserver(hangups, &args.config, &config, &running.metaserver) => Ok(()),
    };
    drop(admin);
    running.stop().await;
    outcome
}
