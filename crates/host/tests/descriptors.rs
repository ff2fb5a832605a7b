//! Shortage of file descriptors for a while: files of the log are opened when there are some again.
//!
//! The limit applies to the whole process: this file has one test.

use std::io;
use std::path::Path;

use host::{Files, Opened, SystemFiles};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Opens as the log does: a new segment, the spare one, the directory.
fn open_all(dir: &Path) -> io::Result<()> {
    let files = SystemFiles;
    files.open(&dir.join("segment"), Opened::New)?.write_at(b"entry", 0)?;
    files.open(&dir.join("segment"), Opened::Durable)?;
    files.sync_dir(dir)?;
    assert_eq!(files.list(dir)?, [dir.join("segment")]);
    Ok(())
}

#[test]
fn the_log_waits_for_descriptors() {
    let dir = tempfile::tempdir().unwrap();
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..before }).unwrap();
    let refused = std::fs::File::open(dir.path()).unwrap_err();
    let path = dir.path().to_owned();
    let opened = std::thread::spawn(move || open_all(&path));
    // Time for some attempts; a failure ends the thread at the first.
    std::thread::sleep(std::time::Duration::from_millis(30));
    let finished_early = opened.is_finished();
    setrlimit(Resource::Nofile, before).unwrap();
    assert_eq!(refused.raw_os_error(), Some(Errno::MFILE.raw_os_error()), "nothing can be opened");
    assert!(!finished_early, "it waits, and does not fail");
    opened.join().unwrap().expect("opened when there are descriptors again");
}
