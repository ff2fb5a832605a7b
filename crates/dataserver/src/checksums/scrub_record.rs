//! Record of a target's scrubs, in `scrub.toml` in its directory: a restart goes on where the last one was.
//!
//! ```text
//! begun = 1764230400                 # seconds since 1970; of the scrub under way
//! after = "000000000000002a.00000000" # inode and column of the last object that was verified
//! bytes = 1048576
//! found = 0                          # damaged blocks and sums
//! [last]                             # the last one that went through
//! begun = 1763020800
//! ended = 1763030000
//! bytes = 104857600
//! found = 0
//! ```

use std::io;
use std::path::Path;

use host::SystemFiles;
use serde::{Deserialize, Serialize};
use wire::data::list;

/// Name of the file.
pub(crate) const SCRUB_FILE: &str = "scrub.toml";

/// A scrub that went through all objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubRun {
    /// Begin, in seconds since 1970.
    pub begun: u64,
    /// End, in seconds since 1970.
    pub ended: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// Blocks and sums that were found damaged.
    pub found: u64,
}

/// The scrub under way, and the last one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ScrubRecord {
    /// Begin of the one under way, in seconds since 1970; none: it waits for its time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begun: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<String>,
    /// Bytes that it has read.
    #[serde(default)]
    pub bytes: u64,
    /// Blocks and sums that it has found damaged.
    #[serde(default)]
    pub found: u64,
    /// The last one that went through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<ScrubRun>,
}

impl ScrubRecord {
    /// The record in the target's directory. One that is not there, or cannot be read, is that of a target
    /// that was never scrubbed.
    pub(crate) fn read(dir: &Path) -> Self {
        let text = std::fs::read_to_string(dir.join(SCRUB_FILE)).unwrap_or_default();
        toml::from_str(&text).unwrap_or_default()
    }

    pub(crate) fn write(&self, dir: &Path) -> io::Result<()> {
        let text = toml::to_string(self).map_err(io::Error::other)?;
        host::replace(&SystemFiles, &dir.join(SCRUB_FILE), text.as_bytes())
    }

    /// The record after a scrub that went through.
    pub(crate) fn ended(run: ScrubRun) -> Self {
        Self { last: Some(run), ..Self::default() }
    }

    /// The object to go on after.
    pub(crate) fn after(&self) -> Option<list::ObjectName> {
        let (inode, column) = self.after.as_deref()?.split_once('.')?;
        let inode = u64::from_str_radix(inode, 16).ok()?;
        Some(list::ObjectName { inode, column: u32::from_str_radix(column, 16).ok()? })
    }

    pub(crate) fn set_after(&mut self, after: Option<list::ObjectName>) {
        self.after = after.map(|after| format!("{:016x}.{:08x}", after.inode, after.column));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_another_text_is_none() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(ScrubRecord::read(dir.path()), ScrubRecord::default());
        let last = Some(ScrubRun { begun: 1, ended: 2, bytes: 3, found: 4 });
        let mut record = ScrubRecord { begun: Some(5), bytes: 6, found: 7, last, ..ScrubRecord::default() };
        record.set_after(Some(list::ObjectName { inode: u64::MAX - 1, column: 9 }));
        record.write(dir.path()).unwrap();
        let read = ScrubRecord::read(dir.path());
        assert_eq!(read, record);
        assert!(read.after().is_some_and(|after| (after.inode, after.column) == (u64::MAX - 1, 9)));
        std::fs::write(dir.path().join(SCRUB_FILE), "begun = [").unwrap();
        assert_eq!(ScrubRecord::read(dir.path()), ScrubRecord::default());
    }
}
