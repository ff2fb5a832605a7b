//! NFS server without a mount, by nfs-rs.
//!
//! Without a kernel in between there is no cache, readahead or write-behind, so every result is that of
//! server and network. Each worker is a client of its own, with its own connection (and, in v4, its own
//! session). A record is split into pieces of the server's maximal size, and up to [`REQUESTS_MAX`] of them
//! are in flight together. Writes are UNSTABLE, and [`OpenFile::sync`] commits them, at the data servers with
//! pNFS.
//!
//! Limits of nfs-rs 0.11: no guarded creation (see [`Open::New`] below), and no two opens of one file by one
//! client.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use nfs_rs::{Mount, NfsError, OPEN_READ, ObjRes, WriteOutcome};
use parking_lot::Mutex;
use tokio::runtime::Runtime;

use super::nfs_address::NfsAddress;
use super::{Attributes, Open, OpenFile, Target};
use crate::trouble::Trouble;

/// Pieces of one record in flight, as in nfs-rs itself: enough for a stripe of eight data servers.
const REQUESTS_MAX: usize = 8;
/// Time limit of a connect.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(30);
/// Time limit of an unmount, which is optional.
const UNMOUNT_TIME_MAX: Duration = Duration::from_secs(5);
/// Maximal number of uncommitted writes, of about 100 bytes each; at the limit they are committed.
const UNCOMMITTED_MAX: usize = 1 << 16;
/// Type number of a directory in `fattr3` and `fattr4`.
const DIRECTORY: u32 = 2;

/// Client of a server.
pub struct NfsServer {
    address: NfsAddress,
    client: Client,
    /// Cache of directory handles, as in a kernel: otherwise each operation would look up its whole path
    /// again.
    dirs: Mutex<HashMap<String, Bytes>>,
}

#[derive(Clone)]
struct Client {
    /// Runtime with threads of its own: it renews leases and returns layouts also while no worker waits for
    /// an answer.
    runtime: Arc<Runtime>,
    mount: Arc<dyn Mount>,
    /// Bytes read by all clients of this process.
    read_bytes: Arc<AtomicU64>,
}

impl NfsServer {
    /// Connects.
    ///
    /// # Errors
    /// One line with the address.
    pub fn connect(address: NfsAddress) -> Result<Self, Trouble> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("nfs").build();
        let runtime = runtime.map_err(|e| Trouble::io("start threads", &e))?;
        Self::client(address, Arc::new(runtime), Arc::default()).map_err(|e| Trouble(e.to_string()))
    }

    fn client(address: NfsAddress, runtime: Arc<Runtime>, read_bytes: Arc<AtomicU64>) -> io::Result<Self> {
        let failed = |why: &dyn std::fmt::Display| {
            let what = "is an NFS server there, and may this machine mount that path?";
            io::Error::other(format!("mount {address}: {why}: {what}"))
        };
        let mount = runtime.block_on(async {
            tokio::time::timeout(CONNECT_TIME_MAX, nfs_rs::parse_url_and_mount(address.url())).await
        });
        let mount = mount.map_err(|_| failed(&format!("no answer for {} s", CONNECT_TIME_MAX.as_secs())))?;
        let mount: Arc<dyn Mount> = Arc::from(mount.map_err(|e| failed(&e))?);
        Ok(Self { address, client: Client { runtime, mount, read_bytes }, dirs: Mutex::default() })
    }

    /// Handle of a directory; `""` is the root.
    async fn dir(&self, path: &str) -> nfs_rs::Result<Bytes> {
        let mount = &self.client.mount;
        if path.is_empty() {
            return Ok(mount.getfh().await);
        }
        let kept = self.dirs.lock().get(path).cloned();
        if let Some(handle) = kept {
            return Ok(handle);
        }
        let handle = mount.lookup_path(path).await?.fh;
        self.dirs.lock().insert(path.to_owned(), handle.clone());
        Ok(handle)
    }

    /// Drops stale directory handles, as a kernel does; true: retry once.
    fn forget(&self, error: &NfsError) -> bool {
        let stale = matches!(code(error).as_deref(), Some("STALE" | "FHEXPIRED"));
        if stale {
            self.dirs.lock().clear();
        }
        stale
    }

    /// Runs an operation, with a retry after stale directory handles.
    fn wait<T>(&self, does: impl AsyncFn() -> nfs_rs::Result<T>) -> io::Result<T> {
        let outcome = self.client.runtime.block_on(async {
            match does().await {
                Err(error) if self.forget(&error) => does().await,
                outcome => outcome,
            }
        });
        outcome.map_err(said)
    }
}

impl Target for NfsServer {
    fn describe(&self) -> String {
        format!("{}: NFS {} by nfs-rs, without a mount", self.address, self.address.version())
    }

    fn free_bytes(&self) -> Option<u64> {
        let stat = self.client.runtime.block_on(self.client.mount.fsstat()).ok()?;
        Some(stat.abytes)
    }

    /// All bytes read, since there is no cache.
    fn fetched_bytes(&self) -> Option<u64> {
        Some(self.client.read_bytes.load(Ordering::Relaxed))
    }

    /// False: a kernel would cache the directory handles in its mount, too.
    fn has_caches(&self) -> bool {
        false
    }

    fn forget_names(&self) -> io::Result<()> {
        Ok(())
    }

    fn for_worker(&self) -> io::Result<Option<Arc<dyn Target>>> {
        let Client { runtime, read_bytes, .. } = self.client.clone();
        Ok(Some(Arc::new(Self::client(self.address.clone(), runtime, read_bytes)?)))
    }

    /// [`Open::New`] does not detect an existing empty file: nfs-rs has no GUARDED4, and a LOOKUP before
    /// would be measured too.
    fn open(&self, path: &str, open: Open) -> io::Result<Box<dyn OpenFile>> {
        let (dir, name) = split(path);
        let mount = &self.client.mount;
        let found: ObjRes = self.wait(async || {
            let dir = self.dir(dir).await?;
            match open {
                Open::Read { .. } => mount.open(dir, name, OPEN_READ).await,
                // No truncation. No mode: nfs-rs would send it in a separate SETATTR.
                Open::Write { .. } | Open::New => mount.create(dir, name, None).await,
            }
        })?;
        let client = self.client.clone();
        let file = NfsFile { client, handle: Some(found.fh), uncommitted: RefCell::default() };
        if open == Open::New && found.attr.is_some_and(|attr| attr.filesize > 0) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        Ok(Box::new(file))
    }

    fn stat(&self, path: &str) -> io::Result<Attributes> {
        let (dir, name) = split(path);
        let mount = &self.client.mount;
        let attributes = self.wait(async || {
            let dir = self.dir(dir).await?;
            if name.is_empty() {
                return mount.getattr(dir).await;
            }
            let found = mount.lookup(dir, name).await?;
            match found.attr {
                Some(attributes) => Ok(attributes),
                None => mount.getattr(found.fh).await,
            }
        })?;
        Ok(Attributes { bytes: attributes.filesize, changed: i64::from(attributes.ctime.seconds) })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let ((from_dir, from), (to_dir, to)) = (split(from), split(to));
        self.wait(async || {
            let (from_dir, to_dir) = (self.dir(from_dir).await?, self.dir(to_dir).await?);
            self.client.mount.rename(from_dir, from, to_dir, to).await
        })
    }

    fn unlink(&self, path: &str) -> io::Result<()> {
        let (dir, name) = split(path);
        self.wait(async || self.client.mount.remove(self.dir(dir).await?, name).await)
    }

    fn mkdir(&self, path: &str) -> io::Result<()> {
        let (dir, name) = split(path);
        self.wait(async || self.client.mount.mkdir(self.dir(dir).await?, name, 0o755).await.map(drop))
    }

    fn rmdir(&self, path: &str) -> io::Result<()> {
        let (dir, name) = split(path);
        self.wait(async || self.client.mount.rmdir(self.dir(dir).await?, name).await)
    }

    fn list(&self, path: &str, each: &mut dyn FnMut(&str, bool)) -> io::Result<()> {
        let dir = self.wait(async || self.dir(path).await)?;
        let outcome = self.client.runtime.block_on(async {
            let mut entries = self.client.mount.readdirplus(dir).await;
            while let Some(entry) = entries.try_next().await? {
                if entry.file_name != "." && entry.file_name != ".." {
                    let is_dir = entry.attr.is_some_and(|attributes| attributes.type_ == DIRECTORY);
                    each(&entry.file_name, is_dir);
                }
            }
            Ok(())
        });
        outcome.map_err(said)
    }
}

impl Drop for NfsServer {
    fn drop(&mut self) {
        let unmount = self.client.mount.umount();
        let _ = self.client.runtime.block_on(async { tokio::time::timeout(UNMOUNT_TIME_MAX, unmount).await });
    }
}

struct NfsFile {
    client: Client,
    /// Handle; none after the close.
    handle: Option<Bytes>,
    uncommitted: RefCell<Vec<WriteOutcome>>,
}

impl NfsFile {
    fn handle(&self) -> Bytes {
        self.handle.clone().unwrap_or_default()
    }

    async fn commit(&self) -> nfs_rs::Result<()> {
        let writes = self.uncommitted.take();
        if writes.is_empty() {
            return Ok(());
        }
        self.client.mount.commit_write_batch(self.handle(), 0, 0, &writes).await
    }

    async fn close(&mut self) -> nfs_rs::Result<()> {
        let committed = self.commit().await;
        let Some(handle) = self.handle.take() else { return committed };
        committed.and(self.client.mount.close(handle).await)
    }

    /// Reads one piece, up to the end of the file.
    async fn read_piece(&self, offset: u64, into: &mut [u8]) -> nfs_rs::Result<usize> {
        let mut done = 0;
        while done < into.len() {
            let count = u32::try_from(into.len() - done).unwrap_or(u32::MAX);
            let data = self.client.mount.read(self.handle(), offset + done as u64, count).await?;
            let Some(place) = into.get_mut(done..done + data.len()) else {
                return Err(NfsError::Rpc("the server sent more than was asked for".into()));
            };
            if data.is_empty() {
                break;
            }
            place.copy_from_slice(&data);
            done += data.len();
            self.client.read_bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
        }
        Ok(done)
    }

    /// Writes one whole piece.
    async fn write_piece(&self, offset: u64, data: Bytes) -> nfs_rs::Result<()> {
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let outcome = self.client.mount.write(self.handle(), at, data.slice(done..)).await?;
            let count = outcome.count as usize;
            if count == 0 || count > data.len() - done {
                return Err(NfsError::Rpc(format!(
                    "the server says that it wrote {count} of {} bytes",
                    data.len() - done
                )));
            }
            done += count;
            self.uncommitted.borrow_mut().push(outcome);
        }
        Ok(())
    }
}

impl OpenFile for NfsFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let piece_bytes = self.client.mount.get_max_read_size().max(1) as usize;
        let wanted = into.len();
        let outcome = self.client.runtime.block_on(async {
            let pieces = into.chunks_mut(piece_bytes).enumerate().map(|(i, piece)| async move {
                let length = piece.len();
                let got = self.read_piece(offset + (i * piece_bytes) as u64, piece).await?;
                nfs_rs::Result::Ok((length, got))
            });
            let mut pieces = stream::iter(pieces).buffered(REQUESTS_MAX);
            let mut done = 0;
            // In the order of offsets: data after a short piece are after the end.
            while let Some((length, got)) = pieces.try_next().await? {
                done += got;
                if got < length {
                    break;
                }
            }
            Ok(done)
        });
        outcome.map_err(said).inspect(|done| debug_assert!(*done <= wanted))
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let piece_bytes = self.client.mount.get_max_write_size().max(1) as usize;
        let outcome = self.client.runtime.block_on(async {
            let pieces = data.chunks(piece_bytes).enumerate().map(|(i, piece)| {
                Ok(self.write_piece(offset + (i * piece_bytes) as u64, Bytes::copy_from_slice(piece)))
            });
            stream::iter(pieces).try_buffer_unordered(REQUESTS_MAX).try_collect::<()>().await?;
            if self.uncommitted.borrow().len() >= UNCOMMITTED_MAX {
                self.commit().await?;
            }
            Ok(())
        });
        outcome.map_err(said)
    }

    fn sync(&self) -> io::Result<()> {
        self.client.runtime.block_on(self.commit()).map_err(said)
    }

    /// No effect: there is no cache.
    fn forget(&self) -> io::Result<()> {
        Ok(())
    }

    /// Commits first, as a kernel does, for close-to-open consistency.
    fn close(mut self: Box<Self>) -> io::Result<()> {
        let runtime = Arc::clone(&self.client.runtime);
        runtime.block_on(NfsFile::close(&mut self)).map_err(said)
    }
}

impl Drop for NfsFile {
    fn drop(&mut self) {
        if self.handle.is_some() {
            let runtime = Arc::clone(&self.client.runtime);
            let _ = runtime.block_on(NfsFile::close(self));
        }
    }
}

/// Splits a path into directory and name.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// Error name of the protocol, in v4's form, without the prefix.
fn code(error: &NfsError) -> Option<String> {
    let name = match error {
        NfsError::Nfs3(code) => format!("{code:?}"),
        NfsError::Nfs4(code) => format!("{code:?}"),
        _ => return None,
    };
    Some(name.trim_start_matches("NFS3ERR_").trim_start_matches("NFS4ERR_").to_owned())
}

/// Converts to [`io::Error`], so that workers handle all targets alike.
fn said(error: NfsError) -> io::Error {
    let kind = match code(&error).as_deref() {
        Some("NOENT") => io::ErrorKind::NotFound,
        Some("EXIST") => io::ErrorKind::AlreadyExists,
        Some("ACCES" | "ACCESS" | "PERM") => io::ErrorKind::PermissionDenied,
        Some("NOSPC") => io::ErrorKind::StorageFull,
        Some("DQUOT") => io::ErrorKind::QuotaExceeded,
        Some("ROFS") => io::ErrorKind::ReadOnlyFilesystem,
        Some("NOTDIR") => io::ErrorKind::NotADirectory,
        Some("ISDIR") => io::ErrorKind::IsADirectory,
        Some("NOTEMPTY") => io::ErrorKind::DirectoryNotEmpty,
        Some("STALE" | "FHEXPIRED") => io::ErrorKind::StaleNetworkFileHandle,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error.to_string())
}
