//! Routes of the admin interface for volumes: `GET /volumes`, `PUT /volume`.

use std::sync::Arc;

use axum::extract::State;
use axum::routing::{get, put};
use axum::{Json, Router};

use crate::admin::api::{Done, SnapshotName, Volume, VolumeRequest};
use crate::admin::http::{Admin, Refused, in_time, metaserver, refused};

/// Router of this module.
pub(crate) fn routes() -> Router<Arc<Admin>> {
    Router::new().route("/volumes", get(volumes)).route("/volume", put(change))
}

async fn volumes(State(admin): State<Arc<Admin>>) -> Result<Json<Vec<Volume>>, Refused> {
    let reports = in_time(metaserver(&admin)?.volumes_report()).await?.map_err(refused)?;
    let shown = |report: metaserver::VolumeReport| {
        let metaserver::VolumeReport {
            id,
            path,
            inodes,
            bytes,
            volumes,
            snapshots,
            snapshot_bytes,
            created,
            origin,
        } = report;
        let created = created.map(|time| time.seconds);
        let is_promoted = origin.as_ref().is_some_and(|origin| origin.is_ending);
        let clone_of = origin.map(|origin| origin.snapshot);
        Volume { id, path, inodes, bytes, volumes, snapshots, snapshot_bytes, created, clone_of, is_promoted }
    };
    Ok(Json(reports.into_iter().map(shown).collect()))
}

async fn change(
    State(admin): State<Arc<Admin>>,
    Json(request): Json<VolumeRequest>,
) -> Result<Json<Done>, Refused> {
    let metaserver = metaserver(&admin)?;
    let VolumeRequest { action, path, to, force, unit_bytes, columns, copies, pool, snapshot } = request;
    let is_striped = unit_bytes.is_some() || columns.is_some() || copies.is_some() || pool.is_some();
    let done = match (action.as_str(), &to, force, is_striped) {
        ("clone", None, false, false) => match snapshot {
            Some(SnapshotName { volume, name }) => {
                in_time(metaserver.volume_clone(&volume, &name, &path)).await?
            }
            None => return Err(refused("a clone is of a `snapshot`")),
        },
        _ if snapshot.is_some() => return Err(refused("only a clone is of a `snapshot`")),
        ("promote", None, false, false) => in_time(metaserver.volume_promote(&path)).await?,
        ("create", None, false, false) => in_time(metaserver.volume_create(&path, None)).await?,
        ("create", None, false, true) => {
            let above = path.trim_end_matches('/').rsplit_once('/').map_or("/", |(above, _)| above);
            let above = metaserver.data().stripe_get(above).await.map_err(refused)?;
            let stripe = metaserver::NewStripe {
                unit_bytes: unit_bytes.unwrap_or(above.unit_bytes.into()),
                columns: columns.unwrap_or(above.columns),
                copies: copies.unwrap_or(if above.sets_copies { above.copies.into() } else { 0 }),
                pool: pool.unwrap_or(above.pool),
            };
            in_time(metaserver.volume_create(&path, Some(stripe))).await?
        }
        ("rename", Some(to), false, false) => in_time(metaserver.volume_rename(&path, to)).await?,
        ("remove", None, force, false) => in_time(metaserver.volume_remove(&path, force)).await?,
        ("create" | "rename" | "remove" | "clone" | "promote", ..) => {
            return Err(refused(
                "a volume is created with a stripe policy or without one, renamed with `to`, removed with `force` or \
                 without it, cloned from a `snapshot`, or promoted",
            ));
        }
        (other, ..) => {
            return Err(refused(format!(
                "a volume is created, renamed, removed, cloned or promoted, and not {other:?}"
            )));
        }
    };
    Ok(Json(Done { done: done.map_err(refused)? }))
}
