//! Which targets a data server has had, noted in its directory as `server.targets`: a line with the id and
//! the path of each.
//!
//! An empty directory becomes a target. Where one was, and only its disk is not mounted, that would be a new
//! target in its place: the data of the old one would be missing while all servers live, and new data would
//! fill the disk below.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use host::SystemFiles;

use crate::absent_target::AbsentTarget;
use crate::target::{Target, TargetError};

const FILE: &str = "server.targets";

/// Content of the note.
pub(crate) struct KnownTargets {
    file: PathBuf,
    by_path: BTreeMap<PathBuf, u64>,
}

impl KnownTargets {
    /// Reads the note in `dir`; other lines than ours are passed over.
    pub(crate) fn read(dir: &Path) -> Result<Self, TargetError> {
        let file = dir.join(FILE);
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(TargetError::Io { doing: "read", path: file, error }),
        };
        let line = |line: &str| {
            let (id, path) = line.split_once(' ')?;
            Some((PathBuf::from(path), u64::from_str_radix(id, 16).ok()?))
        };
        Ok(Self { by_path: text.lines().filter_map(line).collect(), file })
    }

    /// Checks that no target was at `dir`: one may be made there.
    ///
    /// # Errors
    /// [`TargetError::Gone`].
    pub(crate) fn check_new(&self, dir: &Path) -> Result<(), TargetError> {
        match self.by_path.get(dir) {
            Some(id) => Err(TargetError::Gone { path: dir.into(), id: *id, note: self.file.clone() }),
            None => Ok(()),
        }
    }

    /// The target that was at `dir`, which cannot be opened because it or its disk is not there.
    ///
    /// # Errors
    /// `why`, when it is another fault, or no target was known at `dir`.
    pub(crate) fn absent(&self, dir: &Path, why: TargetError) -> Result<AbsentTarget, TargetError> {
        match (self.by_path.get(dir), &why) {
            (Some(id), TargetError::Gone { .. } | TargetError::Io { .. }) => {
                Ok(AbsentTarget { id: *id, path: dir.to_owned(), why })
            }
            _ => Err(why),
        }
    }

    /// Notes, durably, that these are its targets, and no others.
    pub(crate) fn note(self, present: &[Arc<Target>], absent: &[AbsentTarget]) -> Result<(), TargetError> {
        let present = present.iter().map(|target| (target.path().to_owned(), target.id()));
        let absent = absent.iter().map(|target| (target.path.clone(), target.id));
        let by_path: BTreeMap<PathBuf, u64> = present.chain(absent).collect();
        if by_path == self.by_path {
            return Ok(());
        }
        self.write(&by_path).map_err(|error| TargetError::Io {
            doing: "write",
            path: self.file.clone(),
            error,
        })
    }

    fn write(&self, by_path: &BTreeMap<PathBuf, u64>) -> io::Result<()> {
        let lines: String =
            by_path.iter().map(|(path, id)| format!("{id:016x} {}\n", path.display())).collect();
        host::replace(&SystemFiles, &self.file, lines.as_bytes())
    }
}
