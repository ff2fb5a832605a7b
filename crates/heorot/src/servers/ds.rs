//! Runs a data server.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dataserver::{Checks, DataServer, DataServerConfig, Reached, SharedTrash};
use host::{SystemClock, SystemEntropy};
use nfs::{Limits, Server};
use tokio::task::JoinHandle;

use crate::admin::http::Admin;
use crate::admin::server::{AdminPlace, AdminServer};
use crate::cli::ConfigArgs;
use crate::config;
use crate::config::ds::DsConfig;
use crate::node::held_socket;
use crate::node::listen;
use crate::node::secret::{Secret, SecretError};
use crate::node::supervisor::say_ready;
use crate::process::notify;
use crate::servers::address_holder::AddressHolder;
use crate::servers::heartbeat::{MetaserverLengths, beat, write_networks};
use crate::servers::known_metaservers::KnownMetaservers;
use crate::servers::more_targets::MoreTargets;
use crate::servers::reload;
use command_line::signals::{Hangups, Signals};
use command_line::{Failure, logging};

/// File in a data server's directory with the addresses of the known metaservers.
const METASERVERS_FILE: &str = "server.metaservers";

/// Configuration of a data server of this process.
pub(crate) struct DsSettings {
    pub name: String,
    pub listen: SocketAddr,
    /// Socket that listens there already; none: one is made.
    pub socket: Option<TcpListener>,
    /// Option or key of the listen address, for error messages.
    pub listen_setting: &'static str,
    pub advertise: SocketAddr,
    /// Address for clients, which another data server holds while this one is silent.
    pub service_address: Option<IpAddr>,
    /// Zone, such as a rack; none: empty.
    pub zone: String,
    pub metaservers: Vec<SocketAddr>,
    pub data_dir: PathBuf,
    pub targets: Vec<PathBuf>,
    /// Its file, which can get more targets; none: heorot up gives it its target.
    pub config: Option<PathBuf>,
    pub checks: Checks,
    /// Bytes per second that members of chains are refilled with.
    pub refill_rate: u64,
    /// The trash of other data servers' targets in this process.
    pub shared_trash: SharedTrash,
}

/// Running data server.
pub(crate) struct RunningDs {
    pub data_server: Arc<DataServer>,
    pub metaservers: Arc<KnownMetaservers>,
    /// None: it gets no more targets.
    pub more_targets: Option<Arc<MoreTargets>>,
    server: Server,
    heartbeat: JoinHandle<()>,
    /// Holder of service addresses, if it has one of its own.
    holder: Option<Arc<AddressHolder>>,
    sweeper: JoinHandle<()>,
    refiller: JoinHandle<()>,
    caretaker: JoinHandle<()>,
}

/// Time that a data server which stops brings data to its disks. Its clients wait.
const SETTLE_TIME_MAX: Duration = Duration::from_secs(1);
/// Interval of the sweeps of the targets' trash, and of the sessions of clients that are no longer admitted.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// Removes expired state periodically, for ever.
async fn sweep(server: Arc<DataServer>) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        let swept = Arc::clone(&server);
        // One sweep at a time: a disk that hangs holds one thread.
        let work = move || {
            swept.end_sessions_not_admitted();
            write_networks(&swept);
            swept.sweep_trash();
        };
        let _ = tokio::task::spawn_blocking(work).await;
    }
}

fn set_rates(data_server: &DataServer, checks: Checks, refill_rate: u64) {
    data_server.set_checks(checks);
    data_server.set_refill_rate(refill_rate);
}

impl RunningDs {
    /// Opens the targets, listens, and registers from then on.
    pub(crate) async fn start(settings: DsSettings, secret: &Secret) -> Result<Self, Failure> {
        let entropy = Arc::new(SystemEntropy);
        let file = settings.data_dir.join(METASERVERS_FILE);
        let metaservers = Arc::new(KnownMetaservers::new(settings.metaservers, secret.peer_key(), file));
        let lengths =
            Arc::new(MetaserverLengths { metaservers: Arc::clone(&metaservers), key: secret.handle_key() });
        let config = DataServerConfig {
            data_dir: settings.data_dir,
            targets: settings.targets,
            key: secret.handle_key(),
            peer_key: secret.peer_key(),
            name: settings.name,
            shared_trash: settings.shared_trash,
        };
        let opened = tokio::task::spawn_blocking(move || {
            DataServer::open(config, lengths, Arc::new(SystemClock::default()), entropy)
        });
        let data_server = Arc::new(opened.await??);
        set_rates(&data_server, settings.checks, settings.refill_rate);
        let metrics = Arc::clone(data_server.metrics());
        let (programs, limits) = (data_server.programs(), Limits::default());
        let server = match settings.socket {
            Some(socket) => Server::start_with(socket, programs, limits, metrics),
            None => Server::start(settings.listen, programs, limits, metrics).await,
        };
        let server = server.map_err(|e| listen::refused(settings.listen, settings.listen_setting, &e))?;
        let service_address =
            settings.service_address.map(|address| SocketAddr::new(address, server.address().port()));
        let reached = Reached { advertise: settings.advertise, service_address, zone: settings.zone.into() };
        let heartbeat = tokio::spawn(beat(Arc::clone(&data_server), reached, Arc::clone(&metaservers)));
        let holder = service_address
            .map(|own| AddressHolder::start(own.ip(), &data_server, &server, Arc::clone(&metaservers)));
        let sweeper = tokio::spawn(sweep(Arc::clone(&data_server)));
        let refiller = tokio::spawn(data_server.refill_members());
        let caretaker = tokio::spawn(Arc::clone(&data_server).care_for_targets());
        let more_targets = settings
            .config
            .map(|file| MoreTargets::new(file, Arc::clone(&data_server), Arc::clone(&metaservers)));
        Ok(Self {
            data_server,
            metaservers,
            more_targets,
            server,
            heartbeat,
            holder,
            sweeper,
            refiller,
            caretaker,
        })
    }

    /// Sets rates that its file has now.
    pub(crate) fn set_rates(&self, checks: Checks, refill_rate: u64) {
        set_rates(&self.data_server, checks, refill_rate);
    }

    /// Stops the server. Then brings what it has written to the disk, for [`SETTLE_TIME_MAX`] at most: the next process
    /// need not be compared with it, and what is left in the page cache is synced at its start.
    pub(crate) async fn stop(self) {
        self.heartbeat.abort();
        self.data_server.give_up_lease();
        if let Some(holder) = &self.holder {
            holder.stop().await;
        }
        self.sweeper.abort();
        self.refiller.abort();
        self.caretaker.abort();
        self.server.stop();
        let (server, began) = (self.data_server, Instant::now());
        let settles =
            tokio::task::spawn_blocking(move || server.settle(&|| began.elapsed() > SETTLE_TIME_MAX));
        let _ = tokio::time::timeout(SETTLE_TIME_MAX, settles).await;
    }
}

/// `heorot ds`.
pub(crate) async fn ds(args: ConfigArgs) -> Result<(), Failure> {
    // Before anything else reads the standard input.
    let received = if args.part.is_some() { held_socket::receive() } else { Ok(None) };
    let (signals, hangups) = (Signals::catch_as(args.part.is_some())?, Hangups::catch()?);
    let config = DsConfig::parse(&args.config, &config::read(&args.config)?)?;
    logging::set(&config.log);
    let socket = received.unwrap_or_else(|error| {
        tracing::warn!(%error, "no listening socket from the supervisor; a restart refuses connections for a moment");
        None
    });
    let secret = Secret::read(&config.secret_file)?.ok_or_else(|| {
        let why = "a data server does not make one: the metaserver does, at its first start".to_string();
        SecretError::Lost(config.secret_file.clone(), why)
    })?;
    let mut metaservers = Vec::new();
    for name in &config.metaservers {
        metaservers.push(resolve(name).await?);
    }
    let settings = DsSettings {
        name: config.name.clone().unwrap_or_else(host_name),
        listen: config.listen,
        // Another one if the configuration was changed since the supervisor read it.
        socket: socket.filter(|socket| socket.local_addr().ok() == Some(config.listen)),
        listen_setting: "`listen`",
        advertise: config.advertise,
        service_address: config.service_address,
        zone: config.zone.clone().unwrap_or_default(),
        metaservers,
        data_dir: config.data_dir.clone(),
        targets: config.targets.clone(),
        config: Some(args.config.clone()),
        checks: config.checks,
        refill_rate: config.refill_rate,
        shared_trash: SharedTrash::default(),
    };
    let running = RunningDs::start(settings, &secret).await?;
    let admin = Admin::new(None, &[&running]);
    let (dir, config_of_admin) = (config.data_dir.clone(), config.admin.clone());
    let place = AdminPlace { dir, above: None, config: config_of_admin, setting: "`admin`" };
    let _admin = AdminServer::start(place, admin).await?;
    tracing::info!(name = running.data_server.name(), address = %running.server.address(), "ready");
    match args.part {
        Some(_) => say_ready(),
        None => notify::ready(),
    }
    tokio::select! {
        () = signals.stop() => {}
        () = reload::data_server(hangups, &args.config, &config, &running) => {}
    }
    running.stop().await;
    Ok(())
}

async fn resolve(name: &str) -> Result<SocketAddr, Failure> {
    let failed = |why: String| {
        Failure::new(format!(
            "metaserver {name}: {why}; write its address, such as \"10.0.0.1:2049\", as `metaserver`"
        ))
    };
    let mut found = tokio::net::lookup_host(name).await.map_err(|e| failed(e.to_string()))?;
    found.next().ok_or_else(|| failed("has no address".into()))
}

pub(crate) fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "ds".into() } else { name.trim().into() }
}
