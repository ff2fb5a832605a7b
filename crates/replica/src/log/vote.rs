//! Vote of this member: one small file with two copies, written in place one after the other, so that it
//! needs no space that a full disk would not have. A member that cannot write its vote can neither vote nor
//! follow.
//!
//! ```text
//! at 0 and at 4096: magic 16 · term u64 · member u64 · committed u64 · crc32c u32      little-endian
//! ```
//!
//! A crash tears at most one copy. If it tears the first, that vote was not sent yet: the second copy counts.

use std::io;
use std::path::Path;

use host::{File, Files, Opened};

use crate::log::{LogError, failed};
use crate::types::{LeaderId, Vote};

const FILE: &str = "vote";
const MAGIC: &[u8; 16] = b"heorot vote 2\n\0\0";
const BYTES: usize = 16 + 24 + 4;
/// Offsets of the copies, each in a block of its own.
const COPIES_AT: [u64; 2] = [0, 4096];

/// Vote that was saved in `dir`, if any.
pub(crate) fn read(files: &dyn Files, dir: &Path) -> Result<Option<Vote>, LogError> {
    let path = dir.join(FILE);
    let file = match files.open(&path, Opened::Read) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed("read", &path)(e)),
    };
    let copy = |at| {
        let mut bytes = [0; BYTES];
        match file.read_at(&mut bytes, at) {
            Ok(()) => Ok(decode(&bytes)),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(e) => Err(failed("read", &path)(e)),
        }
    };
    let [first, second] = COPIES_AT.map(copy);
    first?.or(second?).map(Some).ok_or(LogError::DamagedVote(path))
}

/// Saves the vote; it is on disk when this returns.
pub(crate) fn write(files: &dyn Files, dir: &Path, vote: &Vote) -> Result<(), LogError> {
    let path = dir.join(FILE);
    let save = |file: &dyn File| {
        COPIES_AT.iter().try_for_each(|at| {
            file.write_at(&encode(vote), *at)?;
            file.sync()
        })
    };
    let replace = || match files.open(&path, Opened::Write) {
        Ok(file) => save(&*file),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let temporary = host::temporary(&path);
            save(&*files.open(&temporary, Opened::New)?)?;
            host::put_in_place(files, &temporary, &path)
        }
        Err(e) => Err(e),
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
        let whole = std::fs::read(&path).unwrap();
        let damage = |at: &[usize]| {
            let mut bytes = whole.clone();
            at.iter().for_each(|at| bytes[*at] ^= 1);
            std::fs::write(&path, bytes).unwrap();
            read(&SystemFiles, dir.path())
        };
        let last = damage(&[]).unwrap();
        assert_eq!(damage(&[20]).unwrap(), last);
        assert_eq!(damage(&[4096 + 20]).unwrap(), last);
        assert!(matches!(damage(&[20, 4096 + 20]), Err(LogError::DamagedVote(_))));
        std::fs::write(&path, &whole[..BYTES - 1]).unwrap();
        assert!(matches!(read(&SystemFiles, dir.path()), Err(LogError::DamagedVote(_))));
    }

    #[test]
    fn a_vote_that_was_torn_leaves_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        let vote = |term| Vote { leader_id: LeaderId { term, node_id: 2 }, committed: false };
        write(&SystemFiles, dir.path(), &vote(3)).unwrap();
        let path = dir.path().join(FILE);
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.write_at(&encode(&vote(4))[..20], 0).unwrap();
        assert_eq!(read(&SystemFiles, dir.path()).unwrap(), Some(vote(3)));
        file.write_at(&encode(&vote(4)), 0).unwrap();
        assert_eq!(read(&SystemFiles, dir.path()).unwrap(), Some(vote(4)));
    }

    #[test]
    fn a_vote_that_a_killed_process_was_writing_is_in_both_copies_before_anybody_acts_on_it() {
        let dir = tempfile::tempdir().unwrap();
        let vote = |term| Vote { leader_id: LeaderId { term, node_id: 2 }, committed: false };
        write(&SystemFiles, dir.path(), &vote(3)).unwrap();
        let path = dir.path().join(FILE);
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.write_at(&encode(&vote(4)), COPIES_AT[0]).unwrap();
        crate::log::Log::open(
            &crate::environment::Environment::default(),
            dir.path(),
            crate::log::StoreState::default(),
        )
        .unwrap();
        file.write_at(&encode(&vote(5))[..20], COPIES_AT[0]).unwrap();
        assert_eq!(read(&SystemFiles, dir.path()).unwrap(), Some(vote(4)), "the next one is torn");
    }
}
