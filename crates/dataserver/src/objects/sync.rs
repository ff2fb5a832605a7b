//! Syncs of objects, and what an error of the kernel means for the target.

use std::fs::File;
use std::io;
use std::sync::atomic::Ordering;

use rustix::io::Errno;

use super::{ObjectError, Objects};
use crate::object::{ObjectName, OpenObject};

impl Objects {
    /// Makes the object's data durable. A sync that fails may have taken pages with it that were
    /// acknowledged, and the next one would report success. After most errors nothing can be believed of the
    /// target before a restart. A full disk is another matter: the kernel names the file concerned by this
    /// error, and others' pages are not touched. So the target goes on, and its verifier changes, whereupon
    /// clients send again what they had not committed.
    pub(crate) fn sync(&self, name: &ObjectName, object: &OpenObject) -> Result<(), ObjectError> {
        self.sync_by(name, object, |file| self.disk.sync_file(file))
    }

    pub(crate) fn sync_by(
        &self,
        name: &ObjectName,
        object: &OpenObject,
        sync: impl FnOnce(&File) -> io::Result<()>,
    ) -> Result<(), ObjectError> {
        let file = |file: &File| {
            self.sync_with_map(object, || sync(file)).map_err(|error| {
                if answer_to(&error) == ObjectError::ReadOnly {
                    // Nothing was tried. What is not on the disk stays in the kernel's cache, and each later sync of the
                    // object is refused, too, until the file system is mounted anew.
                    object.touch();
                    return self.trouble("sync", name, error);
                }
                let target = self.root.path().display();
                // The verifier of a column with copies is its chain's, and cannot tell of a loss at one
                // member.
                let has_copies = object.gate.mark().chain != 0;
                if answer_to(&error) == ObjectError::NoSpace && !has_copies {
                    self.verifier.fetch_add(1, Ordering::AcqRel);
                    tracing::error!(
                        %target, %name, %error,
                        "sync of an object failed: the target is full; clients are told to repeat their writes. Make \
                         room, or add targets"
                    );
                    return ObjectError::NoSpace;
                }
                self.fail();
                tracing::error!(
                    %target, %name, %error,
                    "sync of an object failed: writes may be lost, and nothing is served from this target any more. Check \
                     its disk (dmesg, smartctl), then restart the data server"
                );
                ObjectError::Io
            })
        };
        object.sync(file)?;
        // A sync that failed while we waited for it took our pages with it.
        self.check()
    }

    pub(crate) fn sync_directory(&self, directory: u8) -> Result<(), ObjectError> {
        let name = format!("{directory:02x}");
        self.disk.sync_dir(self.root.file(), &name).map_err(|error| match answer_to(&error) {
            // The directory could not even be opened: nothing was tried, and nothing is lost.
            ObjectError::Busy => ObjectError::Busy,
            // The caller gets the missing names, and asks again.
            ObjectError::NoSpace => {
                tracing::error!(
                    directory = %self.root.path().join(&name).display(), %error,
                    "sync of a directory failed: the target is full. Make room, or add targets"
                );
                ObjectError::NoSpace
            }
            // Nothing that the caller has changed is durable, and it is told so. What is durable can be read.
            ObjectError::ReadOnly => {
                self.refuses_changes.store(true, Ordering::Relaxed);
                ObjectError::ReadOnly
            }
            _ => {
                self.fail();
                tracing::error!(
                    directory = %self.root.path().join(&name).display(), %error,
                    "sync of a directory failed: nothing is served from this target any more. Check its disk (dmesg, \
                     smartctl), then restart the data server"
                );
                ObjectError::Io
            }
        })
    }

    pub(crate) fn fail(&self) {
        self.failed.store(true, Ordering::Release);
    }

    /// The answer to an error of the kernel, after it was logged.
    pub(crate) fn trouble(&self, doing: &str, name: &ObjectName, error: io::Error) -> ObjectError {
        let answer = answer_to(&error);
        if error.raw_os_error() == Some(Errno::ROFS.raw_os_error()) {
            self.refuses_changes.store(true, Ordering::Relaxed);
        }
        match answer {
            // A full disk is expected, and each writer gets the error; a line for each write would fill the
            // log.
            ObjectError::NoSpace | ObjectError::TooLarge | ObjectError::NotSupported => {
                tracing::debug!(target = %self.root.path().display(), %name, %error, "{doing} object failed");
            }
            // Each call of a client to a failed or read-only disk may come here.
            _ => {
                if let Some(count) = self.troubles.count() {
                    tracing::error!(
                        target = %self.root.path().display(), %name, %error, count,
                        "{doing} object failed. Check the target's disk (dmesg, smartctl)"
                    );
                }
            }
        }
        answer
    }
}

/// The answer to an error of the kernel.
pub(crate) fn answer_to(error: &io::Error) -> ObjectError {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOSPC | Errno::DQUOT) => ObjectError::NoSpace,
        Some(Errno::FBIG) => ObjectError::TooLarge,
        // BADF: opened to read, since the file system was read-only then.
        Some(Errno::ROFS | Errno::BADF) => ObjectError::ReadOnly,
        Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM) => ObjectError::Busy,
        Some(Errno::OPNOTSUPP | Errno::NOSYS) => ObjectError::NotSupported,
        _ => ObjectError::Io,
    }
}
