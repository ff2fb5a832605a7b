//! Small file, written or read in one piece.

use crate::data;
use crate::target::{Open, Target};
use crate::trouble::Trouble;

/// Creates a file and writes `bytes` of file `seed`, if not 0. `buffer` is scratch memory for reuse.
pub(super) fn create(
    target: &dyn Target,
    path: &str,
    seed: u64,
    bytes: u64,
    buffer: &mut Vec<u8>,
) -> Result<(), Trouble> {
    let failed = |what: &str, e: &_| Trouble::io(&format!("{what} {path}"), e);
    let file = target.open(path, Open::New).map_err(|e| failed("create", &e))?;
    if bytes > 0 {
        buffer.resize(bytes as usize, 0);
        data::fill(seed, 0, buffer);
        file.write_at(0, buffer).map_err(|e| failed("write", &e))?;
    }
    // NFS writes back at close, which reports a full disk.
    file.close().map_err(|e| failed("close", &e))
}

/// Reads all `bytes` of a file, and with `verify` compares them with file `seed`.
pub(super) fn read(
    target: &dyn Target,
    path: &str,
    seed: u64,
    bytes: u64,
    verify: bool,
    buffer: &mut Vec<u8>,
) -> Result<(), Trouble> {
    let failed = |what: &str, e: &_| Trouble::io(&format!("{what} {path}"), e);
    let file = target.open(path, Open::Read { direct: false }).map_err(|e| failed("open", &e))?;
    // Read one byte of an empty file, so that there is a READ.
    buffer.resize(bytes.max(1) as usize, 0);
    let length = file.read_at(0, buffer).map_err(|e| failed("read", &e))?;
    if length as u64 != bytes {
        return Err(Trouble(format!(
            "read {path}: it has {length} bytes where {bytes} were written: this file system loses data"
        )));
    }
    if verify && let Some(wrong) = data::first_wrong(seed, 0, &buffer[..length]) {
        return Err(Trouble::wrong(path, wrong));
    }
    file.close().map_err(|e| failed("close", &e))
}
