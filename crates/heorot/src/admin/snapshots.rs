//! Routes of the admin interface for snapshots: `GET /snapshots`, `GET /snapshots?path=/dir`, `PUT /snapshot`,
//! `GET /snapshot-schedules`, `PUT /snapshot-schedule`.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::routing::{get, put};
use axum::{Json, Router};
use metaserver::{ScheduleReport, SnapshotMade, SnapshotReport};
use serde::Deserialize;

use crate::admin::api::{Done, Schedule, Snapshot, SnapshotDone, SnapshotRequest};
use crate::admin::http::{Admin, Refused, in_time, metaserver, refused};

/// Router of this module.
pub(crate) fn routes() -> Router<Arc<Admin>> {
    Router::new()
        .route("/snapshots", get(snapshots))
        .route("/snapshot", put(change))
        .route("/snapshot-schedules", get(schedules))
        .route("/snapshot-schedule", put(schedule))
}

async fn schedules(State(admin): State<Arc<Admin>>) -> Result<Json<Vec<Schedule>>, Refused> {
    let reports = in_time(metaserver(&admin)?.schedules_report()).await?.map_err(refused)?;
    let shown = |ScheduleReport { volume, schedule }| {
        let namespace::Schedule { hourly, daily, weekly } = schedule;
        Schedule { volume, hourly, daily, weekly }
    };
    Ok(Json(reports.into_iter().map(shown).collect()))
}

async fn schedule(
    State(admin): State<Arc<Admin>>,
    Json(request): Json<Schedule>,
) -> Result<Json<Done>, Refused> {
    let Schedule { volume, hourly, daily, weekly } = request;
    let schedule = namespace::Schedule { hourly, daily, weekly };
    let done = in_time(metaserver(&admin)?.schedule_set(&volume, schedule)).await?;
    Ok(Json(Done { done: done.map_err(refused)? }))
}

#[derive(Deserialize)]
struct SnapshotQuery {
    path: Option<String>,
}

async fn snapshots(
    State(admin): State<Arc<Admin>>,
    Query(query): Query<SnapshotQuery>,
) -> Result<Json<Vec<Snapshot>>, Refused> {
    let report = metaserver(&admin)?.snapshots_report(query.path.as_deref());
    let shown = |SnapshotReport { volume, name, id, created }| Snapshot { volume, name, id, created };
    Ok(Json(in_time(report).await?.map_err(refused)?.into_iter().map(shown).collect()))
}

fn answer(made: SnapshotMade) -> SnapshotDone {
    match made {
        SnapshotMade::Made(done) => SnapshotDone { done: Some(done), waits: None },
        SnapshotMade::NotYet(why) => SnapshotDone { done: None, waits: Some(why) },
    }
}

async fn change(
    State(admin): State<Arc<Admin>>,
    Json(request): Json<SnapshotRequest>,
) -> Result<Json<SnapshotDone>, Refused> {
    let metaserver = metaserver(&admin)?;
    let SnapshotRequest { action, volume, name, force } = request;
    match (action.as_str(), force) {
        ("create", false) => {
            let made = in_time(metaserver.snapshot_create(&volume, &name)).await?.map_err(refused)?;
            Ok(Json(answer(made)))
        }
        ("rollback", force) => {
            let done =
                in_time(metaserver.snapshot_rollback(&volume, &name, force)).await?.map_err(refused)?;
            Ok(Json(answer(done)))
        }
        ("remove", force) => {
            let removed = in_time(metaserver.snapshot_remove(&volume, &name, force)).await?;
            Ok(Json(SnapshotDone { done: Some(removed.map_err(refused)?), waits: None }))
        }
        (other, _) => Err(refused(format!(
            "a snapshot is created, or removed or rolled back to with `force` or without it, and not {other:?}"
        ))),
    }
}
