//! The machine's disk: how quickly it keeps records that must be on it before the next one comes, as
//! synchronous writes have it. All servers of a lab share this disk.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use crate::{Error, Result};

/// Bytes of one request of the synchronous experiment.
const RECORD_BYTES: usize = 1 << 20;
const LONG_ENOUGH: Duration = Duration::from_secs(2);
/// It ends before its time where disks are quick.
const BYTES_MAX: u64 = 512 << 20;

/// Writes records to a file in `folder`, each on the disk before the next (`O_DSYNC`), and returns bytes a
/// second.
///
/// # Errors
/// If they cannot be written.
pub fn measure(folder: &Path) -> Result<f64> {
    let path = folder.join("disk");
    let dsync = OFlags::DSYNC.bits().cast_signed();
    let file = OpenOptions::new().write(true).create_new(true).custom_flags(dsync).open(&path);
    let mut file = file.map_err(Error::file("make", &path))?;
    let record = vec![0x5a; RECORD_BYTES];
    let (started, mut bytes) = (Instant::now(), 0);
    while bytes < BYTES_MAX && started.elapsed() < LONG_ENOUGH {
        file.write_all(&record).map_err(Error::file("write", &path))?;
        bytes += record.len() as u64;
    }
    let seconds = started.elapsed().as_secs_f64();
    std::fs::remove_file(&path).map_err(Error::file("remove", &path))?;
    Ok(bytes as f64 / seconds)
}
