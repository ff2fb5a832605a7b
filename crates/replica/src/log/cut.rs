//! A cut of the log that is under way: noted before the first record goes, and gone when the last one is. What a crash in
//! between leaves is cut again, and not taken for damage: behind the cut some records may be zeros and others not.
//!
//! ```text
//! magic 16 · first index that is cut away u64 · crc32c u32      little-endian
//! ```

use std::io;
use std::path::Path;

use host::{Files, Opened};

use crate::log::{LogError, failed};

const FILE: &str = "cut";
const MAGIC: &[u8; 16] = b"heorot cut 1\n\0\0\0";

/// The first index that a cut in `dir` takes away, if one is under way.
pub(crate) fn under_way(files: &dyn Files, dir: &Path) -> Result<Option<u64>, LogError> {
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

/// Notes that what is at `first` and after it goes; on disk when this returns.
pub(crate) fn begin(files: &dyn Files, dir: &Path, first: u64) -> Result<(), LogError> {
    let (path, temporary) = (dir.join(FILE), dir.join("cut.tmp"));
    let note = || {
        let file = files.open(&temporary, Opened::New)?;
        file.write_at(&encode(first), 0)?;
        file.sync()?;
        files.rename(&temporary, &path)?;
        files.sync_dir(dir)
    };
    note().map_err(failed("write", &path))
}

/// It is gone. On disk when this returns: what is appended from now on must not be cut at the next start.
pub(crate) fn done(files: &dyn Files, dir: &Path) -> Result<(), LogError> {
    let path = dir.join(FILE);
    files.remove(&path).and_then(|()| files.sync_dir(dir)).map_err(failed("remove", &path))
}

fn encode(first: u64) -> Vec<u8> {
    let mut bytes = [&MAGIC[..], &first.to_le_bytes()].concat();
    let crc = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Option<u64> {
    let (summed, crc) = bytes.split_last_chunk()?;
    let number = summed.strip_prefix(MAGIC)?;
    (crc32c::crc32c(summed) == u32::from_le_bytes(*crc)).then_some(())?;
    Some(u64::from_le_bytes(number.try_into().ok()?))
}
