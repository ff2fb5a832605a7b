//! The disk below the objects: the real one, behind a trait, so that a test can make it fail.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags, SeekFrom, StatVfs, XattrFlags};
use rustix::io::{Errno, ReadWriteFlags};

use crate::epoch::{ATTRIBUTE, MARK_BYTES};
use crate::held_dir::FILE_MODE;

/// Data or a hole, for [`Disk::seek`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The next data at or after an offset.
    Data,
    /// The next hole, or the end.
    Hole,
}

/// File I/O that can fail. The methods do what the kernel does; a test overrides the one that is to fail.
pub trait Disk: Send + Sync + 'static {
    /// Makes the file `name` in `dir`, which must not be there. The mode is for the server's user alone.
    ///
    /// # Errors
    /// The kernel's.
    fn create_file(&self, dir: &File, name: &str) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(dir, name, flags, FILE_MODE)?.into())
    }

    /// Makes the file `name` in `dir`, as [`Disk::create_file`] does, with a mark: a sync of its directory makes both
    /// durable. False: the disk cannot do so.
    ///
    /// # Errors
    /// The kernel's.
    fn create_marked(&self, _dir: &File, _name: &str, _mark: &[u8]) -> io::Result<bool> {
        Ok(false)
    }

    /// Gives the file `name` in `dir` a second name.
    ///
    /// # Errors
    /// The kernel's; also where there are no second names.
    fn link(&self, dir: &File, name: &str, second: &str) -> io::Result<()> {
        Ok(rustix::fs::linkat(dir, name, dir, second, AtFlags::empty())?)
    }

    /// Room of the file system that holds `dir`.
    ///
    /// # Errors
    /// The kernel's.
    fn statvfs(&self, dir: &File) -> io::Result<StatVfs> {
        Ok(rustix::fs::fstatvfs(dir)?)
    }

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

    /// [`Disk::read_at`] of what the kernel's cache has: it does not wait for bytes from the disk, but the kernel may begin
    /// to read what is missing. None: some of it is not there, or the disk cannot tell.
    ///
    /// # Errors
    /// The kernel's.
    fn read_cached(&self, _file: &File, _buffer: &mut [u8], _offset: u64) -> io::Result<Option<usize>> {
        Ok(None)
    }

    /// Reads from a file that was opened to be read past the kernel's cache: `buffer` and `offset` are
    /// aligned for that. Fewer bytes than `buffer` holds are read only at the end of the file.
    ///
    /// # Errors
    /// The kernel's.
    fn read_past_cache(&self, file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        loop {
            match file.read_at(buffer, offset) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    /// Writes all of `bytes`.
    ///
    /// # Errors
    /// The kernel's; some of the bytes may have been written.
    fn write_all_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        file.write_all_at(bytes, offset)
    }

    /// Writes to a file that was opened to be written past the kernel's cache: `bytes` and `offset` are aligned for that.
    /// False: the disk cannot do so.
    ///
    /// # Errors
    /// The kernel's; some of the bytes may have been written.
    fn write_past_cache(&self, _file: &File, _bytes: &[u8], _offset: u64) -> io::Result<bool> {
        Ok(false)
    }

    /// Shortens the file.
    ///
    /// # Errors
    /// The kernel's.
    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        file.set_len(len)
    }

    /// The next place of that kind at or after `offset`; none: there is no more data, or `offset` is beyond
    /// the end.
    ///
    /// # Errors
    /// The kernel's.
    fn seek(&self, file: &File, place: Place, offset: u64) -> io::Result<Option<u64>> {
        let from = match place {
            Place::Data => SeekFrom::Data(offset),
            Place::Hole => SeekFrom::Hole(offset),
        };
        // This moves the position of the file, which nothing else uses.
        match rustix::fs::seek(file, from) {
            Ok(at) => Ok(Some(at)),
            Err(Errno::NXIO) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// Reserves room for a range, and makes the file as long as it takes.
    ///
    /// # Errors
    /// The kernel's; some of the range may have been reserved.
    fn allocate(&self, file: &File, offset: u64, len: u64) -> io::Result<()> {
        Ok(rustix::fs::fallocate(file, FallocateFlags::empty(), offset, len)?)
    }

    /// Makes a range a hole; the length stays.
    ///
    /// # Errors
    /// The kernel's.
    fn punch(&self, file: &File, offset: u64, len: u64) -> io::Result<()> {
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(file, how, offset, len)?)
    }

    /// Copies at most `len` bytes within the kernel, which shares them between the files where the file
    /// system can. Fewer than that were copied, or none at the end of `from`.
    ///
    /// # Errors
    /// The kernel's; also where it cannot copy between these two.
    fn copy(
        &self,
        from: &File,
        mut from_offset: u64,
        to: &File,
        mut to_offset: u64,
        len: usize,
    ) -> io::Result<usize> {
        Ok(rustix::fs::copy_file_range(from, Some(&mut from_offset), to, Some(&mut to_offset), len)?)
    }

    /// The mark of the file: see [`crate::Epoch`]. None: it has none.
    ///
    /// # Errors
    /// The kernel's.
    fn mark(&self, file: &File) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = [0; MARK_BYTES + 1];
        match rustix::fs::fgetxattr(file, ATTRIBUTE, &mut bytes) {
            Ok(len) => Ok(Some(bytes[..len.min(bytes.len())].to_vec())),
            Err(Errno::NODATA) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// Sets the mark of the file.
    ///
    /// # Errors
    /// The kernel's.
    fn set_mark(&self, file: &File, mark: &[u8]) -> io::Result<()> {
        Ok(rustix::fs::fsetxattr(file, ATTRIBUTE, mark, XattrFlags::empty())?)
    }

    /// Makes everything on the file system that holds `dir` durable.
    ///
    /// # Errors
    /// The kernel's.
    fn sync_file_system(&self, dir: &File) -> io::Result<()> {
        Ok(rustix::fs::syncfs(dir)?)
    }

    /// Makes the file's data, length and mark durable.
    ///
    /// # Errors
    /// As [`Disk::sync_file`].
    fn sync_all(&self, file: &File) -> io::Result<()> {
        file.sync_all()
    }

    /// Makes the file's data and length durable.
    ///
    /// # Errors
    /// The kernel's. Earlier writes may be lost then, although they can still be read.
    fn sync_file(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    /// Makes the checksums of an object durable.
    ///
    /// # Errors
    /// As [`Disk::sync_file`].
    fn sync_sums(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    /// Makes the records of the change log durable.
    ///
    /// # Errors
    /// As [`Disk::sync_file`].
    fn sync_log(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    /// Makes the entries of the directory `name` in `root` durable.
    ///
    /// # Errors
    /// The kernel's.
    fn sync_dir(&self, root: &File, name: &str) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        File::from(rustix::fs::openat(root, name, flags, Mode::empty())?).sync_all()
    }
}

/// The machine's disk.
#[derive(Debug, Default)]
pub struct SystemDisk;

impl Disk for SystemDisk {
    fn read_cached(&self, file: &File, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        let mut read = 0;
        while read < buffer.len() {
            let rest = &mut [IoSliceMut::new(&mut buffer[read..])];
            match rustix::io::preadv2(file, rest, offset + read as u64, ReadWriteFlags::NOWAIT) {
                // Linux 5.9 and 5.10 also say so of bytes that are not in the cache.
                Ok(0) if file.metadata()?.len() > offset + read as u64 => return Ok(None),
                Ok(0) => break,
                Ok(n) => read += n,
                Err(Errno::INTR) => {}
                // NOSYS, OPNOTSUPP: of a kernel or a file system that cannot tell.
                Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(None),
                Err(e) => return Err(e.into()),
            }
        }
        Ok(Some(read))
    }

    fn write_past_cache(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<bool> {
        file.write_all_at(bytes, offset).map(|()| true)
    }

    /// The file has no name until it has its mark, and the directory changes last: a journal that has the name has the
    /// mark.
    fn create_marked(&self, dir: &File, name: &str, mark: &[u8]) -> io::Result<bool> {
        let parent = name.rsplit_once('/').map_or(".", |(parent, _)| parent);
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        let file: File = match rustix::fs::openat(dir, parent, flags, FILE_MODE) {
            // Of a file system, or a kernel, without files without a name.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => return Ok(false),
            opened => opened?.into(),
        };
        self.set_mark(&file, mark)?;
        let opened = format!("/proc/self/fd/{}", file.as_raw_fd());
        match rustix::fs::linkat(rustix::fs::CWD, opened, dir, name, AtFlags::SYMLINK_FOLLOW) {
            Err(Errno::NOENT | Errno::XDEV | Errno::ACCESS | Errno::PERM) => Ok(false), // no /proc
            linked => Ok(linked.map(|()| true)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_cache_has_is_read_from_it_up_to_the_end_of_the_file() {
        let file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..300_000).map(|at| (at % 251) as u8).collect();
        file.write_all_at(&bytes, 0).unwrap();
        let read = |offset: u64, len: usize| {
            let mut buffer = vec![0; len];
            let read = SystemDisk.read_cached(&file, &mut buffer, offset).unwrap();
            read.map(|read| buffer[..read].to_vec())
        };
        if let Some(first) = read(0, 1) {
            assert_eq!(first, bytes[..1]);
            assert_eq!(read(100, 200_000).unwrap(), bytes[100..200_100]);
            assert_eq!(read(250_000, 100_000).unwrap(), bytes[250_000..]);
            assert_eq!(read(300_000, 10).unwrap(), []);
            assert_eq!(read(1 << 40, 10).unwrap(), []);
        }
        // Whatever of it is still in the cache: no other bytes, and not fewer.
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        for read in [read(0, 300_000), read(100_000, 200_000)].into_iter().flatten() {
            assert!(bytes.ends_with(&read) && read.len() >= 200_000);
        }
    }
}
