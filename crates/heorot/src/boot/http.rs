//! HTTP for machines that boot, from any address: only files that nodes boot from, and nothing is changed.
//!
//! | | |
//! | --- | --- |
//! | `GET /boot/start` | script of iPXE for any machine |
//! | `GET /boot/node/MAC` | script for the node with this address |
//! | `GET /boot/root/ID/kernel`, `GET /boot/root/ID/initrd` | files of the root of a node |
//! | `GET /boot/loader/NAME` | file for firmware that loads by HTTP |
//!
//! Limits: connections, those of one address, the time and the size of a head, the time of a connection.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use metaserver::Metaserver;
use metaserver::boot::{BootFile, BootPart, parse_mac};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::boot::addresses::Addresses;

/// Connections at a time; others wait.
const CONNECTIONS_MAX: usize = 256;
/// Connections of one address: a machine has one, those behind one address have several.
const OF_ADDRESS_MAX: usize = 32;
/// Time of a request's head.
const HEAD_TIME_MAX: Duration = Duration::from_secs(5);
/// Time of a connection: an initramfs of 200 MB at 4 Mbit/s.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(400);
/// Time of an answer's begin: a metaserver that finds no others says so, and the machine asks another one.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
/// Maximal length of a head.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Pause after a failed `accept`.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Answers until the listener fails.
pub(super) async fn serve(listener: TcpListener, metaserver: Arc<Metaserver>) -> io::Error {
    let router = router(metaserver);
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let addresses = Addresses::of(OF_ADDRESS_MAX);
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
            return io::Error::other("no connections");
        };
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!(%error, "cannot accept a connection of a machine that boots, retrying");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(counted) = addresses.count(peer.ip()) else { continue };
        let router = router.clone();
        tokio::spawn(async move {
            let (_permit, _counted) = (permit, counted);
            connection(stream, router).await;
        });
    }
}

async fn connection(stream: TcpStream, router: Router) {
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    match timeout(CONNECTION_TIME_MAX, served).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a connection of a machine that boots ends early"),
        Err(_) => tracing::debug!("a connection of a machine that boots takes too long"),
    }
}

fn router(metaserver: Arc<Metaserver>) -> Router {
    Router::new()
        .route("/boot/start", get(start))
        .route("/boot/node/{mac}", get(node))
        .route("/boot/root/{root}/{part}", get(root))
        .route("/boot/loader/{name}", get(loader))
        .with_state(metaserver)
}

fn refusal(status: StatusCode, why: impl Into<String>) -> Response {
    (status, why.into() + "\n").into_response()
}

fn script(text: String) -> Response {
    ([(header::CONTENT_TYPE, "text/plain")], text).into_response()
}

async fn start(State(metaserver): State<Arc<Metaserver>>) -> Response {
    script(metaserver.boot_start())
}

async fn node(State(metaserver): State<Arc<Metaserver>>, Path(mac): Path<String>) -> Response {
    let Some(mac) = parse_mac(&mac) else {
        return refusal(StatusCode::BAD_REQUEST, "this is no MAC address: /boot/node/52:54:00:12:34:56");
    };
    match timeout(ANSWER_TIME_MAX, metaserver.boot_script(mac)).await {
        Ok(Ok(text)) => script(text),
        outcome => unavailable(&outcome.map(|done| done.err())),
    }
}

async fn root(
    State(metaserver): State<Arc<Metaserver>>,
    Path((root, part)): Path<(u32, String)>,
) -> Response {
    let part = match part.as_str() {
        "kernel" => BootPart::Kernel,
        "initrd" => BootPart::Initramfs,
        _ => return refusal(StatusCode::NOT_FOUND, "a root has kernel and initrd"),
    };
    match timeout(ANSWER_TIME_MAX, metaserver.boot_file(root, part)).await {
        Ok(Ok(Some(file))) => answer(file),
        Ok(Ok(None)) => {
            refusal(StatusCode::NOT_FOUND, "no node boots from this root, or it has no such file")
        }
        outcome => unavailable(&outcome.map(|done| done.err())),
    }
}

async fn loader(State(metaserver): State<Arc<Metaserver>>, Path(name): Path<String>) -> Response {
    match timeout(ANSWER_TIME_MAX, metaserver.boot_loader(&name)).await {
        Ok(Ok(Some(file))) => answer(file),
        Ok(Ok(None)) => refusal(StatusCode::NOT_FOUND, "heorot boot loader add FILE puts it there"),
        outcome => unavailable(&outcome.map(|done| done.err())),
    }
}

fn unavailable(why: &impl std::fmt::Debug) -> Response {
    tracing::debug!(?why, "a machine that boots gets no answer now");
    refusal(StatusCode::SERVICE_UNAVAILABLE, "not now: ask another metaserver, or later")
}

fn answer(file: BootFile) -> Response {
    let size = file.size();
    let pieces = futures_util::stream::unfold((file, 0), |(file, offset)| async move {
        if offset >= file.size() {
            return None;
        }
        let piece: io::Result<Bytes> = match file.read(offset).await {
            Ok(piece) if piece.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            other => other,
        };
        let next = piece.as_ref().map_or(u64::MAX, |piece| offset + piece.len() as u64);
        Some((piece, (file, next)))
    });
    let head = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_LENGTH, size.to_string()),
    ];
    (head, Body::from_stream(pieces)).into_response()
}
