//! Route of the admin interface for backups: `GET /backup` sends all metadata.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use replica::Backup;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::admin::http::{Admin, Refused, failed, metaserver};

/// Queue length between the store and the network, in pieces of half a megabyte.
const PIECES_WAITING_MAX: usize = 4;
/// Time limit for the client to take the next piece. A client that stalls would pin the store's pages of this
/// snapshot.
const PIECE_TIME_MAX: Duration = Duration::from_secs(300);

/// Router of this module.
pub(crate) fn routes() -> Router<Arc<Admin>> {
    Router::new().route("/backup", get(backup))
}

async fn backup(State(admin): State<Arc<Admin>>) -> Result<Response, Refused> {
    let backup = metaserver(&admin)?.cluster().backup(env!("CARGO_PKG_VERSION")).await.map_err(failed)?;
    let (send, pieces) = mpsc::channel(PIECES_WAITING_MAX);
    let runtime = Handle::current();
    tokio::task::spawn_blocking(move || read(backup, &send, &runtime));
    // An error truncates the body, which the client detects.
    let pieces = futures_util::stream::unfold(pieces, |mut pieces| async move {
        let piece: Result<Bytes, std::io::Error> = pieces.recv().await?;
        Some((piece, pieces))
    });
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], Body::from_stream(pieces)).into_response())
}

fn read(mut backup: Backup, send: &mpsc::Sender<Result<Bytes, std::io::Error>>, runtime: &Handle) {
    loop {
        let piece = match backup.next_piece() {
            Ok(Some(piece)) => Ok(Bytes::from(piece)),
            Ok(None) => return,
            Err(error) => {
                tracing::error!(%error, "backup ended early");
                Err(std::io::Error::other(error))
            }
        };
        let failed = piece.is_err();
        let sent = runtime.block_on(async { tokio::time::timeout(PIECE_TIME_MAX, send.send(piece)).await });
        // The client has disconnected.
        if !matches!(sent, Ok(Ok(()))) || failed {
            return;
        }
    }
}
