//! What the objects ask of the disk. The real one, behind a trait, so that a test can make it fail.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// File I/O that can fail. The methods do what the kernel does; a test overrides the one that is to fail.
pub trait Disk: Send + Sync + 'static {
    /// Reads at most as many bytes as `buffer` holds; fewer only at the end of the file.
    ///
    /// # Errors
    /// The kernel's.
    fn read_at(&self, file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut read = 0;
        while read < buffer.len() {
            match file.read_at(&mut buffer[read..], offset + read as u64) {
                Ok(0) => break,
                Ok(n) => read += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(read)
    }

    /// Writes all of `bytes`.
    ///
    /// # Errors
    /// The kernel's; some of the bytes may have been written.
    fn write_all_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        file.write_all_at(bytes, offset)
    }

    /// Shortens the file.
    ///
    /// # Errors
    /// The kernel's.
    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        file.set_len(len)
    }

    /// Makes the file's data and length durable.
    ///
    /// # Errors
    /// The kernel's. What was written before may be lost then, although it can still be read.
    fn sync_file(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    /// Makes the entries of a directory durable.
    ///
    /// # Errors
    /// The kernel's.
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }
}

/// The machine's disk.
#[derive(Debug, Default)]
pub struct SystemDisk;

impl Disk for SystemDisk {}
