//! Integrity of this member's own state, and the reaction to a violation.
//!
//! | state of this member | other voters | reaction |
//! | --- | --- | --- |
//! | damaged, or not that of the majority | two or more | mark it in the log's directory and fail; the next start rebuilds it |
//! | damaged, or differs without a majority | one | stop serving, go on voting: the other voter serves |
//! | damaged | none | report it; reading a damaged record is an error |
//! | cannot be read: the disk failed | two or more | fail: the others serve its clients |
//! | cannot be read | one | stop serving, go on voting |
//! | cannot be read | none | reading is an error |
//!
//! A rebuild takes the state from the other members (`ReplicaError::Damaged`).

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use host::{Files, Opened};
use namespace::Incarnation;
use parking_lot::RwLock;
use store::{StoreError, Trouble, View, Visitor};

use crate::log;
use host::watch;

/// File in the log's directory that marks the store as wrong.
const MARK: &str = "distrusted";

/// Integrity of the state, shared by all readers of the store.
pub(crate) struct Integrity {
    files: Arc<dyn Files>,
    dir: PathBuf,
    failed: Arc<watch::Sender<Option<String>>>,
    out_of_service: watch::Sender<Option<String>>,
    /// Set before a client can be told a wrong value.
    stopped_serving: AtomicBool,
    other_voters: AtomicUsize,
    reported: AtomicBool,
    incarnation: RwLock<Option<Incarnation>>,
}

impl Integrity {
    pub(crate) fn new(
        files: Arc<dyn Files>,
        dir: PathBuf,
        failed: Arc<watch::Sender<Option<String>>>,
        incarnation: Option<Incarnation>,
    ) -> Self {
        Self {
            files,
            dir: dir.join(log::DIR),
            failed,
            out_of_service: watch::channel(None).0,
            stopped_serving: AtomicBool::new(false),
            other_voters: AtomicUsize::new(0),
            reported: AtomicBool::new(false),
            incarnation: RwLock::new(incarnation),
        }
    }

    /// Reads the mark of an earlier process: the reason that the store is wrong.
    pub(crate) fn read_mark(files: &dyn Files, dir: &std::path::Path) -> std::io::Result<Option<String>> {
        let path = dir.join(log::DIR).join(MARK);
        let file = match files.open(&path, Opened::Read) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e),
        };
        let mut why = vec![0; file.bytes()? as usize];
        file.read_at(&mut why, 0)?;
        Ok(Some(String::from_utf8_lossy(&why).into_owned()))
    }

    /// Sets the number of other voters.
    pub(crate) fn set_other_voters(&self, count: usize) {
        self.other_voters.store(count, Ordering::Relaxed);
    }

    /// Incarnation of the group, if this member knows it.
    pub(crate) fn incarnation(&self) -> Option<Incarnation> {
        *self.incarnation.read()
    }

    pub(crate) fn set_incarnation(&self, incarnation: Option<Incarnation>) {
        *self.incarnation.write() = incarnation;
    }

    /// True if clients must not be answered any more.
    pub(crate) fn is_out_of_service(&self) -> bool {
        self.stopped_serving.load(Ordering::Acquire)
    }

    /// Reason that this member stopped serving, once it has.
    pub(crate) fn out_of_service(&self) -> watch::Receiver<Option<String>> {
        self.out_of_service.subscribe()
    }

    /// Reports an error of the store.
    pub(crate) fn report(&self, error: &StoreError) {
        match error.trouble {
            Trouble::Damaged => self.report_damage(&error.to_string()),
            Trouble::Failed => self.report_failed_disk(&error.to_string()),
        }
    }

    /// Reports that the store cannot be read. Clients are better served by another member than by EIO. The
    /// state may be right, and is kept: the disk may be there again after a restart.
    fn report_failed_disk(&self, why: &str) {
        match self.other_voters.load(Ordering::Relaxed) {
            0 => {} // each reader has the error, and nobody else could answer
            1 => {
                self.stopped_serving.store(true, Ordering::Release);
                if self.out_of_service.get().is_none() {
                    tracing::error!(
                        %why,
                        "the metadata store cannot be read: this metaserver stops serving clients and goes on voting. \
                         Check its disk (dmesg, smartctl), and start it again"
                    );
                    self.out_of_service.set(Some(why.to_owned()));
                }
            }
            _ => {
                self.stopped_serving.store(true, Ordering::Release);
                if self.failed.get().is_none() {
                    tracing::error!(
                        %why,
                        "the metadata store cannot be read: this metaserver stops. Check its disk (dmesg, smartctl)"
                    );
                    self.failed.set(Some(why.to_owned()));
                }
            }
        }
    }

    /// Reports that this member's state is wrong and that of the others is right.
    pub(crate) fn report_damage(&self, why: &str) {
        match self.other_voters.load(Ordering::Relaxed) {
            0 => {
                if !self.reported.swap(true, Ordering::Relaxed) {
                    tracing::error!(
                        %why,
                        "the metadata of this metaserver are damaged, and there is no other voter to rebuild them from: \
                         restore them from a backup"
                    );
                }
            }
            1 => self.report_difference(why),
            _ => {
                self.stopped_serving.store(true, Ordering::Release);
                if self.failed.get().is_some() {
                    return;
                }
                tracing::error!(
                    %why,
                    "the metadata of this metaserver are wrong: it stops, and rebuilds them when it is started again"
                );
                if let Err(error) = self.write_mark(why) {
                    tracing::error!(
                        %error,
                        "cannot mark the metadata as wrong: empty the directory of this metaserver, and have it join again"
                    );
                }
                self.failed.set(Some(why.to_owned()));
            }
        }
    }

    /// Reports that the leader sent entries which this version cannot read: this member stops. Its state is
    /// right, and is kept.
    pub(crate) fn report_newer_version(&self, why: &str) {
        self.stopped_serving.store(true, Ordering::Release);
        if self.failed.get().is_none() {
            self.failed.set(Some(format!(
                "the leader has sent a change that this version of heorot does not understand ({why}): \
                 install the version of the others"
            )));
        }
    }

    /// Reports that no majority can say whether this member's state is right.
    pub(crate) fn report_difference(&self, why: &str) {
        self.stopped_serving.store(true, Ordering::Release);
        if self.out_of_service.get().is_none() {
            tracing::error!(
                %why,
                "this metaserver stops serving clients and goes on voting: remove it (heorot node remove), and \
                 have it join again with an empty directory"
            );
            self.out_of_service.set(Some(why.to_owned()));
        }
    }

    fn write_mark(&self, why: &str) -> std::io::Result<()> {
        let file = self.files.open(&self.dir.join(MARK), Opened::New)?;
        file.write_at(why.as_bytes(), 0)?;
        file.sync()?;
        self.files.sync_dir(&self.dir)
    }

    /// Reads a record of a view, and checks it.
    pub(crate) fn get(&self, view: &dyn View, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let found = view.get(key).inspect_err(|error| self.report(error))?;
        match &found {
            Some(value) if !namespace::is_sound(key, value) => Err(self.report_damaged_record(key)),
            _ => Ok(found),
        }
    }

    /// Scans a range of a view, and checks each record.
    pub(crate) fn scan(
        &self,
        view: &dyn View,
        from: &[u8],
        to: &[u8],
        visit: &mut Visitor<'_>,
    ) -> Result<(), StoreError> {
        let mut outcome = Ok(());
        view.scan(from, to, &mut |key, value| match namespace::is_sound(key, value) {
            true => visit(key, value),
            false => {
                outcome = Err(self.report_damaged_record(key));
                std::ops::ControlFlow::Break(())
            }
        })
        .inspect_err(|error| self.report(error))?;
        outcome
    }

    /// The view, each record of which is checked before its value is used.
    pub(crate) fn checked<'a>(&'a self, view: &'a dyn View) -> Checked<'a> {
        Checked { view, integrity: self }
    }

    /// Reports a record with a wrong checksum.
    fn report_damaged_record(&self, key: &[u8]) -> StoreError {
        let cause = format!("the checksum of {key:02x?} is wrong: the disk is damaged");
        let error = StoreError::damaged("read a record", cause);
        self.report_damage(&error.to_string());
        error
    }
}

/// View that checks each record before its value is used.
pub(crate) struct Checked<'a> {
    view: &'a dyn View,
    integrity: &'a Integrity,
}

impl View for Checked<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.integrity.get(self.view, key)
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: &mut Visitor<'_>) -> Result<(), StoreError> {
        self.integrity.scan(self.view, from, to, visit)
    }
}

/// Snapshot of the store that checks each record before its value is used.
pub(crate) struct CheckedView {
    pub view: Box<dyn View + Send + Sync>,
    pub integrity: Arc<Integrity>,
}

impl View for CheckedView {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.integrity.get(&*self.view, key)
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: &mut Visitor<'_>) -> Result<(), StoreError> {
        self.integrity.scan(&*self.view, from, to, visit)
    }
}
