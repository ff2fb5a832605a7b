//! The data server as a whole: its targets, and the two programs that reach them.

use std::fs::File;
use std::future::Future;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use host::{Clock, Entropy};
use nfs::{Metrics, Nfs4Program, PeerAuth, PeerKey, Programs};
use parking_lot::Mutex;
use wire::data::TargetSpace;
use wire::handle::{HandleKey, ObjectHandle};

use crate::caretaker::Checks;
use crate::chain::Chains;
use crate::client_networks::ClientNetworks;
use crate::clients::Clients;
use crate::data_program::DataProgram;
use crate::environment::Environment;
use crate::identity;
use crate::ops::NfsServer;
use crate::peers::Peers;
use crate::registration::KnownProcess;
use crate::shared_trash::SharedTrash;
use crate::target::{CLOSE, Target, TargetError};
use crate::targets::{TargetList, Targets};

const IDENTITY_FILE: &str = "server.toml";
const LOCK_FILE: &str = "server.lock";

/// Configuration of a data server at its start.
#[derive(Clone)]
pub struct DataServerConfig {
    /// Directory for the server's own identity; may be that of a target.
    pub data_dir: PathBuf,
    /// Directories of its storage targets; made when they are not there.
    pub targets: Vec<PathBuf>,
    /// Opens the handles that metaservers mint.
    pub key: HandleKey,
    /// The cluster, and the secret that its servers prove to hold.
    pub peer_key: PeerKey,
    /// Its name, for people.
    pub name: String,
    /// The trash of other data servers' targets in this process.
    pub shared_trash: SharedTrash,
}

/// Lengths of objects, by the word of a metaserver.
pub trait ObjectLengths: Send + Sync + 'static {
    /// The length in bytes that this column has in a file of the size that the metaservers know, as if the
    /// file had no holes. `None`: no metaserver could be asked.
    fn length(&self, object: ObjectHandle) -> Pin<Box<dyn Future<Output = Option<u64>> + Send + '_>>;
}

/// An incarnation of the metaservers' group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Incarnation {
    /// The first half of its random id.
    pub id: u64,
    /// 1, and one more with each restore from a backup.
    pub epoch: u64,
}

/// Outcome of a request to obey an incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obeyed {
    /// A target obeys another incarnation.
    Not,
    /// A target obeys its first incarnation from now on.
    FromNowOn,
    /// All targets obeyed it before.
    AsBefore,
}

/// A data server.
pub struct DataServer {
    id: u64,
    name: String,
    pub(crate) targets: Arc<Targets>,
    nfs: Arc<NfsServer>,
    data: Arc<DataProgram>,
    /// The incarnation that was told last and is not obeyed, with its name space.
    offered: Mutex<Option<(u64, Incarnation)>>,
    /// Held while a target is added, or an incarnation adopted.
    pub(crate) adding: Mutex<()>,
    pub(crate) checks: Mutex<Checks>,
    client_networks: Arc<ClientNetworks>,
    pub(crate) chains: Arc<Chains>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Random number of this run of the process.
    pub(crate) process: u64,
    pub(crate) known_process: KnownProcess,
    _lock: File,
}

impl DataServer {
    /// Extends the leases of addresses that move between data servers. At each of them clients see a server of its
    /// own, which serves nothing when the lease is over. `end`: by the clock of [`Self::lease_begins`]. To be called
    /// before the address is there.
    pub fn lease_service_addresses(&self, addresses: impl IntoIterator<Item = IpAddr>, end: Duration) {
        self.nfs.clients().lease_service_addresses(addresses, end);
    }

    /// Opens the server and its targets; makes their files where they are missing.
    ///
    /// # Errors
    /// [`TargetError`], with the remedy.
    pub fn open(
        config: DataServerConfig,
        lengths: Arc<dyn ObjectLengths>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Self, TargetError> {
        Self::open_on(Environment::of_machine(clock, entropy), config, lengths)
    }

    /// [`DataServer::open`], not on a machine.
    ///
    /// # Errors
    /// [`TargetError`], with the remedy.
    pub fn open_on(
        environment: Environment,
        config: DataServerConfig,
        lengths: Arc<dyn ObjectLengths>,
    ) -> Result<Self, TargetError> {
        let cluster = config.peer_key.cluster;
        let (id, lock) = own_identity(&config.data_dir, cluster, &*environment.entropy)?;
        let targets = Arc::new(Targets::open(&config, &environment)?);
        let DataServerConfig { data_dir, key, peer_key, name, .. } = config;
        let Environment { clock, entropy, network, .. } = environment;
        let peers = Peers::new(peer_key.clone(), Arc::clone(&entropy), network);
        let chains = Chains::new(Arc::clone(&clock), peers, key);
        targets.all().iter().for_each(|target| chains.begin_logs(target));
        let process = entropy.u64();
        let clients = Clients::new(id, Arc::clone(&clock), Arc::clone(&entropy));
        let client_networks = Arc::new(ClientNetworks::open(&data_dir));
        let networks = Arc::clone(&client_networks);
        let nfs = NfsServer::new(Arc::clone(&targets), clients, lengths, networks, Arc::clone(&chains));
        let auth = PeerAuth::new(peer_key, entropy);
        let data = Arc::new(DataProgram::new(Arc::clone(&targets), auth, Arc::clone(&chains)));
        let (nfs, offered) = (Arc::new(nfs), Mutex::default());
        Ok(Self {
            id,
            name,
            targets,
            nfs,
            data,
            offered,
            adding: Mutex::default(),
            checks: Mutex::default(),
            client_networks,
            chains,
            clock,
            process,
            known_process: KnownProcess::default(),
            _lock: lock,
        })
    }

    /// True if a process runs the data server of this directory.
    ///
    /// # Errors
    /// [`TargetError::Io`].
    pub fn is_running(data_dir: &Path) -> Result<bool, TargetError> {
        let path = data_dir.join(LOCK_FILE);
        identity::is_locked(&path).map_err(|error| TargetError::Io { doing: "look at", path, error })
    }

    /// Its id, kept in its directory.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Its name, for people.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// NFS for clients and `data` for metaservers; one port serves both.
    #[must_use]
    pub fn programs(&self) -> Programs {
        let nfs = Arc::new(Nfs4Program(Arc::clone(&self.nfs)));
        Programs::new(vec![nfs, Arc::new(nfs::Authenticated(Arc::clone(&self.data)))])
    }

    /// Networks of clients, as metaservers report them: this server follows them and keeps them in a file.
    #[must_use]
    pub fn client_networks(&self) -> &Arc<ClientNetworks> {
        &self.client_networks
    }

    /// The targets that are here now.
    pub(crate) fn present_targets(&self) -> TargetList {
        self.targets.all()
    }

    /// Space and state of its targets. Members of chains on a target that cannot be written leave their chains
    /// before the caller learns of its condition. Blocks for as long as statvfs does.
    #[must_use]
    pub fn space(&self) -> Vec<TargetSpace> {
        let targets = self.targets.space();
        self.chains.leave_by_condition(&self.targets, &targets);
        targets
    }

    /// Ends the sessions of clients whose addresses have not been admitted for a lease. Until then such a
    /// client gets answers, so that its waiting calls end with an error: Linux repeats for ever a call that
    /// meets the end of its session.
    pub fn end_sessions_not_admitted(&self) {
        self.nfs.clients().end_not_admitted(|address| self.client_networks.admit(address));
    }

    /// Sets the time that removed objects are kept in the trash of its targets; zero: not at all.
    pub fn set_trash_time(&self, time: Duration) {
        self.present_targets().iter().for_each(|target| target.objects().set_trash_time(time));
    }

    /// Removes for good the objects that have been in the trash of its targets for long enough. Blocks.
    pub fn sweep_trash(&self) {
        self.present_targets().iter().for_each(|target| target.objects().sweep_trash());
    }

    /// Handles the incarnation in a metaserver's answer to a registration: obeys it where no other one is
    /// obeyed. Blocks.
    ///
    /// # Errors
    /// [`TargetError`].
    pub fn belong_to(&self, name_space: u64, told: Incarnation) -> Result<Obeyed, TargetError> {
        let other = |target: &Arc<Target>| target.incarnation().is_some_and(|own| own != told.id);
        if self.present_targets().iter().any(other) {
            let mut offered = self.offered.lock();
            *offered = Some((name_space, told));
            return Ok(Obeyed::Not);
        }
        let mut news = false;
        for target in self.present_targets().iter() {
            news |= target.belong_to(name_space, told.id)?;
        }
        Ok(if news { Obeyed::FromNowOn } else { Obeyed::AsBefore })
    }

    /// Obeys the last incarnation that was reported and not obeyed: for the operator after a restore from a
    /// backup. None: there was none, or it belongs to other metadata than the objects here. Blocks.
    ///
    /// # Errors
    /// [`TargetError`].
    pub fn adopt(&self) -> Result<Option<Incarnation>, TargetError> {
        let _alone = self.adding.lock();
        let mut offered = self.offered.lock();
        let Some((name_space, told)) = *offered else { return Ok(None) };
        let foreign = |target: &Arc<Target>| target.name_space().is_some_and(|own| own != name_space);
        if self.present_targets().iter().any(foreign) {
            return Ok(None);
        }
        for target in self.present_targets().iter() {
            target.adopt(told.id)?;
        }
        *offered = None;
        self.chains.table.forget();
        tracing::info!(name = %self.name, epoch = told.epoch, "obeys another incarnation of the metaservers from now on");
        Ok(Some(told))
    }

    /// Counts of the clients' own calls: for the [`nfs::Server`] too.
    #[must_use]
    pub fn metrics(&self) -> &Arc<Metrics> {
        self.nfs.counters()
    }

    /// Counts of the metaservers' calls, for clients without pNFS and for themselves.
    #[must_use]
    pub fn data_metrics(&self) -> &Arc<Metrics> {
        self.data.metrics()
    }
}

fn own_identity(dir: &Path, cluster: [u8; 16], entropy: &dyn Entropy) -> Result<(u64, File), TargetError> {
    let io = |doing| {
        let path = dir.to_owned();
        move |error| TargetError::Io { doing, path, error }
    };
    std::fs::create_dir_all(dir).map_err(io("create"))?;
    let lock = identity::lock(&dir.join(LOCK_FILE)).map_err(io("lock"))?;
    let lock = lock.ok_or_else(|| TargetError::Locked(dir.into()))?;
    host::private::close_files(dir).map_err(io(CLOSE))?;
    let file = dir.join(IDENTITY_FILE);
    let identity = identity::read_or_create(&file, "data server", cluster, entropy)?;
    Ok((identity.id, lock))
}
