//! Targets whose disks failed, or were read-only or missing: what they have kept is not known. The target itself cannot
//! note that, so a file in the data server's own directory does, until the next process has noted it at the target.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use host::SystemFiles;
use parking_lot::Mutex;

use crate::target::Target;

/// Its name: the ids of targets, a line each.
const FILE: &str = "server.suspect";

/// The targets.
pub(crate) struct SuspectTargets {
    path: PathBuf,
    /// The targets, and whether the file has them.
    ids: Mutex<(BTreeSet<u64>, bool)>,
    /// The file could not be read at the start: any target may have been in it.
    is_any: bool,
}

impl SuspectTargets {
    /// Reads the file in `data_dir`, and has the targets that it names compared with all data of their chains.
    pub(crate) fn open(data_dir: &Path, targets: &[Arc<Target>]) -> Self {
        let path = data_dir.join(FILE);
        let id = |line: &str| u64::from_str_radix(line, 16).ok();
        let read = match std::fs::read_to_string(&path) {
            Ok(text) => text.lines().map(id).collect::<Option<BTreeSet<u64>>>(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some(BTreeSet::new()),
            Err(_) => None,
        };
        if read.is_none() {
            tracing::warn!(
                file = %path.display(),
                "cannot be read: all targets here are compared with all data of their chains"
            );
        }
        let is_any = read.is_none();
        let named = read.unwrap_or_else(|| targets.iter().map(|target| target.id()).collect());
        let mut ids = named.clone();
        for target in targets.iter().filter(|target| named.contains(&target.id())) {
            if target.chain_records().lose_all() {
                ids.remove(&target.id());
            }
        }
        let suspect = Self { path, ids: Mutex::new((ids.clone(), true)), is_any };
        if ids != named {
            suspect.write(&ids);
        }
        suspect
    }

    /// Has a target that is added compared with all data of its chains, if the file named it. Blocks.
    pub(crate) fn meet(&self, target: &Target) {
        let mut noted = self.ids.lock();
        let (ids, is_written) = &mut *noted;
        if (self.is_any || ids.contains(&target.id()))
            && target.chain_records().lose_all()
            && ids.remove(&target.id())
        {
            *is_written = self.write(ids);
        }
    }

    /// Notes a target. Blocks, until the file has it.
    pub(crate) fn note(&self, target: u64) {
        let mut noted = self.ids.lock();
        let (ids, is_written) = &mut *noted;
        if ids.insert(target) || !*is_written {
            *is_written = self.write(ids);
        }
    }

    fn write(&self, ids: &BTreeSet<u64>) -> bool {
        let lines: String = ids.iter().map(|id| format!("{id:016x}\n")).collect();
        let written = host::replace(&SystemFiles, &self.path, lines.as_bytes());
        if let Err(error) = &written {
            tracing::warn!(
                file = %self.path.display(), %error,
                "cannot note that a target failed: if the data server starts again, remove the file chains of the target \
                 before"
            );
        }
        written.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_suspect_until_the_next_start() {
        let dir = tempfile::tempdir().unwrap();
        let open = |name: &str| {
            let path = dir.path().join(name);
            let target = Target::open_or_create(&path, [1; 16], &host::SystemEntropy).unwrap();
            let id = target.id();
            drop(target);
            let lines = format!("0000000000000007 7 {id:016x} - 7\n");
            let sum = crc32c::crc32c(lines.as_bytes());
            std::fs::write(path.join("chains"), format!("{lines}crc32c {sum:08x}\n")).unwrap();
            Target::open_or_create(&path, [1; 16], &host::SystemEntropy).unwrap()
        };
        let targets = [open("one"), open("other")];
        let was_in = || targets.each_ref().map(|target| target.chain_records().kept().len());
        let suspect = SuspectTargets::open(dir.path(), &targets);
        assert_eq!(was_in(), [1, 1]);
        suspect.note(targets[1].id());
        suspect.note(targets[1].id());
        let ids = || std::fs::read_to_string(dir.path().join(FILE)).unwrap();
        assert_eq!(ids(), format!("{:016x}\n", targets[1].id()));
        SuspectTargets::open(dir.path(), &targets);
        assert_eq!((was_in(), ids()), ([1, 0], String::new()), "the target says so itself now");
        suspect.note(targets[0].id());
        let without_it = SuspectTargets::open(dir.path(), &targets[1..]);
        assert_eq!(was_in(), [1, 0]);
        without_it.meet(&targets[1]);
        without_it.meet(&targets[0]);
        assert_eq!((was_in(), ids()), ([0, 0], String::new()), "one that comes later");
        let targets = [open("third"), open("fourth")];
        let was_in = || targets.each_ref().map(|target| target.chain_records().kept().len());
        std::fs::write(dir.path().join(FILE), "nonsense").unwrap();
        let of_one = SuspectTargets::open(dir.path(), &targets[..1]);
        assert_eq!(was_in(), [0, 1]);
        of_one.meet(&targets[1]);
        assert_eq!(was_in(), [0, 0]);
    }
}
