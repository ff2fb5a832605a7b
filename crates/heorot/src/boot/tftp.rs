//! TFTP (RFC 1350) for the first file that firmware loads: what is in /boot/loaders, to read.
//!
//! The files are kept in memory, so that no request waits for anything, and they are answered without a quorum, too.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use async_tftp::packet;
use async_tftp::server::{Handler, TftpServerBuilder};
use bytes::Bytes;
use futures_util::io::{AsyncRead, Cursor, Sink};
use host::Repeated;
use metaserver::Metaserver;
use metaserver::boot::BootFile;
use parking_lot::Mutex;
use tokio::time::{MissedTickBehavior, interval};

use crate::boot::addresses::{Addresses, Counted};

/// Transfers at a time, and those of one address; firmware asks again.
const TRANSFERS_MAX: usize = 256;
const OF_ADDRESS_MAX: usize = 8;
/// Time of a transfer.
const TRANSFER_TIME_MAX: Duration = Duration::from_secs(60);
/// Largest file: a loader has a megabyte, and what is larger comes by HTTP.
const FILE_BYTES_MAX: u64 = 8 << 20;
/// Interval at which changes of the files are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Time after which a block is sent again, and how often.
const SEND_AGAIN: (Duration, u32) = (Duration::from_secs(1), 5);
/// Largest block: one packet of Ethernet.
const BLOCK_BYTES_MAX: u16 = 1428;
/// Blocks that are sent before one is acknowledged.
const WINDOW_MAX: u16 = 16;

/// Requests for files that are not there: anyone can ask.
static MISSING: Repeated = Repeated::new();

/// Name, version and content of each file.
type Files = Arc<Mutex<BTreeMap<String, ((u64, u64), Bytes)>>>;

/// Answers until the socket fails.
pub(super) async fn serve(socket: UdpSocket, metaserver: Arc<Metaserver>) -> io::Error {
    let files = Files::default();
    let loaders = Loaders {
        files: Arc::clone(&files),
        transfers: Arc::default(),
        addresses: Addresses::of(OF_ADDRESS_MAX),
    };
    let server = async {
        let builder = TftpServerBuilder::with_handler(loaders).std_socket(socket)?;
        let (again, times) = SEND_AGAIN;
        builder
            .timeout(again)
            .max_send_retries(times)
            .ignore_client_timeout()
            .block_size_limit(BLOCK_BYTES_MAX)
            .window_size_limit(WINDOW_MAX)
            .build()
            .await?
            .serve()
            .await
    };
    tokio::select! {
        outcome = server => match outcome {
            Ok(()) => io::Error::other("it has ended"),
            Err(error) => io::Error::other(error.to_string()),
        },
        never = follow(&metaserver, &files) => match never {},
    }
}

/// Keeps the files in memory as they are in the file system.
async fn follow(metaserver: &Arc<Metaserver>, files: &Files) -> std::convert::Infallible {
    let mut often = interval(LOOK_EVERY);
    often.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        often.tick().await;
        let found = match metaserver.boot_loaders().await {
            Ok(found) => found,
            Err(error) => {
                tracing::debug!(?error, "the files for firmware are not looked at now");
                continue;
            }
        };
        files.lock().retain(|name, _| found.iter().any(|(other, _)| other == name));
        for (name, file) in found {
            let is_known = files.lock().get(&name).is_some_and(|(version, _)| *version == file.version());
            if is_known || file.size() > FILE_BYTES_MAX {
                continue;
            }
            match read(&file).await {
                Ok(content) => {
                    files.lock().insert(name, (file.version(), content));
                }
                Err(error) => tracing::warn!(name, %error, "cannot read a file for firmware, retrying"),
            }
        }
    }
}

async fn read(file: &BootFile) -> io::Result<Bytes> {
    let mut content = Vec::new();
    while (content.len() as u64) < file.size() {
        let piece = file.read(content.len() as u64).await?;
        if piece.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        content.extend_from_slice(&piece);
    }
    Ok(content.into())
}

struct Loaders {
    files: Files,
    transfers: Arc<AtomicUsize>,
    addresses: Addresses,
}

/// A file on its way.
struct Transfer {
    file: Cursor<Bytes>,
    until: Instant,
    transfers: Arc<AtomicUsize>,
    _counted: Counted,
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.transfers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl AsyncRead for Transfer {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if Instant::now() >= self.until {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut self.file).poll_read(context, into)
    }
}

impl Handler for Loaders {
    type Reader = Transfer;
    type Writer = Sink;

    async fn read_req_open(
        &mut self,
        client: &SocketAddr,
        path: &Path,
    ) -> Result<(Transfer, Option<u64>), packet::Error> {
        let name = path.to_str().unwrap_or_default().trim_start_matches('/');
        let found = self.files.lock().get(name).map(|(_, content)| content.clone());
        let Some(file) = found else {
            if let Some(count) = MISSING.count() {
                tracing::info!(%client, name, count, "firmware asks for a file that is not in /boot/loaders");
            }
            return Err(packet::Error::FileNotFound);
        };
        let counted = self.addresses.count(client.ip());
        let Some(counted) = counted.filter(|_| self.transfers.load(Ordering::Relaxed) < TRANSFERS_MAX) else {
            return Err(packet::Error::Msg("too many transfers: ask again".into()));
        };
        tracing::debug!(%client, name, bytes = file.len(), "firmware loads its first file");
        self.transfers.fetch_add(1, Ordering::Relaxed);
        let (size, transfers) = (file.len() as u64, Arc::clone(&self.transfers));
        let until = Instant::now() + TRANSFER_TIME_MAX;
        Ok((Transfer { file: Cursor::new(file), until, transfers, _counted: counted }, Some(size)))
    }

    async fn write_req_open(
        &mut self,
        _client: &SocketAddr,
        _path: &Path,
        _size: Option<u64>,
    ) -> Result<Sink, packet::Error> {
        Err(packet::Error::PermissionDenied)
    }
}
