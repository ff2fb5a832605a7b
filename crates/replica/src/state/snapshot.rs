//! Snapshot of the store: taken from a view, sent in chunks while commands go on, spooled to a file by the
//! receiver, and installed in place of the receiver's store.
//!
//! ```text
//! chunk  ┌ key length u32 ┬ value length u32 ┬ key ┬ value ┐ …       little-endian; at most one pair beyond CHUNK_BYTES
//! spool  ┌ length u32 ┬ crc32c u32 ┬ chunk ┐ …                       a file beside the store, gone once installed
//! ```

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use host::{File, Files, Opened};
use store::{Store, StoreError, View};

use crate::state::digest::Digest;
use crate::state::records::{STATE_DIGEST_KEY, decode_state_digest};

/// Size of a chunk: with one more pair it fits into a record of our RPC.
const CHUNK_BYTES: usize = 512 << 10;
/// Largest pair: a record, or the data of a small file.
const PAIR_BYTES_MAX: usize = 1 << 20;
/// Largest chunk: one with the largest pair at its end.
pub(crate) const CHUNK_BYTES_MAX: usize = CHUNK_BYTES + 8 + PAIR_BYTES_MAX;
/// Prefix of the names of spool files.
pub(crate) const SPOOL: &str = "snapshot.spool";
/// Number of the next spool file: one snapshot may be installed while the next arrives.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// Snapshot, taken here or received.
pub enum Snapshot {
    /// View of our own store.
    Taken(Arc<dyn View + Send + Sync>),
    /// Whole and checked snapshot of another member, in a file.
    Received(Received),
}

/// Spool file of a received snapshot, removed on drop.
pub struct Received {
    files: Arc<dyn Files>,
    path: PathBuf,
}

impl Drop for Received {
    fn drop(&mut self) {
        if let Err(error) = self.files.remove(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove the file of a received snapshot: remove it by hand");
        }
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Snapshot::Taken(_) => "Snapshot::Taken",
            Snapshot::Received(_) => "Snapshot::Received",
        })
    }
}

impl Snapshot {
    /// Replaces the contents of `store` atomically, together with one pair of this member's own.
    pub(crate) fn install(self, store: &dyn Store, own: Option<(Vec<u8>, Vec<u8>)>) -> io::Result<()> {
        let own_key = own.as_ref().map(|(key, _)| key.clone());
        let others = move |pair: &Pair| !pair.as_ref().is_ok_and(|(key, _)| Some(key) == own_key.as_ref());
        let mut digest = DigestCheck::default();
        match &self {
            Snapshot::Taken(view) => {
                let mut chunks = Chunks::new(Arc::clone(view));
                let pairs = std::iter::from_fn(|| chunks.next_chunk().transpose()).flat_map(pairs_of_chunk);
                let pairs = pairs.map(|pair| digest.check(pair));
                let mut pairs = pairs.filter(others).chain(own.map(Ok));
                store.replace(&mut pairs).map_err(io::Error::other)
            }
            Snapshot::Received(Received { files, path }) => {
                let spool = files.open(path, Opened::Read)?;
                let mut at = 0;
                let chunk = || read_chunk(&*spool, &mut at).map_err(unreadable).transpose();
                let pairs = std::iter::from_fn(chunk).flat_map(pairs_of_chunk).map(|pair| digest.check(pair));
                let mut pairs = pairs.filter(others).chain(own.map(Ok));
                store.replace(&mut pairs).map_err(io::Error::other)
            }
        }
    }
}

/// Check of a received snapshot against its digest: the sender's store may be damaged.
#[derive(Default)]
struct DigestCheck(Digest);

impl DigestCheck {
    fn check(&mut self, pair: Pair) -> Pair {
        let (key, value) = pair?;
        // The digest's key comes after all digested keys.
        if key == STATE_DIGEST_KEY
            && decode_state_digest(&value).is_none_or(|state_digest| state_digest.digest != self.0)
        {
            let cause = "it is not what its digest says: the store of the metaserver that sent it is damaged";
            return Err(StoreError::failed("install a snapshot", cause));
        }
        self.0.change(&key, None, Some(&value));
        Ok((key, value))
    }
}

fn unreadable(cause: io::Error) -> StoreError {
    StoreError::failed("read a received snapshot", cause)
}

type Pair = Result<(Vec<u8>, Vec<u8>), StoreError>;

/// Pairs of a chunk.
pub(crate) fn pairs_of_chunk(chunk: Result<Vec<u8>, StoreError>) -> impl Iterator<Item = Pair> {
    let (mut rest, mut failure) = match chunk {
        Ok(chunk) => (chunk, None),
        Err(e) => (vec![], Some(e)),
    };
    let mut at = 0;
    std::iter::from_fn(move || {
        if let Some(failure) = failure.take() {
            return Some(Err(failure));
        }
        if at == rest.len() {
            return None;
        }
        let Some((key, value)) = pair(&rest[at..]) else {
            rest.clear();
            at = 0;
            return Some(Err(unreadable(io::Error::other("a damaged pair"))));
        };
        at += 8 + key.len() + value.len();
        Some(Ok((key.to_vec(), value.to_vec())))
    })
}

fn pair(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (key, rest) = bytes.split_first_chunk()?;
    let (value, rest) = rest.split_first_chunk()?;
    let (key, value) = (u32::from_le_bytes(*key) as usize, u32::from_le_bytes(*value) as usize);
    let rest = rest.get(..key.checked_add(value)?)?;
    Some(rest.split_at(key))
}

/// Chunks of a view, in order.
pub(crate) struct Chunks {
    view: Arc<dyn View + Send + Sync>,
    /// First key of the next chunk; None: there is none.
    from: Option<Vec<u8>>,
    to: Vec<u8>,
    pairs: u64,
}

impl Chunks {
    pub(crate) fn new(view: Arc<dyn View + Send + Sync>) -> Self {
        // No key begins with so many of these bytes.
        Self { view, from: Some(vec![]), to: vec![0xff; 16], pairs: 0 }
    }

    /// Only keys that begin with less than `tag`.
    pub(crate) fn below(view: Arc<dyn View + Send + Sync>, tag: u8) -> Self {
        Self { to: vec![tag], ..Self::new(view) }
    }

    /// Number of pairs in the chunks so far.
    pub(crate) fn pairs(&self) -> u64 {
        self.pairs
    }

    pub(crate) fn next_chunk(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(from) = self.from.take() else { return Ok(None) };
        let mut chunk = Vec::with_capacity(CHUNK_BYTES + 4096);
        let mut visit = |key: &[u8], value: &[u8]| {
            if chunk.len() >= CHUNK_BYTES {
                self.from = Some(key.to_vec());
                return ControlFlow::Break(());
            }
            for len in [key.len(), value.len()] {
                chunk.extend_from_slice(&(len as u32).to_le_bytes());
            }
            chunk.extend_from_slice(key);
            chunk.extend_from_slice(value);
            self.pairs += 1;
            ControlFlow::Continue(())
        };
        self.view.scan(&from, &self.to, &mut visit)?;
        Ok((!chunk.is_empty()).then_some(chunk))
    }
}

/// Removes spool files of snapshots that were not installed.
pub(crate) fn remove_spools(files: &dyn Files, dir: &Path) -> io::Result<()> {
    for path in files.list(dir)? {
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(SPOOL)) {
            files.remove(&path)?;
        }
    }
    Ok(())
}

/// Snapshot that is being received.
pub(crate) struct Spool {
    received: Received,
    file: Box<dyn File>,
    bytes: u64,
    pairs: u64,
    chunks: u64,
}

impl Spool {
    /// Begins a spool file in `dir`.
    pub(crate) fn begin(files: &Arc<dyn Files>, dir: &Path) -> io::Result<Self> {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = dir.join(format!("{SPOOL}.{number}"));
        let file = files.open(&path, Opened::New)?;
        let received = Received { files: Arc::clone(files), path };
        Ok(Self { received, file, bytes: 0, pairs: 0, chunks: 0 })
    }

    /// Appends chunk `number`, counted from 0. A chunk that was appended before is a repetition, and ignored.
    pub(crate) fn append_chunk(&mut self, number: u64, chunk: &[u8]) -> io::Result<()> {
        if number < self.chunks {
            return Ok(());
        }
        let mut at = 0;
        let mut pairs = 0;
        while let Some((key, value)) = pair(&chunk[at..]) {
            at += 8 + key.len() + value.len();
            pairs += 1;
        }
        if number > self.chunks || at != chunk.len() {
            return Err(io::Error::other("a snapshot with a gap, or a damaged chunk"));
        }
        let mut head = [0; 8];
        head[..4].copy_from_slice(&(chunk.len() as u32).to_le_bytes());
        head[4..].copy_from_slice(&crc32c::crc32c(chunk).to_le_bytes());
        self.file.write_at(&head, self.bytes)?;
        self.file.write_at(chunk, self.bytes + head.len() as u64)?;
        self.bytes += (head.len() + chunk.len()) as u64;
        self.chunks += 1;
        self.pairs += pairs;
        Ok(())
    }

    /// Ends the snapshot, which must have `pairs` pairs.
    pub(crate) fn finish(self, pairs: u64) -> io::Result<Snapshot> {
        if self.pairs != pairs {
            return Err(io::Error::other(format!("a snapshot cut short: {} of {pairs} pairs", self.pairs)));
        }
        Ok(Snapshot::Received(self.received))
    }
}

/// The chunk at `at`, which moves behind it.
fn read_chunk(spool: &dyn File, at: &mut u64) -> io::Result<Option<Vec<u8>>> {
    if *at == spool.bytes()? {
        return Ok(None);
    }
    let mut head = [0; 8];
    spool.read_at(&mut head, *at)?;
    let (len, crc) = head.split_at(4);
    let number = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_le_bytes);
    let len = number(len) as usize;
    if len > CHUNK_BYTES_MAX {
        return Err(io::Error::other("a damaged chunk"));
    }
    let mut chunk = vec![0; len];
    spool.read_at(&mut chunk, *at + head.len() as u64)?;
    *at += (head.len() + len) as u64;
    if crc32c::crc32c(&chunk) != number(crc) {
        return Err(io::Error::other("a damaged chunk"));
    }
    Ok(Some(chunk))
}

#[cfg(test)]
mod tests {
    use host::SystemFiles;
    use store::{Durability, Edit, MemoryStore};

    use super::*;

    fn files() -> Arc<dyn Files> {
        Arc::new(SystemFiles)
    }

    fn filled(pairs: u32) -> MemoryStore {
        let store = MemoryStore::new();
        let mut fill = |edit: &mut dyn Edit| {
            (0..pairs).try_for_each(|n| edit.put(&n.to_be_bytes(), &vec![n as u8; n as usize % 3000]))
        };
        store.batch(Durability::Deferred, &mut fill).unwrap();
        store
    }

    fn contents(store: &dyn Store) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut all = vec![];
        let mut visit = |key: &[u8], value: &[u8]| {
            all.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        };
        store.snapshot().unwrap().scan(&[], &[0xff; 16], &mut visit).unwrap();
        all
    }

    #[test]
    fn a_store_arrives_whole_in_place_of_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (filled(3000), MemoryStore::new());
        to.batch(Durability::Deferred, &mut |edit: &mut dyn Edit| edit.put(b"old", b"old")).unwrap();
        let mut chunks = Chunks::new(from.snapshot().unwrap().into());
        let mut spool = Spool::begin(&files(), dir.path()).unwrap();
        let mut number = 0;
        while let Some(chunk) = chunks.next_chunk().unwrap() {
            spool.append_chunk(number, &chunk).unwrap();
            spool.append_chunk(number, &chunk).unwrap(); // repeated: its answer was lost
            number += 1;
        }
        assert!(number > 5, "{number} chunks");
        spool.finish(chunks.pairs()).unwrap().install(&to, None).unwrap();
        assert_eq!(contents(&to), contents(&from));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_snapshot_cut_short_or_damaged_on_disk_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (filled(3000), filled(1));
        let mut chunks = Chunks::new(from.snapshot().unwrap().into());
        let first = chunks.next_chunk().unwrap().unwrap();
        let mut spool = Spool::begin(&files(), dir.path()).unwrap();
        assert!(spool.append_chunk(1, &first).is_err(), "a gap");
        assert!(spool.append_chunk(0, &first[..first.len() - 1]).is_err());
        spool.append_chunk(0, &first).unwrap();
        let files_there = || std::fs::read_dir(dir.path()).unwrap().count();
        let path = std::fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        let cut_short = spool.finish(3000).err().unwrap();
        assert!(cut_short.to_string().contains("cut short"), "{cut_short}");
        assert_eq!(files_there(), 0, "it takes no room any more");

        bytes[20_000] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        assert!(Snapshot::Received(Received { files: files(), path }).install(&to, None).is_err());
        assert_eq!(contents(&to), contents(&filled(1)));
        assert_eq!(files_there(), 0);
        std::fs::write(dir.path().join(format!("{SPOOL}.0")), "of a process that was killed").unwrap();
        remove_spools(&SystemFiles, dir.path()).unwrap();
        assert_eq!(files_there(), 0);
    }
}
