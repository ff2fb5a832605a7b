//! Backup: the whole store as a file, without the records of consensus.
//!
//! ```text
//! head   ┌ "heorot backup 1\n" ┬ length u32 ┬ crc32c u32 ┬ BackupHead, postcard ┐
//! chunk  ┌ length u32 ┬ crc32c u32 ┬ pairs, as in a snapshot's chunk ┐ …
//! end    ┌ 0 u32 ┬ BLAKE3 of all before it, 32 bytes ┐              numbers are little-endian
//! ```
//!
//! The number in the first line is the version of the format. A truncated file has no end; an altered one has
//! a wrong hash.

use std::io::{self, Read};

use serde::{Deserialize, Serialize};
use store::{StoreError, View};

use crate::state::records;
use crate::state::snapshot::{Chunks, pairs_of_chunk};

const FIRST_LINE: &[u8; 16] = b"heorot backup 1\n";
/// Largest head.
const HEAD_BYTES_MAX: usize = 4096;
/// Largest chunk: one with the largest pair at its end.
const CHUNK_BYTES_MAX: usize = crate::state::snapshot::CHUNK_BYTES_MAX;
/// First tag of the replica's own records.
const OWN_TAGS: u8 = 0x80;

/// Head of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupHead {
    /// Id of the cluster.
    pub cluster: [u8; 16],
    /// Time of the backup, in seconds since 1970.
    pub seconds: i64,
    /// Index after the last entry of the log that the backup has.
    pub applied: u64,
    /// Version of the program that took the backup.
    pub version: String,
}

/// Reason that a file cannot be restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The file is no backup, or one of a later version.
    #[error("it is no backup that this version of heorot knows")]
    Unknown,
    /// The file ends before the end of the backup.
    #[error("it is cut short: take another backup, or copy it again")]
    CutShort,
    /// A checksum is wrong.
    #[error("it is damaged: take another backup, or copy it again")]
    Damaged,
    /// The file cannot be read.
    #[error("{0}")]
    Io(io::Error),
}

impl From<io::Error> for BackupError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::UnexpectedEof { Self::CutShort } else { Self::Io(error) }
    }
}

/// Writer of a backup, piece by piece.
pub struct Backup {
    head: Option<BackupHead>,
    chunks: Option<Chunks>,
    hash: blake3::Hasher,
}

impl Backup {
    /// A backup of `view`, which does not change.
    #[must_use]
    pub fn new(view: std::sync::Arc<dyn View + Send + Sync>, head: BackupHead) -> Self {
        Self { head: Some(head), chunks: Some(Chunks::below(view, OWN_TAGS)), hash: blake3::Hasher::new() }
    }

    /// A backup of a replica's view: of the cluster with this id, taken at this time in seconds since 1970.
    ///
    /// # Errors
    /// [`StoreError`] when the view cannot be read.
    pub fn taken(
        view: std::sync::Arc<dyn View + Send + Sync>,
        cluster: [u8; 16],
        seconds: i64,
        version: &str,
    ) -> Result<Self, StoreError> {
        let head =
            BackupHead { cluster, seconds, applied: records::applied_next(&*view)?, version: version.into() };
        Ok(Self::new(view, head))
    }

    /// Returns the next piece; None after the end.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn next_piece(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        let mut piece = Vec::new();
        if let Some(head) = self.head.take() {
            piece.extend_from_slice(FIRST_LINE);
            let head =
                postcard::to_stdvec(&head).map_err(|e| StoreError::failed("encode a backup's head", e))?;
            put(&mut piece, &head);
        } else if let Some(chunks) = &mut self.chunks {
            match chunks.next_chunk()? {
                Some(chunk) => put(&mut piece, &chunk),
                None => {
                    self.chunks = None;
                    piece.extend_from_slice(&0u32.to_le_bytes());
                    self.hash.update(&piece);
                    piece.extend_from_slice(self.hash.finalize().as_bytes());
                    return Ok(Some(piece));
                }
            }
        } else {
            return Ok(None);
        }
        self.hash.update(&piece);
        Ok(Some(piece))
    }
}

fn put(piece: &mut Vec<u8>, bytes: &[u8]) {
    piece.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    piece.extend_from_slice(&crc32c::crc32c(bytes).to_le_bytes());
    piece.extend_from_slice(bytes);
}

/// Reader of a backup.
pub struct BackupReader<R> {
    from: R,
    hash: blake3::Hasher,
    ended: bool,
}

impl<R: Read> BackupReader<R> {
    /// Opens a backup and reads its head.
    ///
    /// # Errors
    /// [`BackupError`].
    pub fn open(from: R) -> Result<(Self, BackupHead), BackupError> {
        let mut reader = Self { from, hash: blake3::Hasher::new(), ended: false };
        let mut line = [0; FIRST_LINE.len()];
        reader.read(&mut line)?;
        if line != *FIRST_LINE {
            return Err(BackupError::Unknown);
        }
        let length = reader.length()?;
        let head = reader.checked(length, HEAD_BYTES_MAX)?;
        Ok((reader, postcard::from_bytes(&head).map_err(|_| BackupError::Damaged)?))
    }

    fn read(&mut self, bytes: &mut [u8]) -> Result<(), BackupError> {
        self.from.read_exact(bytes)?;
        self.hash.update(bytes);
        Ok(())
    }

    fn length(&mut self) -> Result<usize, BackupError> {
        let mut length = [0; 4];
        self.read(&mut length)?;
        Ok(u32::from_le_bytes(length) as usize)
    }

    fn checked(&mut self, length: usize, max: usize) -> Result<Vec<u8>, BackupError> {
        let mut crc = [0; 4];
        self.read(&mut crc)?;
        if length > max {
            return Err(BackupError::Damaged);
        }
        let mut bytes = vec![0; length];
        self.read(&mut bytes)?;
        if crc32c::crc32c(&bytes) == u32::from_le_bytes(crc) { Ok(bytes) } else { Err(BackupError::Damaged) }
    }

    /// Returns the next chunk; None at the end, whose hash is right.
    fn chunk(&mut self) -> Result<Option<Vec<u8>>, BackupError> {
        if self.ended {
            return Ok(None);
        }
        let length = self.length()?;
        if length > 0 {
            return self.checked(length, CHUNK_BYTES_MAX).map(Some);
        }
        let expected = self.hash.finalize();
        let mut found = [0; 32];
        self.from.read_exact(&mut found)?;
        if expected != found || self.from.read(&mut [0])? != 0 {
            return Err(BackupError::Damaged);
        }
        self.ended = true;
        Ok(None)
    }

    /// Reads the backup to its end, and returns the number of pairs.
    ///
    /// # Errors
    /// [`BackupError`].
    pub fn check(mut self) -> Result<u64, BackupError> {
        let mut pairs = 0;
        while let Some(chunk) = self.chunk()? {
            for pair in pairs_of_chunk(Ok(chunk)) {
                pair.map_err(|_| BackupError::Damaged)?;
                pairs += 1;
            }
        }
        Ok(pairs)
    }

    /// All keys and values, for [`store::Store::replace`]; the last item is an error if the backup is not
    /// whole.
    pub fn pairs(mut self) -> impl Iterator<Item = Result<(Vec<u8>, Vec<u8>), StoreError>> {
        let failed = |e: BackupError| StoreError::failed("read a backup", e);
        let mut broken = false;
        let chunks = std::iter::from_fn(move || {
            if broken {
                return None;
            }
            let chunk = self.chunk().map_err(failed).transpose();
            broken = matches!(chunk, Some(Err(_)));
            chunk
        });
        chunks.flat_map(pairs_of_chunk)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use store::{Durability, Edit, MemoryStore, Store};

    use super::*;

    fn filled() -> MemoryStore {
        let store = MemoryStore::new();
        let mut fill = |edit: &mut dyn Edit| {
            edit.put(b"\xffapplied", b"the replica's own")?;
            (0..1000u32).try_for_each(|n| edit.put(&n.to_be_bytes(), &vec![n as u8; n as usize % 3000]))
        };
        store.batch(Durability::Deferred, &mut fill).unwrap();
        store
    }

    fn head() -> BackupHead {
        BackupHead { cluster: [7; 16], seconds: 1_800_000_000, applied: 99, version: "0.1.0".into() }
    }

    fn backup(store: &dyn Store) -> Vec<u8> {
        let mut backup = Backup::new(Arc::from(store.snapshot().unwrap()), head());
        let mut bytes = vec![];
        while let Some(piece) = backup.next_piece().unwrap() {
            bytes.extend(piece);
        }
        bytes
    }

    #[test]
    fn all_but_what_consensus_keeps_is_restored() {
        let bytes = backup(&filled());
        let (reader, found) = BackupReader::open(&bytes[..]).unwrap();
        assert_eq!(found, head());
        let pairs: Vec<_> = reader.pairs().map(Result::unwrap).collect();
        assert_eq!(pairs.len(), 1000);
        assert!(pairs.iter().zip(0u32..).all(|((key, value), n)| {
            *key == n.to_be_bytes() && *value == vec![n as u8; n as usize % 3000]
        }));
        assert_eq!(BackupReader::open(&bytes[..]).unwrap().0.check().unwrap(), 1000);
    }

    #[test]
    fn what_is_cut_short_or_altered_anywhere_is_refused_and_changes_nothing() {
        let bytes = backup(&filled());
        let check = |bytes: &[u8]| BackupReader::open(bytes).and_then(|(reader, _)| reader.check());
        for cut in (0..bytes.len()).step_by(997).chain([bytes.len() - 1]) {
            assert!(matches!(check(&bytes[..cut]), Err(BackupError::CutShort)), "cut to {cut} bytes");
        }
        for at in (0..bytes.len()).step_by(499).chain([bytes.len() - 1]) {
            let mut altered = bytes.clone();
            altered[at] ^= 4;
            assert!(check(&altered).is_err(), "byte {at} altered");
        }
        assert!(check(&[&bytes[..], b"more"].concat()).is_err());
        assert!(matches!(check(b"heorot backup 2\n and more"), Err(BackupError::Unknown)));

        let target = MemoryStore::new();
        target.batch(Durability::Deferred, &mut |edit: &mut dyn Edit| edit.put(b"old", b"old")).unwrap();
        let (reader, _) = BackupReader::open(&bytes[..bytes.len() - 1]).unwrap();
        assert!(target.replace(&mut reader.pairs()).is_err());
        assert_eq!(target.snapshot().unwrap().get(b"old").unwrap().unwrap(), b"old");
    }
}
