//! Routes of the admin interface for storage targets: `GET /targets`, `PUT /target`, `GET /files` of a metaserver,
//! `PUT /targets` of a data server.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::routing::{get, put};
use axum::{Json, Router};
use cluster::{KnownTarget, TargetReport};
use metaserver::TargetChange;
use namespace::TargetState;
use serde::Deserialize;
use wire::data::TargetCondition;

use crate::admin::api::{self, Done, Files, NodeDone, TargetAddition, TargetRequest};
use crate::admin::http::{Admin, Refused, failed, metaserver, more_targets, refused};

/// Router of this module.
pub(crate) fn routes() -> Router<Arc<Admin>> {
    Router::new()
        .route("/targets", get(targets).put(add))
        .route("/target", put(change))
        .route("/files", get(files))
}

async fn targets(State(admin): State<Arc<Admin>>) -> Result<Json<Vec<api::KnownTarget>>, Refused> {
    let targets = metaserver(&admin)?.cluster().known_targets().map_err(failed)?;
    Ok(Json(targets.into_iter().map(shown).collect()))
}

fn shown(known: KnownTarget) -> api::KnownTarget {
    let is_missing = known.report.as_ref().is_some_and(|report| report.condition == TargetCondition::Missing);
    let bytes = |of: fn(&TargetReport) -> u64| known.report.as_ref().filter(|_| !is_missing).map(of);
    api::KnownTarget {
        id: format!("{:016x}", known.target.0),
        server: known.server.clone(),
        zone: known.zone.clone(),
        pool: known.pool.clone(),
        path: known.path.clone(),
        state: match (known.state, known.is_alive) {
            (TargetState::Lost, _) => "lost",
            (TargetState::Removed, _) => "removed",
            (TargetState::InUse | TargetState::Draining, true) if is_missing => "missing",
            (TargetState::InUse | TargetState::Draining, false) => "away",
            (TargetState::InUse | TargetState::Draining, true) if known.drains => "draining",
            (TargetState::InUse | TargetState::Draining, true) => "in use",
        }
        .into(),
        total_bytes: bytes(|report| report.total_bytes),
        free_bytes: bytes(|report| report.free_bytes),
        trash_bytes: bytes(|report| report.trash_bytes),
        reserve_bytes: bytes(|report| report.reserve_bytes),
        chains: known.chains,
    }
}

async fn change(
    State(admin): State<Arc<Admin>>,
    Json(request): Json<TargetRequest>,
) -> Result<Json<NodeDone>, Refused> {
    let TargetRequest { name, action, by } = request;
    let change = match (action.as_str(), by) {
        ("drain", None) => TargetChange::Drain,
        ("undrain", None) => TargetChange::Undrain,
        ("remove", None) => TargetChange::Remove,
        ("lost", None) => TargetChange::Lost,
        ("found", None) => TargetChange::Found,
        ("replace", Some(by)) => TargetChange::ReplaceBy(by),
        ("replace", None) => return Err(refused("name the target that takes its place")),
        (_, Some(_)) => return Err(refused("only \"replace\" names another target")),
        (other, None) => {
            return Err(refused(format!(
                "a target is drained, undrained, removed, replaced, lost or found, and not {other:?}"
            )));
        }
    };
    let server = Arc::clone(metaserver(&admin)?);
    tracing::info!(target = name, action, "a target is changed");
    let done = tokio::spawn(async move { server.data().change_target(&name, &change).await });
    Ok(Json(NodeDone { done: done.await.map_err(failed)?.map_err(refused)? }))
}

/// Has the data server of this process serve one more target.
async fn add(
    State(admin): State<Arc<Admin>>,
    Json(request): Json<TargetAddition>,
) -> Result<Json<Done>, Refused> {
    let more_targets = Arc::clone(more_targets(&admin)?);
    tracing::info!(directory = request.path, "a target is to be added");
    // A task of its own: it is carried out to its end also if the command is interrupted.
    let done = tokio::spawn(more_targets.add(request.path.into()));
    Ok(Json(Done { done: done.await.map_err(failed)?.map_err(refused)? }))
}

#[derive(Deserialize)]
struct FilesQuery {
    on: String,
    after: Option<String>,
}

async fn files(
    State(admin): State<Arc<Admin>>,
    Query(query): Query<FilesQuery>,
) -> Result<Json<Files>, Refused> {
    let mark =
        query.after.map(|text| hex::decode(text).map_err(|_| refused("`after` is no mark"))).transpose()?;
    let server = Arc::clone(metaserver(&admin)?);
    let page = tokio::task::spawn_blocking(move || server.cluster().files_on(&query.on, mark.as_deref()));
    let page = page.await.map_err(failed)?.map_err(refused)?;
    Ok(Json(Files {
        paths: page.paths.iter().map(|path| one_line(path)).collect(),
        next: page.next.map(hex::encode),
    }))
}

/// Path as one line of text: control characters, backslashes and bytes that are not UTF-8 as `\x0a`.
fn one_line(path: &[u8]) -> String {
    let mut out = String::new();
    for chunk in path.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                c if c.is_control() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
                c => out.push(c),
            }
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_line_whatever_its_bytes() {
        assert_eq!(one_line("/a b/ä".as_bytes()), "/a b/ä");
        assert_eq!(one_line(b"/a\nb\\c\xff\x1b"), "/a\\x0ab\\\\c\\xff\\x1b");
    }
}
