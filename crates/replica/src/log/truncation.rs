//! Note of a truncation in progress: written before the first record is removed, and removed after the last
//! one. After a crash the next start finishes the truncation, and does not take it for damage: records after
//! that index may be zeros or not, and for a moment the log may have no segment.
//!
//! ```text
//! magic 16 · first index that is truncated u64 · crc32c u32                          little-endian
//! magic 16 · index, term, leader of the entry that the log restarts after, u64 each · crc32c u32
//! ```

use std::io;
use std::path::Path;

use host::{Files, Opened};

use crate::log::{LogError, failed};
use crate::types::{LeaderId, LogId};

const FILE: &str = "cut";
const MAGIC: &[u8; 16] = b"heorot cut 1\n\0\0\0";

/// Entries that a truncation removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Truncation {
    /// All entries from this index on.
    From(u64),
    /// All entries: the log restarts after this entry, which a snapshot has.
    After(LogId),
}

/// The truncation in progress in `dir`, or None.
pub(crate) fn read_note(files: &dyn Files, dir: &Path) -> Result<Option<Truncation>, LogError> {
    let path = dir.join(FILE);
    let read = || {
        let file = files.open(&path, Opened::Read)?;
        let mut bytes = vec![0; file.bytes()? as usize];
        file.read_at(&mut bytes, 0).map(|()| bytes)
    };
    match read() {
        Ok(bytes) => decode(&bytes).map(Some).ok_or(LogError::Damaged { path, index: 0 }),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(failed("read", &path)(e)),
    }
}

/// Writes the note; it is on disk when this returns.
pub(crate) fn write_note(files: &dyn Files, dir: &Path, truncation: Truncation) -> Result<(), LogError> {
    let path = dir.join(FILE);
    host::replace(files, &path, &encode(truncation)).map_err(failed("write", &path))
}

/// Removes the note; on disk when this returns, since entries appended later must survive the next start.
pub(crate) fn remove_note(files: &dyn Files, dir: &Path) -> Result<(), LogError> {
    let path = dir.join(FILE);
    files.remove(&path).and_then(|()| files.sync_dir(dir)).map_err(failed("remove", &path))
}

fn encode(truncation: Truncation) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    match truncation {
        Truncation::From(first) => bytes.extend_from_slice(&first.to_le_bytes()),
        Truncation::After(LogId { leader_id, index }) => {
            for number in [index, leader_id.term, leader_id.node_id] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
        }
    }
    let crc = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Option<Truncation> {
    let (summed, crc) = bytes.split_last_chunk()?;
    let (numbers, rest) = summed.strip_prefix(MAGIC)?.as_chunks::<8>();
    (rest.is_empty() && crc32c::crc32c(summed) == u32::from_le_bytes(*crc)).then_some(())?;
    match numbers {
        [first] => Some(Truncation::From(u64::from_le_bytes(*first))),
        [index, term, leader] => {
            let [index, term, node_id] = [index, term, leader].map(|number| u64::from_le_bytes(*number));
            Some(Truncation::After(LogId { leader_id: LeaderId { term, node_id }, index }))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_truncation_note_is_read_back_and_a_damaged_one_is_none() {
        let after = LogId { leader_id: LeaderId { term: 7, node_id: 3 }, index: 41 };
        for truncation in [Truncation::From(0), Truncation::From(u64::MAX), Truncation::After(after)] {
            let mut note = encode(truncation);
            assert_eq!(decode(&note), Some(truncation));
            assert_eq!(decode(&note[..note.len() - 1]), None);
            note[20] ^= 1;
            assert_eq!(decode(&note), None);
        }
    }
}
