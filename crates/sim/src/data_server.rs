//! Machine of one simulated data server: a disk that outlives its process, and, while it runs, a process that
//! serves it and registers with all metaservers, as `heorot ds` does.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use crate::bug::Bug;
use crate::net::Address;
use crate::object_disk::ObjectDisk;
use crate::objects::Objects;
use crate::rng::Rng;
use crate::shared::Shared;
use crate::{plain_data_server, whole_data_server};

/// Address of the first data server.
pub const DATA_SERVERS: Address = 50;

/// Data server of a machine, and its disk.
pub enum Served {
    /// Objects in memory, without copies: what was answered is kept.
    Plain(Arc<Mutex<Objects>>),
    /// The real data server, with this disk, in this directory.
    Whole(ObjectDisk, TempDir),
}

/// Machine of a data server.
pub struct DataServer {
    /// Its address.
    pub address: Address,
    /// Its data server.
    pub served: Served,
    /// End of the stall of its process.
    pub stalled_until_ms: u64,
    /// Time of its next start, if it is down.
    pub starts_at_ms: u64,
    /// True if its disk has failed since its start: nothing is served before the next one.
    pub must_restart: bool,
    /// Number of metaservers.
    metaservers: u64,
    shared: Arc<Shared>,
    rng: Rng,
    process: Option<Runtime>,
    /// Random number of the process, as it tells the metaservers; 0: it does not serve yet.
    process_number: Arc<AtomicU64>,
    /// Set by a process that has ended by itself.
    has_ended: Arc<AtomicBool>,
}

impl DataServer {
    /// A machine that is switched off.
    #[must_use]
    pub fn new(address: Address, metaservers: u64, shared: &Arc<Shared>, mut rng: Rng) -> Self {
        let served = if shared.data.is_whole {
            Served::Whole(ObjectDisk::new(shared, rng.fork()), whole_data_server::directory())
        } else {
            let removes_nothing = shared.bug == Some(Bug::ObjectsStay);
            Served::Plain(Arc::new(Mutex::new(Objects::new(address, removes_nothing))))
        };
        Self {
            address,
            served,
            stalled_until_ms: 0,
            starts_at_ms: 0,
            must_restart: false,
            metaservers,
            shared: Arc::clone(shared),
            rng,
            process: None,
            process_number: Arc::default(),
            has_ended: Arc::default(),
        }
    }

    /// True if its process runs.
    #[must_use]
    pub fn runs(&self) -> bool {
        self.process.is_some()
    }

    /// Starts the process.
    ///
    /// # Panics When the host cannot create a runtime.
    pub fn start(&mut self) {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime without threads and sockets");
        let random = self.rng.number();
        match &self.served {
            Served::Plain(objects) => {
                let at = (self.address, self.metaservers);
                plain_data_server::start(&runtime, at, &self.shared, objects, random);
            }
            Served::Whole(disk, dir) => {
                let place = whole_data_server::Place {
                    address: self.address,
                    metaservers: self.metaservers,
                    shared: Arc::clone(&self.shared),
                    disk: disk.clone(),
                    dir: dir.path().into(),
                    random,
                    has_ended: Arc::clone(&self.has_ended),
                    process_number: Arc::clone(&self.process_number),
                };
                runtime.spawn(place.run());
            }
        }
        self.process = Some(runtime);
    }

    /// True if the process with this random number serves, with a disk that has lost nothing since its start.
    #[must_use]
    pub fn runs_as(&self, process: u64) -> bool {
        let goes_on = self.runs() && !self.has_ended.load(Ordering::Relaxed) && !self.must_restart;
        goes_on && self.process_number.load(Ordering::Relaxed) == process
    }

    /// True once if the process has ended by itself: a supervisor starts it again.
    pub fn has_ended(&self) -> bool {
        self.has_ended.swap(false, Ordering::Relaxed)
    }

    /// Ends the process at once.
    pub fn kill(&mut self) {
        self.end_process();
    }

    /// The power of the machine goes: what its disk had not synced is lost in part, and its streams end
    /// without a word.
    pub fn lose_power(&mut self) {
        self.shared.streams().go_dark(self.address);
        self.end_process();
        if let Served::Whole(disk, _) = &self.served {
            disk.lose_power();
        }
    }

    fn end_process(&mut self) {
        self.process = None;
        self.process_number = Arc::default();
    }

    /// Its name in the cluster.
    #[must_use]
    pub fn name(&self) -> String {
        format!("ds{}", self.address)
    }

    /// True if this file is on its disk.
    #[must_use]
    pub fn has(&self, path: &Path) -> bool {
        matches!(&self.served, Served::Whole(_, dir) if path.starts_with(dir.path()))
    }

    /// Its disk, if it is a whole data server.
    #[must_use]
    pub fn disk(&self) -> Option<&ObjectDisk> {
        match &self.served {
            Served::Plain(_) => None,
            Served::Whole(disk, _) => Some(disk),
        }
    }

    /// The file (inode, generation) and column of each object.
    #[must_use]
    pub fn objects(&self) -> Vec<(u64, u32, u32)> {
        match &self.served {
            Served::Plain(objects) => objects.lock().all(),
            Served::Whole(_, dir) => {
                let all = whole_data_server::objects(dir.path()).into_iter();
                all.map(|(name, _)| (name.inode, name.generation, name.column)).collect()
            }
        }
    }

    /// Lets `ms` pass.
    pub fn advance(&self, ms: u64) {
        if let Some(runtime) = &self.process {
            runtime.block_on(async { tokio::time::sleep(Duration::from_millis(ms)).await });
        }
    }
}
