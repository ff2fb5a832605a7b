//! Shortage of descriptors, memory or space for a while: the store waits, and then continues.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use redb::StorageBackend;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use store::{Durability, RedbStore, Store};

const MEMORY_BYTES: usize = 1 << 20;
/// Bytes of all values: more than the memory, so that pages are read from the file.
const BYTES: usize = 8 << 20;
const VALUE_BYTES: usize = 16 << 10;

fn value(n: usize) -> Vec<u8> {
    vec![n as u8; VALUE_BYTES]
}

/// Puts, replaces and removes values, and reads all of them.
fn work(store: &RedbStore) {
    for n in 0..BYTES / VALUE_BYTES {
        let durability = if n % 8 == 0 { Durability::Immediate } else { Durability::Deferred };
        store.batch(durability, &mut |edit| edit.put(&n.to_be_bytes(), &value(n))).expect("a batch");
    }
    store.batch(Durability::Immediate, &mut |edit| edit.delete(&0usize.to_be_bytes())).expect("a batch");
    let mut seen = 0;
    let view = store.snapshot().expect("a snapshot");
    view.scan(b"", b"\xff", &mut |_, found| {
        seen += 1;
        assert_eq!(found.len(), VALUE_BYTES);
        ControlFlow::Continue(())
    })
    .expect("scans");
    assert_eq!(seen, BYTES / VALUE_BYTES - 1);
}

/// The limit applies to the whole process: this file has no other test that opens a file.
#[test]
fn an_open_store_needs_no_further_descriptor() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let store = RedbStore::open(&path, MEMORY_BYTES).unwrap();
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..before }).unwrap();
    let refused = std::fs::File::open(&path).unwrap_err();
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        work(&store);
        let pairs = [(b"key".to_vec(), b"value".to_vec())];
        store.replace(&mut pairs.into_iter().map(Ok)).expect("replaced");
        assert_eq!(store.snapshot().unwrap().get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
    }));
    setrlimit(Resource::Nofile, before).unwrap();
    assert_eq!(refused.raw_os_error(), Some(Errno::MFILE.raw_os_error()), "nothing can be opened");
    done.unwrap();
}

/// File in memory. Each fiftieth call fails first: from lack of memory, or of space if it is a write.
#[derive(Debug, Default)]
struct Short {
    bytes: Arc<Mutex<Vec<u8>>>,
    calls: AtomicU32,
    refused: Arc<AtomicU32>,
}

impl Short {
    fn try_it(&self, errno: Errno) -> io::Result<()> {
        if self.calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(50) {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(io::Error::from_raw_os_error(errno.raw_os_error()));
        }
        Ok(())
    }
}

impl StorageBackend for Short {
    fn len(&self) -> io::Result<u64> {
        self.try_it(Errno::NOMEM)?;
        Ok(self.bytes.lock().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.try_it(Errno::NOMEM)?;
        let bytes = self.bytes.lock();
        let at = offset as usize;
        out.copy_from_slice(bytes.get(at..at + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.try_it(Errno::NOSPC)?;
        self.bytes.lock().resize(len as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let at = offset as usize;
        let half = data.len() / 2;
        // The first half is written again by the retry.
        self.bytes.lock()[at..at + half].copy_from_slice(&data[..half]);
        self.try_it(Errno::NOSPC)?;
        self.bytes.lock()[at..at + data.len()].copy_from_slice(data);
        Ok(())
    }
}

#[test]
fn memory_and_room_that_are_short_for_a_while_are_waited_for() {
    let short = Short::default();
    let (bytes, refused) = (Arc::clone(&short.bytes), Arc::clone(&short.refused));
    let store = RedbStore::open_backend(short, MEMORY_BYTES).unwrap();
    work(&store);
    drop(store);
    assert!(refused.load(Ordering::Relaxed) > 10, "{refused:?}");
    let again = Short { bytes, ..Short::default() };
    let store = RedbStore::open_backend(again, MEMORY_BYTES).unwrap();
    assert_eq!(store.snapshot().unwrap().get(&5usize.to_be_bytes()).unwrap(), Some(value(5)));
}
