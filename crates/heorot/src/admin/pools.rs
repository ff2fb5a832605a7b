//! Routes of the admin interface for pools of targets: `GET /pools`, `PUT /pool`.

use std::sync::Arc;

use axum::extract::State;
use axum::routing::{get, put};
use axum::{Json, Router};

use crate::admin::api::{NodeDone, Pool, PoolRequest};
use crate::admin::http::{Admin, Refused, in_time, metaserver, refused};
use crate::node::name;

/// Router of this module.
pub(crate) fn routes() -> Router<Arc<Admin>> {
    Router::new().route("/pools", get(pools)).route("/pool", put(change))
}

async fn pools(State(admin): State<Arc<Admin>>) -> Result<Json<Vec<Pool>>, Refused> {
    let reports = in_time(metaserver(&admin)?.cluster().pools_report()).await?.map_err(refused)?;
    let shown = |report: cluster::PoolReport| {
        let cluster::PoolReport { name, targets, directories, total_bytes, free_bytes } = report;
        Pool { name, targets, directories, total_bytes, free_bytes }
    };
    Ok(Json(reports.into_iter().map(shown).collect()))
}

async fn change(
    State(admin): State<Arc<Admin>>,
    Json(request): Json<PoolRequest>,
) -> Result<Json<NodeDone>, Refused> {
    let PoolRequest { name, action, targets } = request;
    let cluster = metaserver(&admin)?.cluster();
    let done = match (action.as_str(), targets.is_empty()) {
        ("create", true) => {
            name::parse(&name).map_err(refused)?;
            in_time(cluster.make_pool(&name)).await?.map_err(refused)?;
            format!("{name} is a pool without targets; heorot pool add {name} TARGET puts some into it")
        }
        ("remove", true) => {
            in_time(cluster.remove_pool(&name)).await?.map_err(refused)?;
            format!("{name} is no pool any more")
        }
        ("create" | "remove", false) => {
            return Err(refused("targets are put into a pool, or out of it, with the action \"add\""));
        }
        ("add", true) => return Err(refused("name the targets, or their data servers")),
        ("add", false) => {
            let count = in_time(cluster.put_into_pool(&name, &targets)).await?.map_err(refused)?;
            format!("{count} targets are in the pool {name}; data of other pools leave them (heorot status)")
        }
        (other, _) => {
            return Err(refused(format!("a pool is created, added to or removed, and not {other:?}")));
        }
    };
    tracing::info!(pool = name, action, ?targets, "a pool is changed");
    Ok(Json(NodeDone { done }))
}
