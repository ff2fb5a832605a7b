//! Routes of the admin interface for machines that boot from images: `GET /boot`, `PUT /boot`, `GET /boot/image?name=`
//! (could it be imported?), and `POST /boot/image?name=` and `POST /boot/loaders`, whose bodies are tars of any length.

use std::cell::Cell;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Query, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use bytes::{Buf, Bytes};
use cluster::AdminError;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use metaserver::boot::{BootNodeChange, Entry, EntryKind, ImportOptions, NewBootNode, Piece, parse_mac};
use namespace::Time;
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::admin::api::{self, Boot, BootRequest, Done, Image};
use crate::admin::http::{Admin, Refused, in_time, metaserver, refused};

/// Paths of requests with a long body.
pub(crate) const LONG: [&str; 2] = ["/boot/image", "/boot/loaders"];
/// Pieces that wait between the network, the reader of the tar and the file system, each up to a quarter of a mebibyte.
const PIECES_WAITING_MAX: usize = 16;
/// Bytes of one piece of data.
const PIECE_BYTES: usize = 256 << 10;
/// Zeros at the end of a tar: two blocks.
const END_BYTES: usize = 1024;
/// Time for the next piece from the client, which may be making the image.
const PIECE_TIME_MAX: Duration = Duration::from_secs(3600);

/// Router of this module.
pub(crate) fn routes() -> Router<Arc<Admin>> {
    Router::new()
        .route("/boot", get(report).put(change))
        .route(LONG[0], get(check_import).post(import))
        .route(LONG[1], post(import_loaders))
}

async fn report(State(admin): State<Arc<Admin>>) -> Result<Json<Boot>, Refused> {
    let metaserver = metaserver(&admin)?;
    let report = in_time(metaserver.boot_report()).await?.map_err(refused)?;
    let images = report.images.into_iter().map(|image| {
        let metaserver::boot::ImageReport { name, created, booted_by } = image;
        Image { name, created, booted_by }
    });
    let groups = report.groups.into_iter().map(|group| {
        let metaserver::boot::GroupReport { name, root, words, image, previous } = group;
        let root = match root {
            namespace::BootRoot::Shared { memory_mib } => api::BootRoot::Shared { memory_mib },
            namespace::BootRoot::Group => api::BootRoot::Clone,
            namespace::BootRoot::Own { directories } => api::BootRoot::Own { directories },
        };
        api::BootGroup { name, root, words, image, previous }
    });
    let nodes = report.nodes.into_iter().map(|node| {
        let metaserver::boot::BootNodeReport { name, mac, group, image, previous } = node;
        api::BootNode { name, mac, group, image, previous }
    });
    let settings = metaserver.cluster().settings();
    Ok(Json(Boot {
        images: images.collect(),
        groups: groups.collect(),
        nodes: nodes.collect(),
        addresses: metaserver.boot_addresses(),
        http_port: settings.boot_http_port,
        tftp_port: settings.boot_tftp_port,
    }))
}

async fn change(
    State(admin): State<Arc<Admin>>,
    Json(request): Json<BootRequest>,
) -> Result<Json<Done>, Refused> {
    let metaserver = metaserver(&admin)?;
    let BootRequest { action, name, mac, group, image, root, words } = request;
    let mac = match mac {
        Some(text) => Some(parse_mac(&text).ok_or_else(|| refused(format!("{text:?} is no MAC address")))?),
        None => None,
    };
    let root = root.map(|root| match root {
        api::BootRoot::Shared { memory_mib } => namespace::BootRoot::Shared { memory_mib },
        api::BootRoot::Clone => namespace::BootRoot::Group,
        api::BootRoot::Own { directories } => namespace::BootRoot::Own { directories },
    });
    let done = match (action.as_str(), mac, image) {
        ("add-node", Some(mac), image) => {
            in_time(metaserver.boot_node_add(NewBootNode { name, mac, group, image })).await?
        }
        ("set-node", mac, None) => {
            in_time(metaserver.boot_node_set(&name, BootNodeChange { mac, group })).await?
        }
        ("remove-node", None, None) => in_time(metaserver.boot_node_remove(&name)).await?,
        ("set-group", None, None) => in_time(metaserver.boot_group_set(&name, root, words)).await?,
        ("remove-group", None, None) => in_time(metaserver.boot_group_remove(&name)).await?,
        ("assign", None, Some(image)) => in_time(metaserver.boot_assign(&name, &image)).await?,
        ("assign-as-group", None, None) => in_time(metaserver.boot_assign_as_group(&name)).await?,
        ("rollback", None, None) => in_time(metaserver.boot_rollback(&name)).await?,
        (other, ..) => {
            return Err(refused(format!(
                "nodes are added with a MAC address, set or removed, groups are set or removed, images are assigned or rolled \
                 back, and not {other:?} with these fields"
            )));
        }
    };
    Ok(Json(Done { done: done.map_err(refused)? }))
}

#[derive(Deserialize)]
struct ImageQuery {
    name: String,
    #[serde(default)]
    whole: bool,
    #[serde(default)]
    force: bool,
}

impl ImageQuery {
    fn how(&self) -> ImportOptions {
        ImportOptions { whole: self.whole, force: self.force }
    }
}

/// Whether an import would begin: asked before its body is sent.
async fn check_import(
    State(admin): State<Arc<Admin>>,
    Query(query): Query<ImageQuery>,
) -> Result<Json<Done>, Refused> {
    let checked = in_time(metaserver(&admin)?.boot_import_check(&query.name, query.how())).await?;
    checked.map_err(refused)?;
    Ok(Json(Done { done: format!("{} can be imported", query.name) }))
}

async fn import(
    State(admin): State<Arc<Admin>>,
    Query(query): Query<ImageQuery>,
    body: Body,
) -> Result<Json<Done>, Refused> {
    let metaserver = Arc::clone(metaserver(&admin)?);
    taken(body, |pieces| {
        Box::pin(async move { metaserver.boot_import(&query.name, query.how(), pieces).await })
    })
    .await
}

async fn import_loaders(State(admin): State<Arc<Admin>>, body: Body) -> Result<Json<Done>, Refused> {
    let metaserver = Arc::clone(metaserver(&admin)?);
    taken(body, |pieces| Box::pin(async move { metaserver.boot_import_loaders(pieces).await })).await
}

/// Reads a tar, and has `takes` take its pieces.
async fn taken(
    body: Body,
    takes: impl FnOnce(mpsc::Receiver<Piece>) -> BoxFuture<'static, Result<String, AdminError>>,
) -> Result<Json<Done>, Refused> {
    let (to_reader, from_network) = mpsc::channel(PIECES_WAITING_MAX);
    let (to_import, pieces) = mpsc::channel(PIECES_WAITING_MAX);
    let reader = tokio::task::spawn_blocking(move || {
        let body = BodyReader { pieces: from_network, piece: Bytes::new() };
        read_tar(body, &to_import)
    });
    let ((), done, read) = tokio::join!(forward(body, to_reader), takes(pieces), reader);
    // What the tar lacks is the cause of what the import lacks.
    match read.map_err(refused)? {
        Err(TarError::Wrong(why)) => Err(refused(format!("the tar cannot be read: {why}"))),
        Ok(()) | Err(TarError::NotTaken) => Ok(Json(Done { done: done.map_err(refused)? })),
    }
}

/// Hands the body on. When the import has ended early the rest is read all the same: a client that still writes would not
/// see the answer.
async fn forward(body: Body, to_reader: mpsc::Sender<io::Result<Bytes>>) {
    let mut body = body.into_data_stream();
    loop {
        let piece = match timeout(PIECE_TIME_MAX, body.next()).await {
            Ok(Some(piece)) => piece.map_err(io::Error::other),
            Ok(None) => return,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        };
        let is_last = piece.is_err();
        let _ = to_reader.send(piece).await;
        if is_last {
            return;
        }
    }
}

/// The body, for a reader that blocks.
struct BodyReader {
    pieces: mpsc::Receiver<io::Result<Bytes>>,
    piece: Bytes,
}

impl Read for BodyReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while !self.piece.has_remaining() {
            match self.pieces.blocking_recv() {
                Some(piece) => self.piece = piece?,
                None => return Ok(0),
            }
        }
        let bytes = into.len().min(self.piece.len());
        self.piece.copy_to_slice(&mut into[..bytes]);
        Ok(bytes)
    }
}

/// Why a tar was not read to its end.
#[derive(Debug)]
enum TarError {
    /// It is not as it should be.
    Wrong(String),
    /// The import has ended.
    NotTaken,
}

impl From<io::Error> for TarError {
    fn from(error: io::Error) -> Self {
        Self::Wrong(error.to_string())
    }
}

fn read_tar(body: impl Read, to_import: &mpsc::Sender<Piece>) -> Result<(), TarError> {
    let send = |piece| to_import.blocking_send(piece).map_err(|_| TarError::NotTaken);
    let zeros = Cell::new(0);
    let mut archive = tar::Archive::new(Counting { body, zeros: &zeros });
    for entry in archive.entries()? {
        let mut entry = entry?;
        let Some(read) = entry_of(&mut entry)? else { continue };
        let has_data = matches!(read.kind, EntryKind::File(_));
        send(Piece::Entry(read))?;
        if !has_data {
            continue;
        }
        loop {
            let mut piece = Vec::with_capacity(PIECE_BYTES);
            entry.by_ref().take(PIECE_BYTES as u64).read_to_end(&mut piece)?;
            if piece.is_empty() {
                break;
            }
            send(Piece::Data(piece.into()))?;
        }
        zeros.set(0);
    }
    // What follows the end is read too: padding, which the client still sends.
    io::copy(&mut archive.into_inner(), &mut io::sink())?;
    if zeros.get() < END_BYTES {
        return Err(TarError::Wrong("it ends early".into()));
    }
    send(Piece::End)
}

/// The body, with the number of zeros at the end of what was read since the last entry: a tar that is cut off between two
/// entries would be taken for a whole one.
struct Counting<'a, R> {
    body: R,
    zeros: &'a Cell<usize>,
}

impl<R: Read> Read for Counting<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let bytes = self.body.read(into)?;
        let zeros = into[..bytes].iter().rev().take_while(|byte| **byte == 0).count();
        self.zeros.set(if zeros == bytes { self.zeros.get() + bytes } else { zeros });
        Ok(bytes)
    }
}

/// The entry; none: it is of no file.
fn entry_of(entry: &mut tar::Entry<'_, impl Read>) -> Result<Option<Entry>, TarError> {
    let path = entry.path_bytes().into_owned();
    let shown = String::from_utf8_lossy(&path).into_owned();
    let mut exact = None;
    if let Some(extensions) = entry.pax_extensions()? {
        for extension in extensions {
            let extension = extension?;
            if extension.key_bytes().starts_with(b"GNU.sparse.") {
                let why = "is sparse in a way that is not read: make the tar without -S";
                return Err(TarError::Wrong(format!("{shown} {why}")));
            }
            if extension.key_bytes() == b"mtime" {
                exact = extension.value().ok().and_then(time_of);
            }
        }
    }
    let header = entry.header();
    let number = |number: io::Result<Option<u32>>| Ok::<_, TarError>(number?.unwrap_or(0));
    let target = || match entry.link_name_bytes() {
        Some(target) => Ok(target.into_owned()),
        None => Err(TarError::Wrong(format!("{shown} is a link to nothing"))),
    };
    let kind = match header.entry_type() {
        tar::EntryType::Regular | tar::EntryType::Continuous | tar::EntryType::GNUSparse => {
            EntryKind::File(entry.size())
        }
        tar::EntryType::Directory => EntryKind::Directory,
        tar::EntryType::Symlink => EntryKind::Symlink(target()?),
        tar::EntryType::Link => EntryKind::HardLink(target()?),
        tar::EntryType::Fifo => EntryKind::Fifo,
        tar::EntryType::Char => {
            EntryKind::CharacterDevice(number(header.device_major())?, number(header.device_minor())?)
        }
        tar::EntryType::Block => {
            EntryKind::BlockDevice(number(header.device_major())?, number(header.device_minor())?)
        }
        tar::EntryType::XGlobalHeader => return Ok(None),
        other => return Err(TarError::Wrong(format!("{shown} is of the unknown kind {other:?}"))),
    };
    let id = |id: u64| {
        u32::try_from(id).map_err(|_| TarError::Wrong(format!("{shown}: {id} is no user or group")))
    };
    let seconds = i64::try_from(header.mtime()?).unwrap_or(i64::MAX);
    let modified = exact.unwrap_or(Time { seconds, nanoseconds: 0 });
    let (mode, uid, gid) = (header.mode()?, id(header.uid()?)?, id(header.gid()?)?);
    Ok(Some(Entry { path, kind, mode, uid, gid, modified }))
}

/// A time of pax: seconds, with as many places behind the point as the sender knows.
fn time_of(text: &str) -> Option<Time> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let (seconds, nanoseconds): (i64, u32) = (seconds.parse().ok()?, digits.parse().ok()?);
    match seconds < 0 && nanoseconds > 0 || text.starts_with("-0") {
        // -1.5 is half a second after -2.
        true if nanoseconds > 0 => {
            Some(Time { seconds: seconds.checked_sub(1)?, nanoseconds: 1_000_000_000 - nanoseconds })
        }
        _ => Some(Time { seconds, nanoseconds }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(tar: &[u8]) -> (Result<(), TarError>, Vec<Piece>) {
        let (send, mut pieces) = mpsc::channel(64);
        let outcome = read_tar(tar, &send);
        drop(send);
        (outcome, std::iter::from_fn(|| pieces.try_recv().ok()).collect())
    }

    #[test]
    fn the_entries_of_a_tar_come_with_their_data_and_an_end() {
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(3);
        header.set_mode(0o4755);
        header.set_uid(7);
        header.set_gid(0);
        header.set_mtime(99);
        builder.append_data(&mut header, "usr/bin/su", &b"abc"[..]).unwrap();
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        header.set_mode(0o777);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        builder.append_link(&mut header, "bin", "usr/bin").unwrap();
        let (outcome, pieces) = read(&builder.into_inner().unwrap());
        assert!(outcome.is_ok(), "{outcome:?}");
        let [Piece::Entry(su), Piece::Data(data), Piece::Entry(bin), Piece::End] = &pieces[..] else {
            panic!("{pieces:?}")
        };
        assert_eq!(
            (&su.path[..], &su.kind, su.mode, su.uid, su.modified),
            (&b"usr/bin/su"[..], &EntryKind::File(3), 0o4755, 7, Time { seconds: 99, nanoseconds: 0 })
        );
        assert_eq!(&data[..], b"abc");
        assert_eq!(bin.kind, EntryKind::Symlink(b"usr/bin".to_vec()));
    }

    #[test]
    fn a_time_of_pax_has_its_fraction() {
        let of = |text: &str| time_of(text).map(|time| (time.seconds, time.nanoseconds));
        for (text, expected) in [
            ("12", Some((12, 0))),
            ("12.5", Some((12, 500_000_000))),
            ("12.1234567899", Some((12, 123_456_789))),
            ("-1.5", Some((-2, 500_000_000))),
            ("-0.25", Some((-1, 750_000_000))),
            ("-3", Some((-3, 0))),
            ("", None),
            ("1.x", None),
            ("-9223372036854775808.5", None),
        ] {
            assert_eq!(of(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_tar_or_ends_early_has_no_end() {
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(2000);
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        builder.append_data(&mut header, "f", &[7; 2000][..]).unwrap();
        let whole = builder.into_inner().unwrap();
        // The last is cut off between two entries.
        for bytes in
            [&b"\x1f\x8b no tar at all".repeat(64)[..], &whole[..1000], &whole[..512 + 2048], &[][..]]
        {
            let (outcome, pieces) = read(bytes);
            assert!(matches!(outcome, Err(TarError::Wrong(_))), "{outcome:?}");
            assert!(!pieces.iter().any(|piece| matches!(piece, Piece::End)));
        }
    }
}
