//! What an object shows, by its files alone: for those that look at a target from outside.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::{MAP_SUFFIX, Map, base_suffixes};
use crate::disk::SystemDisk;

/// The bytes that the object in the file at `path` shows: its own, and those of its bases. What was written and not synced may
/// be missing.
///
/// # Errors
/// The kernel's; `InvalidData` if its map is damaged.
pub fn shown_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let with = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        name
    };
    let mut bytes = std::fs::read(path)?;
    let file = match File::open(with(MAP_SUFFIX)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(bytes),
        file => file?,
    };
    let map = Map::read(&SystemDisk, file, bytes.len() as u64)?.ok_or(io::ErrorKind::InvalidData)?;
    let mut at = 0;
    while let Some(of_base) = map.next_of_base(at..u64::MAX, u64::MAX, None) {
        let [suffix, _] = base_suffixes(of_base.base);
        let place = of_base.range.start as usize..of_base.range.end as usize;
        File::open(with(&suffix))?.read_exact_at(&mut bytes[place], of_base.range.start)?;
        at = of_base.range.end;
    }
    Ok(bytes)
}
