//! Routes of the admin interface for pools of targets: `GET /pools`, `PUT /pool`.

use std::sync::Arc;

use axum::extract::State;
use axum::routing::{get, put};
use axum::{Json, Router};
use namespace::PoolPolicy;

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
        let cluster::PoolReport {
            name,
            targets,
            directories,
            copies,
            verify,
            policy,
            total_bytes,
            free_bytes,
        } = report;
        let (sets_copies, sets_verify) = (policy.copies.is_some(), policy.verify.is_some());
        let verify = cluster::verify_text(verify).into();
        Pool { name, targets, directories, copies, sets_copies, verify, sets_verify, total_bytes, free_bytes }
    };
    Ok(Json(reports.into_iter().map(shown).collect()))
}

async fn change(
    State(admin): State<Arc<Admin>>,
    Json(request): Json<PoolRequest>,
) -> Result<Json<NodeDone>, Refused> {
    let PoolRequest { name, action, targets, copies, verify } = request;
    if action != "set" && (copies.is_some() || verify.is_some()) {
        return Err(refused("copies and verify are set with the action \"set\""));
    }
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
        ("set", true) => {
            if copies.is_none() && verify.is_none() {
                return Err(refused("nothing to set; name copies or verify"));
            }
            let verify = verify.map(|text| match text.as_str() {
                "default" => Ok(None),
                text => cluster::verify(text).map(Some),
            });
            let verify = verify.transpose().map_err(refused)?;
            let change = |policy: PoolPolicy| PoolPolicy {
                copies: copies.map_or(policy.copies, |number| (number > 0).then_some(number)),
                verify: verify.unwrap_or(policy.verify),
            };
            in_time(cluster.set_pool_policy(&name, change)).await?.map_err(refused)?;
            format!("it holds in the pool {name}; files that exist get copies by heorot stripe apply")
        }
        ("create" | "remove" | "set", false) => {
            return Err(refused("targets are put into a pool, or out of it, with the action \"add\""));
        }
        ("add", true) => return Err(refused("name the targets, or their data servers")),
        ("add", false) => {
            let count = in_time(cluster.put_into_pool(&name, &targets)).await?.map_err(refused)?;
            format!("{count} targets are in the pool {name}; data of other pools leave them (heorot status)")
        }
        (other, _) => {
            return Err(refused(format!("a pool is created, set, added to or removed, and not {other:?}")));
        }
    };
    tracing::info!(pool = name, action, ?targets, "a pool is changed");
    Ok(Json(NodeDone { done }))
}
