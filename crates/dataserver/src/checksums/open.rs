//! Opening the sums of an object, and the settings and counts of a target's checksums.

use std::io;

use super::{ChecksumCounts, Regions, SUFFIX, SumFile, Verify};
use crate::object::{ObjectName, OpenObject};
use crate::objects::{ObjectError, Objects};

impl Objects {
    /// Opens the sum file of an object, if it has one.
    pub(crate) fn open_sums(&self, name: &ObjectName, object: &OpenObject) -> Result<(), ObjectError> {
        let fail = |e| self.trouble("open the sums of", name, e);
        let is_doubtful = self.checksums.doubts.lock().contains_key(name);
        let is_summed = match self.root.open_file(&(name.path() + SUFFIX)) {
            Ok(file) => {
                let sums = SumFile(file);
                let has_header = sums.has_header(&*self.disk, name).map_err(fail)?;
                if !has_header && !is_doubtful {
                    self.checksums.findings.sum_damaged();
                    tracing::error!(
                        target = %self.root.path().display(), object = %name,
                        "the header of an object's sum file is damaged: the object is summed anew, and cannot be verified before. \
                         Check the disk (dmesg, smartctl)"
                    );
                }
                if !has_header {
                    sums.put_header(&*self.disk, name).map_err(fail)?;
                }
                let _ = object.sums.set(sums);
                has_header
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let is_empty = object.file.metadata().map_err(fail)?.len() == 0;
                if !is_empty && !is_doubtful {
                    self.checksums.findings.unsummed();
                    tracing::warn!(
                        target = %self.root.path().display(), object = %name,
                        "an object has no sum file: it is summed as it is, and cannot be verified before. Was something removed \
                         below this directory?"
                    );
                }
                is_empty
            }
            Err(e) => return Err(fail(e)),
        };
        if !is_summed {
            self.checksums.doubts.lock().insert(*name, Regions::all());
        }
        object.set_doubtful(is_doubtful || !is_summed);
        Ok(())
    }

    /// Sets when blocks are verified.
    pub fn set_verify(&self, verify: Verify) {
        self.checksums.set_verify(verify);
    }

    /// What verification has found since the start of the process.
    #[must_use]
    pub fn checksum_counts(&self) -> ChecksumCounts {
        self.checksums.findings.counts()
    }
}
