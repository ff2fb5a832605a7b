//! The targets of a data server: those that are here, and those that were absent at its start.
//!
//! ```text
//! start: open each ─▶ all ◀─ one more, at run time (`addition`)
//!                      │
//!                      ├▶ calls: the target that a handle names
//!                      ├▶ registration: space and state of each
//!                      └▶ tasks of each: settling, mending, scrubs (`caretaker`)
//! ```
//!
//! The list only grows: a target leaves it with the process. Callers get the list of the moment, and hold no lock.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use host::watch::{Receiver, Sender};
use parking_lot::Mutex;
use wire::data::{TargetCondition, TargetSpace};
use wire::handle::{FileHandle, HandleKey, ObjectHandle};

use crate::absent_target::AbsentTarget;
use crate::capacity::{FULL_BYTES, RESERVE_BYTES};
use crate::environment::{Blocking, Environment};
use crate::epoch::ObjectRef;
use crate::found::{BadHandle, Found};
use crate::known_targets::KnownTargets;
use crate::server::DataServerConfig;
use crate::shared_trash::SharedTrash;
use crate::suspect_targets::SuspectTargets;
use crate::target::{Target, TargetError, TargetOptions};

/// The targets that are here, at one moment.
pub(crate) type TargetList = Arc<[Arc<Target>]>;

/// The targets of the server, and the key to their handles.
pub(crate) struct Targets {
    key: HandleKey,
    all: Sender<TargetList>,
    /// Held while a target is put into the list, and while an answer to a registration is followed: the answer is
    /// about the targets that were reported.
    growing: Mutex<()>,
    /// Ids of the targets in the last registration that a metaserver has completed.
    registered: Sender<BTreeSet<u64>>,
    /// Targets of this server that were absent at its start: they are reported, and nothing is served from
    /// them.
    absent: Vec<AbsentTarget>,
    suspect: SuspectTargets,
    opener: Opener,
}

/// The means to open a target.
pub(crate) struct Opener {
    pub(crate) data_dir: PathBuf,
    pub(crate) cluster: [u8; 16],
    shared_trash: SharedTrash,
    environment: Environment,
}

impl Opener {
    fn new(config: &DataServerConfig, environment: &Environment) -> Self {
        Self {
            data_dir: config.data_dir.clone(),
            cluster: config.peer_key.cluster,
            shared_trash: config.shared_trash.clone(),
            environment: environment.clone(),
        }
    }

    /// Opens the target in `dir`, and makes one if `dir` is empty or not there. Blocks.
    pub(crate) fn open(&self, dir: &std::path::Path) -> Result<Arc<Target>, TargetError> {
        let Environment { disk, clock, entropy, blocking, .. } = self.environment.clone();
        let shared_trash = self.shared_trash.clone();
        let options = TargetOptions { disk, clock, shared_trash, blocking, ..TargetOptions::default() };
        Target::open_with(options, dir, self.cluster, &*entropy)
    }
}

impl Targets {
    /// Opens the targets of the configuration. Blocks.
    pub(crate) fn open(config: &DataServerConfig, environment: &Environment) -> Result<Self, TargetError> {
        let opener = Opener::new(config, environment);
        let (all, absent) = open_all(config, &opener)?;
        let suspect = SuspectTargets::open(&config.data_dir, &all);
        Ok(Self {
            key: config.key.clone(),
            all: Sender::new(all.into()),
            growing: Mutex::default(),
            registered: Sender::default(),
            absent,
            suspect,
            opener,
        })
    }

    /// The object that `handle` names.
    pub(crate) fn find(&self, handle: &[u8]) -> Result<Found, BadHandle> {
        let (handle, holder) = match ObjectHandle::open_with_holder(handle, &self.key) {
            Some(opened) => opened,
            // Well minted, but for a metaserver: the client mixed up its servers.
            None if FileHandle::open(handle, &self.key).is_some() => return Err(BadHandle::Elsewhere),
            None => return Err(BadHandle::Forged),
        };
        let is_absent = || self.absent.iter().any(|target| target.id == handle.target);
        let none = || if is_absent() { BadHandle::Absent } else { BadHandle::Elsewhere };
        let target = self.get(handle.target).ok_or_else(none)?;
        if target.incarnation() != Some(handle.incarnation) {
            return Err(BadHandle::OtherIncarnation);
        }
        Ok(Found { target, object: ObjectRef::new(&handle, holder), handle, holder })
    }

    /// The target with this id. A server has a handful: looking through them is as quick as a map.
    pub(crate) fn get(&self, id: u64) -> Option<Arc<Target>> {
        self.all.get().iter().find(|t| t.id() == id).cloned()
    }

    /// The targets that are here.
    pub(crate) fn all(&self) -> TargetList {
        Arc::clone(&self.all.get())
    }

    /// The targets that are here, and notice of each that is added.
    pub(crate) fn watch(&self) -> Receiver<TargetList> {
        self.all.subscribe()
    }

    /// Those that were absent at the start.
    pub(crate) fn absent(&self) -> &[AbsentTarget] {
        &self.absent
    }

    /// The means to open one more.
    pub(crate) fn opener(&self) -> &Opener {
        &self.opener
    }

    /// Puts one more into the list.
    pub(crate) fn put(&self, target: Arc<Target>) {
        let _alone = self.growing.lock();
        let all = self.all().iter().cloned().chain([target]).collect();
        self.all.set(all);
    }

    /// Follows an answer to a registration that reported these targets, unless one was added since: the answer says
    /// nothing of that one, and the next registration reports it. Returns whether it was followed.
    pub(crate) fn follow_answer(&self, reported: &[TargetSpace], follow: impl FnOnce()) -> bool {
        let alone = self.growing.lock();
        let reported: BTreeSet<u64> = reported.iter().map(|space| space.target).collect();
        if !self.ids().iter().all(|id| reported.contains(id)) {
            return false;
        }
        follow();
        drop(alone);
        self.registered.set_if(|registered| {
            let is_news = *registered != reported;
            *registered = reported;
            is_news
        });
        true
    }

    /// Ids of the targets in the last completed registration.
    pub(crate) fn registered(&self) -> Receiver<BTreeSet<u64>> {
        self.registered.subscribe()
    }

    /// The place of their work.
    pub(crate) fn blocking(&self) -> &Blocking {
        &self.opener.environment.blocking
    }

    /// Targets whose disks failed.
    pub(crate) fn suspect(&self) -> &SuspectTargets {
        &self.suspect
    }

    /// Ids of the targets that are here.
    pub(crate) fn ids(&self) -> Vec<u64> {
        self.all.get().iter().map(|target| target.id()).collect()
    }

    /// Space and state of all targets. Blocks.
    pub(crate) fn space(&self) -> Vec<TargetSpace> {
        let absent = self.absent.iter().map(AbsentTarget::space);
        self.all().iter().map(|t| space(t)).chain(absent).collect()
    }
}

fn space(target: &Target) -> TargetSpace {
    target.check_presence();
    let objects = target.objects();
    let space = objects.space();
    let condition = match &space {
        _ if objects.lost() => TargetCondition::Missing,
        _ if objects.failed() => TargetCondition::Failed,
        // A disk that cannot even say how full it is.
        Err(_) => TargetCondition::Failed,
        Ok(space) if space.read_only => TargetCondition::ReadOnly,
        Ok(space) if space.free < FULL_BYTES => TargetCondition::Full,
        Ok(_) if objects.checksum_counts().damaged_now > 0 => TargetCondition::Damaged,
        Ok(_) => TargetCondition::Ok,
    };
    let space = space.unwrap_or(crate::Space { total: 0, free: 0, trash: 0, read_only: false });
    TargetSpace {
        file_system: target.file_system(),
        target: target.id(),
        path: Bytes::from(target.path().as_os_str().as_encoded_bytes().to_vec()),
        total: space.total,
        free: space.free,
        objects: objects.count(),
        condition,
        reflinks: target.reflinks(),
        name_space: target.name_space().unwrap_or(0),
        incarnation: target.incarnation().unwrap_or(0),
        trash: space.trash,
        reserve: RESERVE_BYTES,
    }
}

/// Opens the targets: returns the present ones and the absent ones.
fn open_all(
    config: &DataServerConfig,
    opener: &Opener,
) -> Result<(Vec<Arc<Target>>, Vec<AbsentTarget>), TargetError> {
    let mut all: Vec<Arc<Target>> = Vec::with_capacity(config.targets.len());
    let mut absent: Vec<AbsentTarget> = Vec::new();
    let known = KnownTargets::read(&config.data_dir)?;
    for dir in &config.targets {
        let opened = match Target::is_in(dir) {
            true => opener.open(dir),
            false => known.check_new(dir).and_then(|()| opener.open(dir)),
        };
        let target = match opened {
            Ok(target) => target,
            Err(why) => {
                absent.push(known.absent(dir, why)?);
                continue;
            }
        };
        if let Some(twin) = all.iter().find(|t| t.id() == target.id()) {
            return Err(TargetError::Twice(dir.clone(), twin.path().into()));
        }
        all.push(target);
    }
    // Nothing could be served: to be started again, when the disks are there, is better than to run.
    if all.is_empty() && !absent.is_empty() {
        return Err(absent.remove(0).why);
    }
    absent.iter().for_each(AbsentTarget::log);
    known.note(&all, &absent)?;
    Ok((all, absent))
}
