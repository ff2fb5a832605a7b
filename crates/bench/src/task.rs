//! Task of one worker in one phase: plain data, so that it can be sent to another machine.
//!
//! Paths are below the root of the file system under test and never begin with a slash.

use serde::{Deserialize, Serialize};

use crate::work::Progress;

/// Task of one worker in one phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// Nothing: others work in this phase.
    Rest,
    /// Makes a directory, if it is not there.
    Make(String),
    /// Removes a directory and all that is in it.
    Clear(String),
    /// Moves the data of one file.
    Transfer(Transfer),
    /// Does one thing to many names.
    Names(Names),
    /// Lists directories and what is below them.
    Walk(Walk),
    /// Does one thing to a whole source tree.
    Tree(Tree),
}

impl Task {
    /// Whether it wants to know something of names, or of small files, that a client may have in its caches.
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

    /// Planned bytes and operations, as far as they are known before: a listing, and a walk, see what they
    /// find.
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

/// Records of one file, read or written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfer {
    /// The file.
    pub path: String,
    /// Which way.
    pub direction: Direction,
    /// Which records.
    pub records: Records,
    /// In which order.
    pub order: Order,
    /// What the file's bytes are, made from this; readers that verify make them again.
    pub seed: u64,
}

/// Which way data go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Into a file, made if it is not there and otherwise overwritten in place.
    Write,
    /// Out of a file, which must be there.
    Read,
}

/// Records at regular distances:
///
/// ```text
/// start            start + stride
///   │ record_bytes │ …              count of them
/// ```
///
/// With a stride of `record_bytes` they are one run of bytes. With one of N records, and workers that start
/// one record after the other, N workers interleave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Records {
    /// Offset of the first.
    pub start: u64,
    /// Length of each, at least 1.
    pub record_bytes: u64,
    /// From the start of one to the start of the next.
    pub stride: u64,
    /// How many.
    pub count: u64,
}

impl Records {
    /// One run of bytes; the last record is as long as the others, so `bytes` is rounded up to whole records.
    #[must_use]
    pub fn run(start: u64, bytes: u64, record_bytes: u64) -> Self {
        Self { start, record_bytes, stride: record_bytes, count: bytes.div_ceil(record_bytes) }
    }

    /// Where record `i` starts.
    #[must_use]
    pub fn offset(&self, i: u64) -> u64 {
        self.start + i * self.stride
    }

    /// All of them together.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.count * self.record_bytes
    }
}

/// In which order records are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// From the first to the last.
    Forward,
    /// Each once, shuffled by the file's seed.
    Shuffled,
}

/// One operation, done to `count` names, which are spread over directories: name `i` is in `dirs[i %
/// dirs.len()]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Names {
    /// The operation.
    pub operation: NameOperation,
    /// The directories, which must be there.
    pub dirs: Vec<String>,
    /// Prefix of the names; a number follows.
    pub prefix: String,
    /// The first number.
    pub first: u64,
    /// How many.
    pub count: u64,
    /// Bytes of each file, for those operations that write or read it.
    pub file_bytes: u64,
    /// Seed of these bytes.
    pub seed: u64,
}

impl Names {
    /// The path of name `i`, counted from 0.
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
    /// Make a file, write its bytes if it has any, close.
    Create,
    /// Ask for its attributes.
    Stat,
    /// Open, read all, close.
    Read,
    /// Give it another name in its directory: the same with an `r` before it.
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

/// Each name that is not a directory's is one operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Walk {
    /// Where it begins.
    pub dirs: Vec<String>,
    /// Names that have this in them are asked for their attributes; without a text, all are.
    pub name_has: String,
    /// Which of those that were asked count as found; without, all do.
    pub found: Option<Found>,
}

/// Condition for a name to count as found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Its size.
    pub bytes: u64,
    /// Changed as late as this file, or later.
    pub since: String,
}

/// A tree of directories and files such as one of sources, the same for the same seed: see `work/tree.rs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tree {
    /// The operation.
    pub operation: TreeOperation,
    /// The directory that it is in, which must be there.
    pub dir: String,
    /// How many files it has.
    pub files: u64,
    /// What it looks like, and what is in its files.
    pub seed: u64,
}

/// Operation on a tree; each file is one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TreeOperation {
    /// Make its directories and files, one after the other, as `tar` does.
    Unpack,
    /// Read all files.
    Read,
    /// Remove all files and directories.
    Remove,
}
