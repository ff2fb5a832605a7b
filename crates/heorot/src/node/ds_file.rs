//! The ds.toml of a data server, while one more directory is put into its `targets`.
//!
//! A command that changes the file holds a lock on its directory, so that of two commands at once the second one
//! finds what the first one has written. The file is replaced as a whole: after a crash there is the old one
//! or the new one.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use dataserver::is_same_directory;
use host::{Files, Opened, SystemFiles};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::config;
use crate::config::ds::DsConfig;
use crate::config::target_list::with_target;
use command_line::Failure;

/// First line of a file that `heorot up` writes anew at each start.
pub(crate) const WRITTEN_BY_UP: &str = "# Written by heorot up at each start.\n";
/// Time limit of the wait for another command: it holds the lock for a moment, a data server for a target's opening.
const LOCK_TIME_MAX: Duration = Duration::from_secs(20);
const LOCK_POLL: Duration = Duration::from_millis(50);

/// The file, locked against other commands.
pub(crate) struct DsFile {
    /// Without links: the file that is replaced, and not a link to it.
    path: PathBuf,
    text: String,
    pub config: DsConfig,
    _lock: File,
}

impl DsFile {
    /// Locks and reads the file. Blocks.
    pub(crate) fn lock(path: &Path) -> Result<Self, Failure> {
        let read = |e: io::Error| config::ConfigError::Read { file: path.into(), why: e.to_string() };
        let path = path.canonicalize().map_err(read)?;
        let lock = lock(path.parent().unwrap_or(Path::new("/")), &path)?;
        let text = config::read(&path)?;
        let config = DsConfig::parse(&path, &text)?;
        if text.starts_with(WRITTEN_BY_UP) {
            return Err(no_targets_of_up());
        }
        Ok(Self { path, text, config, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// True if the directory is in its `targets`.
    pub(crate) fn lists(&self, dir: &Path) -> bool {
        self.config.targets.iter().any(|target| is_same_directory(target, dir))
    }

    /// Puts the directory into `targets`, durably. Blocks.
    pub(crate) fn add(&self, dir: &Path) -> Result<(), Failure> {
        let text = with_target(&self.path, &self.text, dir)?;
        // An editor knows of no lock.
        if config::read(&self.path)? != self.text {
            return Err(Failure::new(format!(
                "{}: was changed meanwhile; nothing else was changed. Try again",
                self.path.display()
            )));
        }
        replace(&self.path, &text).map_err(|error| {
            // The sync of the directory is the last step.
            let is_there = config::read(&self.path).is_ok_and(|now| now == text);
            let changed = if is_there { "it is changed until the power fails" } else { "nothing was changed" };
            Failure::new(format!(
                "{}: cannot be written: {error}; {changed}. Make room there, or see that the user of this process may write to \
                 the file and its directory",
                self.path.display()
            ))
        })
    }

    /// Brings the text back that was there before [`DsFile::add`] of the directory. Blocks.
    pub(crate) fn undo(&self, dir: &Path) -> Result<(), Failure> {
        if config::read(&self.path)? != with_target(&self.path, &self.text, dir)? {
            return Err(Failure::new("it was changed meanwhile; take the directory out of `targets` there"));
        }
        Ok(replace(&self.path, &self.text)?)
    }
}

/// Refusal for the data servers of `heorot up`.
pub(crate) fn no_targets_of_up() -> Failure {
    Failure::new(
        "the data servers of heorot up have one target each, in its directory, and get no more: start heorot up with more \
         --data-servers, or make a node with heorot init",
    )
}

/// Lock on the directory of the file: the file itself is replaced.
fn lock(dir: &Path, file: &Path) -> Result<File, Failure> {
    let failed = |error: io::Error| {
        Failure::new(format!("{}: cannot be locked: {error}; nothing was changed", dir.display()))
    };
    let lock = File::open(dir).map_err(failed)?;
    let began = Instant::now();
    loop {
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(lock),
            Err(Errno::WOULDBLOCK) if began.elapsed() < LOCK_TIME_MAX => std::thread::sleep(LOCK_POLL),
            Err(Errno::WOULDBLOCK) => {
                return Err(Failure::new(format!(
                    "{}: another heorot target add changes it; nothing was changed. Try again",
                    file.display()
                )));
            }
            Err(error) => return Err(failed(error.into())),
        }
    }
}

/// Replaces the file, with the mode and the owner that it has.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let before = std::fs::metadata(path)?;
    let temporary = host::temporary(path);
    let written = || {
        let file = SystemFiles.open(&temporary, Opened::New)?;
        file.write_at(text.as_bytes(), 0)?;
        // Only root can give a file away: another user's file becomes that of this process.
        let _ = std::os::unix::fs::chown(&temporary, Some(before.uid()), Some(before.gid()));
        std::fs::set_permissions(&temporary, before.permissions())?;
        file.sync()?;
        host::put_in_place(&SystemFiles, &temporary, path)
    };
    written().inspect_err(|_| drop(std::fs::remove_file(&temporary)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const TEXT: &str = "# By hand.\nlisten = '10.0.0.5:2049'\nmetaserver = 'mds:2049'\nsecret_file = '/s'\n\
                        data_dir = '/d'\ntargets = ['/a']\n";

    #[test]
    fn the_file_behind_a_link_is_replaced_with_its_mode_and_its_comments() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("real.toml"), dir.path().join("ds.toml"));
        std::fs::write(&file, TEXT).unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let locked = DsFile::lock(&link).unwrap();
        assert!(locked.lists(Path::new("/a/./")) && !locked.lists(Path::new("/b")));
        locked.add(Path::new("/b")).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(text, TEXT.replace("['/a']", "['/a', \"/b\"]"));
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o644);
        assert!(link.symlink_metadata().unwrap().is_symlink());
        locked.undo(Path::new("/b")).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), TEXT);
        drop(locked);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "nothing else is left");
    }

    #[test]
    fn two_commands_at_once_both_find_what_the_other_has_written() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ds.toml");
        std::fs::write(&file, TEXT).unwrap();
        std::thread::scope(|scope| {
            for name in ["/b", "/c", "/d", "/e"] {
                let file = &file;
                scope.spawn(move || DsFile::lock(file).unwrap().add(Path::new(name)).unwrap());
            }
        });
        assert_eq!(DsFile::lock(&file).unwrap().config.targets.len(), 5);
    }

    #[test]
    fn what_an_editor_has_written_meanwhile_stays() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ds.toml");
        std::fs::write(&file, TEXT).unwrap();
        let by_hand = format!("{TEXT}name = 'ash'\n");
        let locked = DsFile::lock(&file).unwrap();
        std::fs::write(&file, &by_hand).unwrap();
        let refused = locked.add(Path::new("/b")).unwrap_err().to_string();
        assert!(refused.contains("was changed meanwhile; nothing else was changed"), "{refused}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), by_hand);
        drop(locked);

        let locked = DsFile::lock(&file).unwrap();
        locked.add(Path::new("/b")).unwrap();
        std::fs::write(&file, TEXT).unwrap();
        assert!(locked.undo(Path::new("/b")).is_err());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), TEXT);
    }

    #[test]
    fn a_file_that_cannot_be_written_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ds.toml");
        std::fs::write(&file, TEXT).unwrap();
        // In the way of the temporary file, as a full disk would be.
        std::fs::create_dir(host::temporary(&file)).unwrap();
        let refused = DsFile::lock(&file).unwrap().add(Path::new("/b")).unwrap_err().to_string();
        assert!(
            refused.contains("cannot be written") && refused.contains("nothing was changed"),
            "{refused}"
        );
        assert_eq!(std::fs::read_to_string(&file).unwrap(), TEXT);
        std::fs::write(&file, format!("{WRITTEN_BY_UP}{TEXT}")).unwrap();
        let refused = DsFile::lock(&file).err().unwrap().to_string();
        assert!(refused.contains("the data servers of heorot up have one target each"), "{refused}");
    }
}
