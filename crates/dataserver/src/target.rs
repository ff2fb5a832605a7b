//! A storage target: a directory that belongs to one cluster, is served by one process, and holds objects.
//!
//! ```text
//! lock           held by the process that serves the target
//! target.toml    format, cluster, target id: written last, so a directory that has it is whole
//! objects/00 … objects/ff
//! scrub.toml     progress of the scrubber
//! chains         the latest known versions of its chains
//! unsettled      what other members of its chains may have otherwise: see `chain::dirty_log_file`
//! changes.log    objects whose checksums on the disk need not fit: see `checksums::change_log`
//! trash/         removed objects, for a while
//! ```

mod error;
mod options;

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use host::{Entropy, private};
use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};

use crate::attached;
use crate::chain::{ChainRecords, DirtyLogFile};
use crate::checksums::{CHANGE_LOG, CHANGE_LOG_NEXT, ChangeLog, Checksums, ScrubRecord};
use crate::environment::Blocking;
use crate::held_dir::HeldDir;
use crate::identity::{self, Identity};
use crate::object::{DIRECTORIES, ObjectName};
use crate::objects::{ObjectError, Objects, PastCache};
use crate::trash::Trash;

pub use error::TargetError;
pub use options::{OPEN_FILES_MAX, TargetOptions};

const IDENTITY_FILE: &str = "target.toml";
const KIND: &str = "storage target";
const LOCK_FILE: &str = "lock";
const OBJECTS_DIR: &str = "objects";
const TRASH_DIR: &str = "trash";
pub(crate) const CLOSE: &str = "make it and its files private (modes 0700 and 0600)";

/// A storage target, open.
pub struct Target {
    identity: Mutex<Identity>,
    id: u64,
    cluster: [u8; 16],
    dir: HeldDir,
    file_system: u64,
    reflinks: bool,
    objects: Objects,
    scrub: Mutex<ScrubRecord>,
    chain_records: ChainRecords,
    dirty_log_file: DirtyLogFile,
    blocking: Blocking,
    _lock: File,
}

impl Target {
    /// True if there is a target in `dir`, whatever its state.
    #[must_use]
    pub fn is_in(dir: &Path) -> bool {
        dir.join(IDENTITY_FILE).exists()
    }

    /// The identity of the target in `dir`, without a change; none: a target can be made there.
    pub(crate) fn look(dir: &Path, cluster: [u8; 16]) -> Result<Option<Identity>, TargetError> {
        match identity::look(&dir.join(IDENTITY_FILE), KIND, cluster)? {
            None => check_empty(dir).map(|()| None),
            found => Ok(found),
        }
    }

    /// True if a process serves the target in `dir`.
    pub(crate) fn is_locked(dir: &Path) -> io::Result<bool> {
        identity::is_locked(&dir.join(LOCK_FILE))
    }

    /// Opens the target in `dir`, and makes one if `dir` is empty or not there.
    ///
    /// # Errors
    /// [`TargetError`].
    pub fn open_or_create(
        dir: &Path,
        cluster: [u8; 16],
        entropy: &dyn Entropy,
    ) -> Result<Arc<Self>, TargetError> {
        Self::open_with(TargetOptions::default(), dir, cluster, entropy)
    }

    /// Opens or creates as [`Target::open_or_create`] does, with options.
    ///
    /// # Errors
    /// [`TargetError`].
    pub fn open_with(
        options: TargetOptions,
        dir: &Path,
        cluster: [u8; 16],
        entropy: &dyn Entropy,
    ) -> Result<Arc<Self>, TargetError> {
        std::fs::create_dir_all(dir).map_err(io("create", dir))?;
        let is_target = Self::is_in(dir);
        if !is_target {
            check_empty(dir)?;
        }
        let lock = identity::lock(&dir.join(LOCK_FILE))
            .map_err(io("lock", dir))?
            .ok_or_else(|| TargetError::Locked(dir.into()))?;
        private::close_files(dir).map_err(io(CLOSE, dir))?;
        let root = dir.join(OBJECTS_DIR);
        if !is_target {
            make_directories(&root).map_err(io("create directories", &root))?;
        }
        private::close_large_tree(&root).map_err(io(CLOSE, &root))?;
        let file = dir.join(IDENTITY_FILE);
        let identity = identity::read_or_create(&file, KIND, cluster, entropy)?;
        let id = identity.id;
        let held = HeldDir::open(dir).map_err(io("open", dir))?;
        held.create_dir(TRASH_DIR).map_err(io("create the trash in", dir))?;
        private::close_large_tree(&dir.join(TRASH_DIR)).map_err(io(CLOSE, dir))?;
        // Unsynced writes of an earlier process are in the page cache, directory entries included. The list
        // of those files is lost, so all of the file system is made durable now.
        let TargetOptions { disk, open_files_max, clock, shared_trash, blocking, kept_in_cache } = options;
        disk.sync_file_system(held.file()).map_err(io("sync", dir))?;
        let log = held.child(".").and_then(|dir| ChangeLog::open(dir, &*disk));
        let (log, left) = log.map_err(io("begin the change log in", dir))?;
        let changed = left.is_all.then(|| left.changed.clone());
        let doubts = left.changed.into_iter().map(|(name, object)| (name, object.regions)).collect();
        let checksums = Checksums::new(log, doubts, Arc::clone(&clock));
        let trash = held.child(TRASH_DIR).and_then(|trash| Trash::open(trash, clock));
        let trash = trash.map_err(io("read the trash of", dir))?;
        let objects_dir = held.child(OBJECTS_DIR).map_err(io("open", &root))?;
        if !objects_dir.has_xattrs() {
            return Err(TargetError::NoXattrs(dir.into()));
        }
        let (count, attachments) = count(&root)?;
        let device = held.file().metadata().map_err(io("look at", dir))?.dev();
        let trash = shared_trash.add(device, &Arc::new(trash));
        let mut objects =
            Objects::new(objects_dir, disk, trash, checksums, entropy.u64(), open_files_max, count);
        objects.find_attachments(attachments).map_err(io("look for attached objects in", dir))?;
        if let Some(kept) = kept_in_cache {
            objects.past_cache = PastCache::new(kept);
        }
        let file_system = file_system(device).unwrap_or(id);
        let reflinks = reflinks(dir);
        let identity = Mutex::new(identity);
        let scrub = Mutex::new(ScrubRecord::read(dir));
        let chain_records = ChainRecords::open(dir, id);
        let dirty_log_file = DirtyLogFile::open(dir, &objects, changed, chain_records.chains().into_iter());
        Ok(Arc::new(Self {
            identity,
            id,
            cluster,
            dir: held,
            file_system,
            reflinks,
            objects,
            scrub,
            chain_records,
            dirty_log_file,
            blocking,
            _lock: lock,
        }))
    }

    /// Its id, in every handle of its objects.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The name space of its objects; `None` before the first one.
    #[must_use]
    pub fn name_space(&self) -> Option<u64> {
        self.identity.lock().name_space
    }

    /// The incarnation of the metaservers that it obeys; none: it was not told any yet.
    #[must_use]
    pub fn incarnation(&self) -> Option<u64> {
        self.identity.lock().incarnation
    }

    /// Notes durably the name space of its objects, and the incarnation of metaservers that it obeys. The
    /// values noted first stay. Returns true if a value was new. Blocks.
    ///
    /// # Errors
    /// [`TargetError::Identity`] when it cannot be written.
    pub fn belong_to(&self, name_space: u64, incarnation: u64) -> Result<bool, TargetError> {
        self.change_identity(|identity| Identity {
            name_space: identity.name_space.or(Some(name_space)),
            incarnation: identity.incarnation.or(Some(incarnation)),
            ..identity
        })
    }

    /// Obeys this incarnation from now on, durably, and no other. Blocks.
    ///
    /// # Errors
    /// [`TargetError::Identity`] when it cannot be written.
    pub fn adopt(&self, incarnation: u64) -> Result<bool, TargetError> {
        self.change_identity(|identity| Identity { incarnation: Some(incarnation), ..identity })
    }

    fn change_identity(&self, change: impl FnOnce(Identity) -> Identity) -> Result<bool, TargetError> {
        let mut identity = self.identity.lock();
        let new = change(*identity);
        if new == *identity || self.objects.lost() {
            return Ok(false);
        }
        identity::replace(&self.path().join(IDENTITY_FILE), KIND, self.cluster, new)?;
        *identity = new;
        Ok(true)
    }

    /// Its directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Checks that its directory and its marker are still at their paths since the opening. If they are not,
    /// nothing is served from the target any more: the disk that is there now, or the directory below its
    /// mount point, is another one. Blocks for as long as the file system does.
    pub(crate) fn check_presence(&self) {
        if self.objects.lost() {
            return;
        }
        let why = match self.is_present() {
            Ok(None) => return,
            Ok(Some(why)) => why.to_owned(),
            // A disk that fails shows it where it is read; this is no proof that another one is there.
            Err(error) => {
                tracing::debug!(target = %self.path().display(), %error, "cannot look at the target's directory");
                return;
            }
        };
        if self.objects.lose() {
            tracing::error!(
                target = %self.path().display(),
                id = %format!("{:016x}", self.id),
                "the storage target is not there any more: {why}. Nothing is served from it: reads and writes of its files \
                 fail. Mount its disk again, then restart the data server"
            );
        }
    }

    /// Why it is not there, if it is not.
    fn is_present(&self) -> io::Result<Option<&'static str>> {
        if !self.dir.is_at_its_path()? {
            return Ok(Some("another directory is at its path; was its disk unmounted?"));
        }
        let marker = match self.dir.read_text(IDENTITY_FILE) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Some("its target.toml is gone"));
            }
            Err(error) => return Err(error),
        };
        let id = identity::id_of(&marker);
        Ok((id != Some(self.id)).then_some("its target.toml names another target"))
    }

    /// Tells the file systems of all machines apart: targets with the same share their space.
    #[must_use]
    pub fn file_system(&self) -> u64 {
        self.file_system
    }

    /// True if two files on its file system can share their data: then a copy between two of its objects, or
    /// of any targets with the same [`Target::file_system`], takes no time and no room.
    #[must_use]
    pub fn reflinks(&self) -> bool {
        self.reflinks
    }

    /// What it knows of its chains.
    pub(crate) fn chain_records(&self) -> &ChainRecords {
        &self.chain_records
    }

    /// What other members of its chains may have otherwise.
    pub(crate) fn dirty_log_file(&self) -> &DirtyLogFile {
        &self.dirty_log_file
    }

    /// True if the settling of sums may begin: it is likely that it comes to its end.
    pub(crate) fn may_begin_to_settle(&self) -> bool {
        !self.objects.lost() && self.dirty_log_file.may_write() && !self.chain_records.has_news()
    }

    /// True if sums may be settled: what the change log forgets then is in other files.
    pub(crate) fn may_settle(&self) -> bool {
        !self.objects.lost()
            && self.dirty_log_file.write_down(&self.chain_records)
            && !self.chain_records.has_news()
    }

    /// The scrub under way, and the last one.
    #[must_use]
    pub fn scrub_record(&self) -> ScrubRecord {
        self.scrub.lock().clone()
    }

    /// Notes the progress of a scrub. `durable`: also in its file, so that a restart goes on from there;
    /// blocks.
    pub(crate) fn note_scrub(&self, record: ScrubRecord, durable: bool) {
        if durable
            && !self.objects.lost()
            && let Err(error) = record.write(self.path())
        {
            tracing::warn!(target = %self.path().display(), %error, "cannot note the progress of the scrub");
        }
        *self.scrub.lock() = record;
    }

    /// Its objects, for callers that may block.
    #[must_use]
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// The place of its work.
    pub(crate) fn blocking(&self) -> &Blocking {
        &self.blocking
    }

    /// Does `work`, which may block, at its place. It is carried out to its end even if the caller stops waiting.
    ///
    /// # Errors
    /// [`ObjectError`] of the work.
    pub async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Objects) -> Result<T, ObjectError> + Send + 'static,
    ) -> Result<T, ObjectError> {
        self.run_unless(|_| None, work).await
    }

    /// [`Target::run`], unless `at_once`, which does not block, has done it.
    ///
    /// # Errors
    /// [`ObjectError`] of the work.
    pub(crate) async fn run_unless<T: Send + 'static>(
        self: &Arc<Self>,
        at_once: impl FnOnce(&Objects) -> Option<T>,
        work: impl FnOnce(&Objects) -> Result<T, ObjectError> + Send + 'static,
    ) -> Result<T, ObjectError> {
        if self.objects.may_be_quick()
            && let Some(done) = at_once(&self.objects)
        {
            return Ok(done);
        }
        let target = Arc::clone(self);
        let done = self.blocking.run(move || target.objects.counted(work)).await;
        done.unwrap_or_else(|error| {
            tracing::error!(target = %self.path().display(), %error, "operation did not end");
            Err(ObjectError::Io)
        })
    }
}

fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> TargetError + use<> {
    let path = path.to_owned();
    move |error| TargetError::Io { doing, path, error }
}

/// The kernel's random name for this run of the machine, and the device's number in it. Containers of one
/// machine agree in both. None: /proc is not there, and each target counts for itself.
fn file_system(device: u64) -> Option<u64> {
    let machine = std::fs::read("/proc/sys/kernel/random/boot_id").ok()?;
    let mut hasher = DefaultHasher::new();
    (machine, device).hash(&mut hasher);
    Some(hasher.finish())
}

/// Tries it, with files that have no name and so leave nothing behind.
fn reflinks(dir: &Path) -> bool {
    let nameless = || {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        rustix::fs::open(dir, flags, Mode::RUSR | Mode::WUSR).map(File::from)
    };
    let share = || {
        let (one, other) = (nameless()?, nameless()?);
        one.write_all_at(&[1; 4096], 0)?;
        Ok::<_, io::Error>(rustix::fs::ioctl_ficlone(&other, &one)?)
    };
    share().is_ok()
}

/// A directory without target.toml may hold the files of an interrupted creation, and nothing else.
fn check_empty(dir: &Path) -> Result<(), TargetError> {
    for entry in std::fs::read_dir(dir).map_err(io("read", dir))? {
        let entry = entry.map_err(io("read", dir))?;
        match entry.file_name().to_str() {
            Some("lost+found" | LOCK_FILE | CHANGE_LOG | CHANGE_LOG_NEXT) => {}
            // A data server may keep its own identity in the directory of its only target.
            Some(name) if name.starts_with(identity::SERVER_PREFIX) || name == identity::UNFINISHED => {}
            Some(TRASH_DIR) if entry.path().read_dir().is_ok_and(|mut trash| trash.next().is_none()) => {}
            Some(OBJECTS_DIR) if count(&entry.path())?.0 == 0 => {}
            Some(OBJECTS_DIR) => return Err(TargetError::NoIdentity(dir.into())),
            _ => {
                let name = entry.file_name().to_string_lossy().into_owned();
                return Err(TargetError::NotOurs(dir.into(), name));
            }
        }
    }
    Ok(())
}

fn make_directories(root: &Path) -> io::Result<()> {
    for directory in 0..DIRECTORIES {
        private::make_dir(&root.join(format!("{directory:02x}")))?;
    }
    File::open(root)?.sync_all()
}

/// Counts the objects, which takes a second for a few million, and lists the files of attached ones.
fn count(root: &Path) -> Result<(u64, Vec<(ObjectName, attached::FileKind)>), TargetError> {
    let (mut objects, mut attachments) = (0, Vec::new());
    for directory in std::fs::read_dir(root).map_err(io("read", root))? {
        let path = directory.map_err(io("read", root))?.path();
        for entry in std::fs::read_dir(&path).map_err(io("read", &path))? {
            let name = entry.map_err(io("read", &path))?.file_name();
            let Some(name) = name.to_str() else { continue };
            objects += u64::from(ObjectName::parse(name).is_some());
            attachments.extend(attached::parse_file(name));
        }
    }
    Ok((objects, attachments))
}
