//! Shortage of file descriptors for a while: files of the log are opened when there are some again.
//!
//! The limit applies to the whole process: this file has one test.

use std::io;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use host::{Files, Opened, SystemFiles};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Sends a word for each line of the log.
struct Lines(Sender<()>);

impl Subscriber for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        let _ = self.0.send(());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Opens as the log does: a new segment, the same again, the directory.
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
    let (path, (said, lines)) = (dir.path().to_owned(), channel());
    let opened =
        std::thread::spawn(move || tracing::subscriber::with_default(Lines(said), || open_all(&path)));
    // It has tried, and waits.
    let line = lines.recv_timeout(Duration::from_secs(10));
    setrlimit(Resource::Nofile, before).unwrap();
    assert_eq!(refused.raw_os_error(), Some(Errno::MFILE.raw_os_error()), "nothing can be opened");
    assert_eq!(line, Ok(()), "the shortage is in the log");
    opened.join().unwrap().expect("opened when there are descriptors again");
}
