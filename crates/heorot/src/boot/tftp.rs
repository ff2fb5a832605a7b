//! TFTP (RFC 1350) for the first file that firmware loads: what is in /boot/loaders, to read.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_tftp::packet;
use async_tftp::server::{Handler, TftpServerBuilder};
use bytes::Bytes;
use futures_util::io::{AsyncRead, Cursor, Sink};
use metaserver::Metaserver;
use metaserver::boot::BootFile;
use tokio::time::timeout;

/// Transfers at a time; firmware asks again.
const TRANSFERS_MAX: usize = 256;
/// Largest file: a loader has a megabyte, and what is larger comes by HTTP.
const FILE_BYTES_MAX: u64 = 8 << 20;
/// Files that are kept in memory: all loaders of a cluster.
const KEPT_MAX: usize = 8;
/// Time for which one request holds up others: it reads a file that is not in memory.
const READ_TIME_MAX: Duration = Duration::from_secs(5);
/// Time after which a block is sent again, and how often.
const SEND_AGAIN: (Duration, u32) = (Duration::from_secs(1), 10);
/// Largest block: one packet of Ethernet.
const BLOCK_BYTES_MAX: u16 = 1428;
/// Blocks that are sent before one is acknowledged.
const WINDOW_MAX: u16 = 16;

/// Answers until the socket fails.
pub(super) async fn serve(socket: UdpSocket, metaserver: Arc<Metaserver>) -> io::Error {
    let loaders = Loaders { metaserver, kept: Vec::new(), transfers: Arc::default() };
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
    match server.await {
        Ok(()) => io::Error::other("it has ended"),
        Err(error) => io::Error::other(error.to_string()),
    }
}

struct Loaders {
    metaserver: Arc<Metaserver>,
    /// Name, version and content of files that were asked for.
    kept: Vec<(String, (u64, u64), Bytes)>,
    transfers: Arc<AtomicUsize>,
}

/// A file on its way.
struct Transfer {
    file: Cursor<Bytes>,
    transfers: Arc<AtomicUsize>,
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.transfers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl AsyncRead for Transfer {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
        into: &mut [u8],
    ) -> std::task::Poll<io::Result<usize>> {
        std::pin::Pin::new(&mut self.file).poll_read(context, into)
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
        let name = path.to_str().unwrap_or_default().trim_start_matches('/').to_owned();
        if self.transfers.load(Ordering::Relaxed) >= TRANSFERS_MAX {
            return Err(packet::Error::Msg("too many transfers: ask again".into()));
        }
        let file = match timeout(READ_TIME_MAX, self.content(&name)).await {
            Ok(Ok(Some(content))) => content,
            Ok(Ok(None)) => {
                tracing::info!(%client, name, "firmware asks for a file that is not in /boot/loaders");
                return Err(packet::Error::FileNotFound);
            }
            Ok(Err(error)) => {
                tracing::warn!(name, error, "cannot read a file for firmware");
                return Err(packet::Error::Msg("not now: ask again".into()));
            }
            Err(_) => return Err(packet::Error::Msg("not now: ask again".into())),
        };
        tracing::info!(%client, name, bytes = file.len(), "firmware loads its first file");
        self.transfers.fetch_add(1, Ordering::Relaxed);
        let (size, transfers) = (file.len() as u64, Arc::clone(&self.transfers));
        Ok((Transfer { file: Cursor::new(file), transfers }, Some(size)))
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

impl Loaders {
    /// Content of a file, from memory if it has not changed since; none: there is no such file.
    async fn content(&mut self, name: &str) -> Result<Option<Bytes>, String> {
        let found = self.metaserver.boot_loader(name).await.map_err(|error| format!("{error:?}"))?;
        let Some(file) = found else { return Ok(None) };
        self.kept.retain(|(kept, version, _)| kept != name || *version == file.version());
        if let Some((.., content)) = self.kept.iter().find(|(kept, ..)| kept == name) {
            return Ok(Some(content.clone()));
        }
        let content = read(&file).await?;
        if self.kept.len() >= KEPT_MAX {
            self.kept.remove(0);
        }
        self.kept.push((name.to_owned(), file.version(), content.clone()));
        Ok(Some(content))
    }
}

async fn read(file: &BootFile) -> Result<Bytes, String> {
    if file.size() > FILE_BYTES_MAX {
        return Err(format!(
            "{} bytes are too many for TFTP, which has at most {FILE_BYTES_MAX}",
            file.size()
        ));
    }
    let mut content = Vec::new();
    while (content.len() as u64) < file.size() {
        let piece = file.read(content.len() as u64).await.map_err(|error| error.to_string())?;
        if piece.is_empty() {
            return Err("it ends early".into());
        }
        content.extend_from_slice(&piece);
    }
    Ok(content.into())
}
