//! The vote of this member: one small file, replaced whole.
//!
//! ```text
//! magic 16 · term u64 · member u64 · committed u64 · crc32c u32      little-endian
//! ```

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use crate::log::{LogError, failed};
use crate::types::{LeaderId, Vote};

const FILE: &str = "vote";
const MAGIC: &[u8; 16] = b"heorot vote 1\n\0\0";
const BYTES: usize = 16 + 24 + 4;

/// What was saved in `dir`, if anything was.
pub(crate) fn read(dir: &Path) -> Result<Option<Vote>, LogError> {
    let path = dir.join(FILE);
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed("read", &path)(e)),
    };
    decode(&bytes).map(Some).ok_or(LogError::DamagedVote(path))
}

/// On disk when this returns.
pub(crate) fn write(dir: &Path, vote: &Vote) -> Result<(), LogError> {
    let (path, temporary) = (dir.join(FILE), dir.join("vote.tmp"));
    let replace = || {
        let mut file = File::create(&temporary)?;
        file.write_all(&encode(vote))?;
        file.sync_all()?;
        std::fs::rename(&temporary, &path)?;
        File::open(dir)?.sync_all()
    };
    replace().map_err(failed("write", &path))
}

fn encode(vote: &Vote) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    for number in [vote.leader_id.term, vote.leader_id.node_id, u64::from(vote.committed)] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    let crc = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Option<Vote> {
    let (summed, crc) = bytes.split_last_chunk()?;
    if bytes.len() != BYTES || !bytes.starts_with(MAGIC) || crc32c::crc32c(summed) != u32::from_le_bytes(*crc)
    {
        return None;
    }
    let number = |n: usize| summed[16 + 8 * n..24 + 8 * n].try_into().ok().map(u64::from_le_bytes);
    let leader_id = LeaderId { term: number(0)?, node_id: number(1)? };
    Some(Vote { leader_id, committed: number(2)? == 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_vote_is_read_back_and_a_damaged_one_is_said() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(dir.path()).unwrap(), None);
        for (term, committed) in [(3, false), (4, true)] {
            let vote = Vote { leader_id: LeaderId { term, node_id: 2 }, committed };
            write(dir.path(), &vote).unwrap();
            assert_eq!(read(dir.path()).unwrap(), Some(vote));
        }
        let path = dir.path().join(FILE);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[20] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        assert!(matches!(read(dir.path()), Err(LogError::DamagedVote(_))));
    }
}
