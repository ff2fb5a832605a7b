//! The part of the admin interface that gives all metadata away: `GET /backup`.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use replica::Backup;
use tokio::sync::mpsc;

use crate::admin_http::{Admin, Refused, failed, metaserver};

/// Pieces of half a megabyte between the store and the network.
const PIECES_WAITING_MAX: usize = 4;

/// This route.
pub(crate) fn routes() -> Router<Arc<Admin>> {
    Router::new().route("/backup", get(backup))
}

async fn backup(State(admin): State<Arc<Admin>>) -> Result<Response, Refused> {
    let backup = metaserver(&admin)?.backup(env!("CARGO_PKG_VERSION")).await.map_err(failed)?;
    let (send, pieces) = mpsc::channel(PIECES_WAITING_MAX);
    tokio::task::spawn_blocking(move || read(backup, &send));
    // An error ends the answer before its end, and whoever reads it sees that.
    let pieces = futures_util::stream::unfold(pieces, |mut pieces| async move {
        let piece: Result<Bytes, std::io::Error> = pieces.recv().await?;
        Some((piece, pieces))
    });
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], Body::from_stream(pieces)).into_response())
}

fn read(mut backup: Backup, send: &mpsc::Sender<Result<Bytes, std::io::Error>>) {
    loop {
        let piece = match backup.next_piece() {
            Ok(Some(piece)) => Ok(Bytes::from(piece)),
            Ok(None) => return,
            Err(error) => {
                tracing::error!(%error, "a backup ends early");
                Err(std::io::Error::other(error))
            }
        };
        let failed = piece.is_err();
        // Nobody waits for it any more.
        if send.blocking_send(piece).is_err() || failed {
            return;
        }
    }
}
