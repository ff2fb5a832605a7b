//! The vote of this member: one small file, replaced whole.
//!
//! ```text
//! magic 16 · term u64 · member u64 · committed u64 · crc32c u32      little-endian
//! ```

use std::io;
use std::path::Path;

use host::{Files, Opened};

use crate::log::{LogError, failed};
use crate::types::{LeaderId, Vote};

const FILE: &str = "vote";
const MAGIC: &[u8; 16] = b"heorot vote 1\n\0\0";
const BYTES: usize = 16 + 24 + 4;

/// What was saved in `dir`, if anything was.
pub(crate) fn read(files: &dyn Files, dir: &Path) -> Result<Option<Vote>, LogError> {
    let path = dir.join(FILE);
    let read = || {
        let file = files.open(&path, Opened::Read)?;
        let mut bytes = vec![0; file.bytes()? as usize];
        file.read_at(&mut bytes, 0).map(|()| bytes)
    };
    match read() {
        Ok(bytes) => decode(&bytes).map(Some).ok_or(LogError::DamagedVote(path)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(failed("read", &path)(e)),
    }
}

/// On disk when this returns.
pub(crate) fn write(files: &dyn Files, dir: &Path, vote: &Vote) -> Result<(), LogError> {
    let (path, temporary) = (dir.join(FILE), dir.join("vote.tmp"));
    let replace = || {
        let file = files.open(&temporary, Opened::New)?;
        file.write_at(&encode(vote), 0)?;
        file.sync()?;
        files.rename(&temporary, &path)?;
        files.sync_dir(dir)
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
    use host::SystemFiles;

    use super::*;

    #[test]
    fn the_last_vote_is_read_back_and_a_damaged_one_is_said() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(&SystemFiles, dir.path()).unwrap(), None);
        for (term, committed) in [(3, false), (4, true)] {
            let vote = Vote { leader_id: LeaderId { term, node_id: 2 }, committed };
            write(&SystemFiles, dir.path(), &vote).unwrap();
            assert_eq!(read(&SystemFiles, dir.path()).unwrap(), Some(vote));
        }
        let path = dir.path().join(FILE);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[20] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        assert!(matches!(read(&SystemFiles, dir.path()), Err(LogError::DamagedVote(_))));
    }
}
