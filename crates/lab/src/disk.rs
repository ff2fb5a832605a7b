//! Speed of the machine's disk for synchronous writes: each record is durable before the next one. All
//! servers of a lab share this disk.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use crate::{Error, Result};

/// Bytes of one write in the synchronous experiment.
const RECORD_BYTES: usize = 1 << 20;
const LONG_ENOUGH: Duration = Duration::from_secs(2);
/// Bytes after which the measurement ends early on a fast disk.
const BYTES_MAX: u64 = 512 << 20;

/// Writes records to a file in `folder`, each durable before the next (`O_DSYNC`), and returns bytes a
/// second.
///
/// # Errors
/// When a write fails.
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
