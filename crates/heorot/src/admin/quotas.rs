//! Routes of the admin interface for quotas: `GET /quotas`, `GET /quotas?path=/dir`, `PUT /quota`.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::routing::{get, put};
use axum::{Json, Router};
use metaserver::{NewLimits, QuotaOf, QuotaReport};
use serde::Deserialize;

use crate::admin::api::{Done, Quota, QuotaRequest};
use crate::admin::http::{Admin, Refused, in_time, metaserver, refused};

/// Router of this module.
pub(crate) fn routes() -> Router<Arc<Admin>> {
    Router::new().route("/quotas", get(report)).route("/quota", put(set))
}

#[derive(Deserialize)]
struct QuotaQuery {
    path: Option<String>,
}

async fn report(
    State(admin): State<Arc<Admin>>,
    Query(query): Query<QuotaQuery>,
) -> Result<Json<Vec<Quota>>, Refused> {
    let reports = in_time(metaserver(&admin)?.quota_report(query.path.as_deref())).await?.map_err(refused)?;
    Ok(Json(reports.into_iter().map(shown).collect()))
}

fn shown(report: QuotaReport) -> Quota {
    let QuotaReport { path, of, usage, is_counted, grace_left } = report;
    let (user, group) = match of {
        QuotaOf::Volume => (None, None),
        QuotaOf::User(name) => (Some(name), None),
        QuotaOf::Group(name) => (None, Some(name)),
    };
    let limits = usage.limits;
    Quota {
        path,
        user,
        group,
        bytes: usage.bytes_shown(),
        bytes_hard: limits.bytes_hard,
        bytes_soft: limits.bytes_soft,
        files: usage.inodes,
        files_hard: limits.inodes_hard,
        files_soft: limits.inodes_soft,
        grace_seconds: limits.grace_seconds,
        grace_left,
        is_counted,
    }
}

async fn set(
    State(admin): State<Arc<Admin>>,
    Json(request): Json<QuotaRequest>,
) -> Result<Json<Done>, Refused> {
    let QuotaRequest { path, user, group, bytes_hard, bytes_soft, files_hard, files_soft, grace_seconds } =
        request;
    let of = match (user, group) {
        (None, None) => QuotaOf::Volume,
        (Some(name), None) => QuotaOf::User(name),
        (None, Some(name)) => QuotaOf::Group(name),
        (Some(_), Some(_)) => return Err(refused("a limit is of a user or of a group")),
    };
    let new =
        NewLimits { bytes_hard, bytes_soft, inodes_hard: files_hard, inodes_soft: files_soft, grace_seconds };
    if new == NewLimits::default() {
        return Err(refused("nothing to set; name a limit"));
    }
    let done = in_time(metaserver(&admin)?.quota_set(&path, of, new)).await?.map_err(refused)?;
    Ok(Json(Done { done }))
}
