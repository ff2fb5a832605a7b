//! Copying from objects of other data servers: this server fetches the bytes from them, so that no byte
//! passes through a metaserver.
//!
//! ```text
//! metaserver ──COPY pieces──▶ this data server ──READ_PLUS──▶ the other one
//!                                  │   ◀── runs of data and holes ──┘
//!                                  └─ write, clear
//! ```

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use host::Repeated;
use nfs::Peer;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use wire::data::{Piece, Procedure, Run, Status, read, read_plus};

use crate::data_program::refusal;
use crate::epoch::ObjectRef;
use crate::peers::{Peers, Use};
use crate::target::Target;

/// Bytes fetched in one call: the upper limit of a READ.
const FETCH_BYTES: u64 = 1 << 20;
/// Fetches of one copy at the same time: while one is written, the next are under way.
const FETCHES_OF_A_COPY: usize = 4;
/// Fetches of all copies at the same time: each holds [`FETCH_BYTES`] of memory.
const FETCHES_MAX: usize = 32;
/// One that does not answer in this time is taken for dead. Less than a metaserver waits for the whole copy.
const FETCH_TIME_MAX: Duration = Duration::from_secs(10);

/// Fetches that failed: a copy of a large file may have a thousand.
static FAILURES: Repeated = Repeated::new();

/// Copying from other data servers.
pub(crate) struct Pull {
    peers: Arc<Peers>,
    fetches: Arc<Semaphore>,
}

/// Room for what is stored.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Room {
    /// It is taken now, if there is some.
    New,
    /// The bytes that are replaced have taken it.
    Taken,
}

impl Pull {
    pub(crate) fn new(peers: Arc<Peers>) -> Self {
        Self { peers, fetches: Arc::new(Semaphore::new(FETCHES_MAX)) }
    }

    /// Copies `pieces` of the object `source` of the data server at `address` into `to`. Durable only after a
    /// commit.
    pub(crate) async fn pull(
        &self,
        target: &Arc<Target>,
        to: ObjectRef,
        address: &[u8],
        source: Bytes,
        pieces: &[Piece],
    ) -> Result<(), Status> {
        let address =
            std::str::from_utf8(address).ok().and_then(|a| a.parse().ok()).ok_or(Status::Invalid)?;
        self.pull_from(target, (to, Room::New), address, source, pieces).await
    }

    /// The same, from a parsed address.
    pub(crate) async fn pull_from(
        &self,
        target: &Arc<Target>,
        (to, room): (ObjectRef, Room),
        address: SocketAddr,
        source: Bytes,
        pieces: &[Piece],
    ) -> Result<(), Status> {
        let peer = self.peers.get(address, Use::Fetch);
        let mut fetches = JoinSet::new();
        for piece in pieces.iter().flat_map(parts) {
            if fetches.len() >= FETCHES_OF_A_COPY {
                finished(fetches.join_next().await)?;
            }
            let permit = Arc::clone(&self.fetches).acquire_owned().await.map_err(|_| Status::Delay)?;
            let (peer, target, source) = (Arc::clone(&peer), Arc::clone(target), source.clone());
            fetches.spawn(async move {
                let fetched = fetch(&peer, source, piece).await;
                let stored = match fetched {
                    Ok(runs) => store(&target, (to, room), piece, runs).await,
                    Err(status) => Err(status),
                };
                drop(permit);
                stored
            });
        }
        while let Some(outcome) = fetches.join_next().await {
            finished(Some(outcome))?;
        }
        Ok(())
    }
}

fn finished(outcome: Option<Result<Result<(), Status>, tokio::task::JoinError>>) -> Result<(), Status> {
    match outcome {
        Some(Ok(outcome)) => outcome,
        Some(Err(_)) => Err(Status::Io),
        None => Ok(()),
    }
}

/// A piece in parts that are fetched in one call each.
fn parts(piece: &Piece) -> impl Iterator<Item = Piece> + use<> {
    let Piece { from, to, len } = *piece;
    let step = FETCH_BYTES as usize;
    (0..len).step_by(step).map(move |at| Piece {
        from: from + at,
        to: to + at,
        len: FETCH_BYTES.min(len - at),
    })
}

async fn fetch(peer: &Peer, handle: Bytes, piece: Piece) -> Result<Vec<Run>, Status> {
    let args = read::Args { handle, offset: piece.from, count: piece.len as u32 };
    let answer = peer.call(Procedure::ReadPlus as u32, &args, FETCH_TIME_MAX).await;
    let result: read_plus::Res = answer.map_err(|error| {
        if let Some(count) = FAILURES.count() {
            tracing::warn!(address = %peer.address(), %error, count, "copy from another data server failed");
        }
        Status::Delay
    })?;
    Ok(result?.runs)
}

async fn store(
    target: &Arc<Target>,
    (to, room): (ObjectRef, Room),
    piece: Piece,
    runs: Vec<Run>,
) -> Result<(), Status> {
    let stored = target.run(move |objects| {
        let mut at = 0;
        for run in runs {
            let left = piece.len - at;
            at += match run {
                Run::Hole(len) => {
                    objects.clear(to, piece.to + at, len.min(left))?;
                    len.min(left)
                }
                Run::Data(data) => {
                    let data = data.slice(0, (data.len() as u64).min(left) as usize);
                    match room {
                        Room::New => objects.write(to, piece.to + at, &data).map(drop)?,
                        Room::Taken => objects.write_in_room(to, piece.to + at, &data, None)?,
                    }
                    data.len() as u64
                }
            };
        }
        // The source ends here.
        objects.clear(to, piece.to + at, piece.len - at)
    });
    stored.await.map_err(refusal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_fetched_in_parts_of_a_mebibyte() {
        let mib = FETCH_BYTES;
        let found: Vec<_> = parts(&Piece { from: 10, to: 99, len: 2 * mib + 5 }).collect();
        let expected = [(10, 99, mib), (10 + mib, 99 + mib, mib), (10 + 2 * mib, 99 + 2 * mib, 5)];
        assert_eq!(found, expected.map(|(from, to, len)| Piece { from, to, len }));
        assert_eq!(parts(&Piece { from: 1, to: 2, len: 0 }).count(), 0);
    }
}
