//! Task of one worker in one phase: plain data that can be sent to another machine.
//!
//! Paths are below the root of the file system under test and never begin with a slash.

use serde::{Deserialize, Serialize};

use crate::work::Progress;

/// Task of one worker in one phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// No operation: only other workers have tasks in this phase.
    Rest,
    /// Makes a directory, if it does not exist.
    Make(String),
    /// Removes a directory tree.
    Clear(String),
    /// Moves the data of one file.
    Transfer(Transfer),
    /// Executes one operation on many names.
    Names(Names),
    /// Walks directory trees.
    Walk(Walk),
    /// Executes one operation on a whole source tree.
    Tree(Tree),
}

impl Task {
    /// True if the task reads names, or small files, that a client may have in its caches.
    #[must_use]
    pub fn looks_at_names(&self) -> bool {
        use NameOperation::{List, Read, Stat};
        match self {
            Self::Names(names) => matches!(names.operation, Stat | Read | List),
            Self::Tree(tree) => tree.operation == TreeOperation::Read,
            Self::Walk(_) => true,
            Self::Rest | Self::Make(_) | Self::Clear(_) | Self::Transfer(_) => false,
        }
    }

    /// Planned bytes and operations, as far as known before; the amount of a listing or a walk is unknown.
    #[must_use]
    pub fn planned(&self) -> Progress {
        match self {
            Self::Transfer(Transfer { records, .. }) => Progress {
                bytes: records.count.saturating_mul(records.record_bytes),
                operations: records.count,
            },
            Self::Names(Names { count, .. }) => Progress { bytes: 0, operations: *count },
            Self::Tree(Tree { files, .. }) => Progress { bytes: 0, operations: *files },
            Self::Rest | Self::Make(_) | Self::Clear(_) | Self::Walk(_) => Progress::default(),
        }
    }
}

/// Transfer of records of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfer {
    /// Path of the file.
    pub path: String,
    /// Direction of the data.
    pub direction: Direction,
    /// Records to transfer.
    pub records: Records,
    /// Order of the records.
    pub order: Order,
    /// Seed of the file's content; readers that verify compute the content again.
    pub seed: u64,
}

/// Direction of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// To a file, created if missing, otherwise overwritten in place.
    Write,
    /// From an existing file.
    Read,
}

/// Records at regular distances:
///
/// ```text
/// start            start + stride
///   │ record_bytes │ …              count of them
/// ```
///
/// With a stride of `record_bytes` they are contiguous. With a stride of N records, and starts one record
/// apart, N workers interleave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Records {
    /// Offset of the first record.
    pub start: u64,
    /// Length of each record, at least 1.
    pub record_bytes: u64,
    /// Distance between the starts of two records.
    pub stride: u64,
    /// Number of records.
    pub count: u64,
}

impl Records {
    /// Contiguous records; all have the same length, so `bytes` is rounded up to whole records.
    #[must_use]
    pub fn run(start: u64, bytes: u64, record_bytes: u64) -> Self {
        Self { start, record_bytes, stride: record_bytes, count: bytes.div_ceil(record_bytes) }
    }

    /// Offset of record `i`.
    #[must_use]
    pub fn offset(&self, i: u64) -> u64 {
        self.start + i * self.stride
    }

    /// Length of all records together.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.count * self.record_bytes
    }
}

/// Order of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// From the first to the last.
    Forward,
    /// Each once, shuffled by the file's seed.
    Shuffled,
}

/// One operation on `count` names in several directories: name `i` is in `dirs[i % dirs.len()]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Names {
    /// The operation.
    pub operation: NameOperation,
    /// Existing directories.
    pub dirs: Vec<String>,
    /// Prefix of the names, before a number.
    pub prefix: String,
    /// First number.
    pub first: u64,
    /// Number of names.
    pub count: u64,
    /// Length of each file in bytes, for operations that write or read it.
    pub file_bytes: u64,
    /// Seed of the content.
    pub seed: u64,
}

impl Names {
    /// Path of name `i`, counted from 0.
    ///
    /// # Panics
    /// If there are no `dirs`.
    #[must_use]
    pub fn path(&self, i: u64) -> String {
        let dir = &self.dirs[(i % self.dirs.len() as u64) as usize];
        let number = self.first + i;
        if dir.is_empty() {
            format!("{}{number}", self.prefix)
        } else {
            format!("{dir}/{}{number}", self.prefix)
        }
    }
}

/// Operation on names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NameOperation {
    /// Create a file, write its content if any, close.
    Create,
    /// Read its attributes.
    Stat,
    /// Open, read all, close.
    Read,
    /// Rename it in its directory: prefix `r`.
    Rename,
    /// Remove it.
    Unlink,
    /// Make a directory.
    Mkdir,
    /// Remove a directory.
    Rmdir,
    /// List each of `dirs`; each entry counts as one operation.
    List,
}

/// Walk of directories; each name except those of directories is one operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Walk {
    /// Start directories.
    pub dirs: Vec<String>,
    /// Text in the names to stat; empty: stat all.
    pub name_has: String,
    /// Condition for stat'ed names to count as found; none: all do.
    pub found: Option<Found>,
}

/// Condition for a name to count as found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Size in bytes.
    pub bytes: u64,
    /// File whose ctime is the lower limit.
    pub since: String,
}

/// Tree of directories and files like a source tree, determined by the seed: see `work/tree.rs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tree {
    /// The operation.
    pub operation: TreeOperation,
    /// Existing parent directory.
    pub dir: String,
    /// Number of files.
    pub files: u64,
    /// Seed of the tree's shape and content.
    pub seed: u64,
}

/// Operation on a tree; each file is one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TreeOperation {
    /// Make its directories and files one after the other, as `tar` does.
    Unpack,
    /// Read all files.
    Read,
    /// Remove all files and directories.
    Remove,
}
