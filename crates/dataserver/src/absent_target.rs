//! A target that a data server had, and that was not there when it was started: its disk is not mounted, or
//! fails. It is reported, and nothing is served from it; files that have data on it wait, as for a data
//! server that is away.

use std::path::PathBuf;

use bytes::Bytes;
use wire::data::{TargetCondition, TargetSpace};

use crate::target::TargetError;

/// The target.
pub(crate) struct AbsentTarget {
    pub id: u64,
    pub path: PathBuf,
    /// Why it could not be opened.
    pub why: TargetError,
}

impl AbsentTarget {
    /// The report about it to the metaservers.
    pub(crate) fn space(&self) -> TargetSpace {
        TargetSpace {
            // Its file system is unknown: it counts as one of its own.
            file_system: self.id,
            target: self.id,
            path: Bytes::from(self.path.as_os_str().as_encoded_bytes().to_vec()),
            total: 0,
            free: 0,
            objects: 0,
            condition: TargetCondition::Missing,
            reflinks: false,
            name_space: 0,
            incarnation: 0,
            trash: 0,
            reserve: 0,
        }
    }

    pub(crate) fn log(&self) {
        tracing::error!(
            target = %self.path.display(),
            id = %format!("{:016x}", self.id),
            why = %self.why,
            "a storage target is not there: the data server starts with its other targets, and files that have data on this one \
             wait. Mount its disk, then restart the data server; if its data are gone for good: heorot target lost"
        );
    }
}
