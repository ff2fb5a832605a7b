//! Handlers of the admin interface and the metrics page, for requests that `admin::access` has allowed.
//!
//! | | |
//! | --- | --- |
//! | `GET /metrics` | counters, for Prometheus |
//! | `GET /status` | [`metaserver::status::Status`] or [`DataServerStatus`] |
//! | `/stripe`, `/stripe/apply` | see `admin_stripe`; metaserver only |
//! | `/volumes`, `/volume` | see `volumes`; metaserver only |
//! | `GET /clients` | see `clients`; metaserver only |
//! | `/quotas`, `/quota` | see `quotas`; metaserver only |
//! | `/snapshots`, `/snapshot` | see `snapshots`; metaserver only |
//! | `/boot`, `/boot/image`, `/boot/loaders` | see `boot`; metaserver only |
//! | `POST /clean?after_restore=` | [`Clean`]; metaserver only |
//! | `POST /adopt` | [`Adopted`]; data server only |
//! | `GET /backup` | all metadata, see [`replica::Backup`]; metaserver only |
//! | `GET /nodes`, `PUT /node` | see `admin_nodes`; metaserver only |
//! | `GET /targets`, `PUT /target`, `GET /files` | see `admin_targets`; metaserver only |
//! | `PUT /targets` | see `admin_targets`; data server only |
//! | `GET /rebalance`, `POST /rebalance` | see `admin_balance`; metaserver only |
//! | `/settings`, `/exports`, `/service-addresses` | see `admin_settings`; metaserver only |

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use dataserver::DataServer;
use metaserver::Metaserver;
use metaserver::status::condition_word;
use prometheus_client::registry::Registry;
use serde::Deserialize;

use crate::admin::api::{Adopted, Clean, DataServerStatus, Refusal, Target};
use crate::admin::{
    access, backup, balance, boot, clients, metrics, nodes, pools, quotas, settings, snapshots, stripe,
    targets, tokens, volumes,
};
use crate::node::ds_file::no_targets_of_up;
use crate::node::secret::Secret;
use crate::servers::ds::RunningDs;
use crate::servers::known_metaservers::KnownMetaservers;
use crate::servers::mds::RunningMds;
use crate::servers::more_targets::MoreTargets;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Servers of this process.
pub(crate) struct Admin {
    metaserver: Option<Arc<Metaserver>>,
    /// Metaservers that the data servers know.
    metaservers: Option<Arc<KnownMetaservers>>,
    /// Cluster secret, of a metaserver that machines can join.
    group_secret: Option<Secret>,
    data_servers: Vec<Arc<DataServer>>,
    registries: Vec<Registry>,
    more_targets: Option<Arc<MoreTargets>>,
}

impl Admin {
    /// Admin interface of these servers.
    pub(crate) fn new(mds: Option<&RunningMds>, servers: &[&RunningDs]) -> Arc<Self> {
        let metaserver = mds.map(|mds| Arc::clone(&mds.metaserver));
        let data_servers: Vec<_> = servers.iter().map(|ds| Arc::clone(&ds.data_server)).collect();
        let mut registries = Vec::new();
        if let Some(metaserver) = &metaserver {
            let labels = [("role", "metaserver"), ("server", "mds"), ("caller", "client")];
            let mut registry = metrics::registry(&metaserver.metrics(), &labels);
            metaserver.reports().register(&mut registry);
            metaserver.admission().refusals().register(&mut registry);
            metaserver.boot_cache().register(&mut registry);
            registries.push(registry);
        }
        for ds in &data_servers {
            let labels = |caller| [("role", "dataserver"), ("server", ds.name()), ("caller", caller)];
            registries.push(metrics::registry(ds.metrics(), &labels("client")));
            let mut registry = metrics::registry(ds.data_metrics(), &labels("metaserver"));
            ds.chain_metrics().register(&mut registry);
            registries.push(registry);
        }
        let metaservers = servers.first().map(|ds| Arc::clone(&ds.metaservers));
        let more_targets = servers.first().and_then(|ds| ds.more_targets.clone());
        let mut build = metrics::build_info(VERSION);
        if let Some(mds) = mds {
            mds.register_metrics(&mut build);
        }
        registries.push(build);
        let group_secret = mds.and_then(RunningMds::group_secret);
        Arc::new(Self { metaserver, metaservers, group_secret, data_servers, registries, more_targets })
    }

    pub(crate) fn group_secret(&self) -> Option<&Secret> {
        self.group_secret.as_ref()
    }
}

/// The data server of this process, which can get more targets.
pub(crate) fn more_targets(admin: &Admin) -> Result<&Arc<MoreTargets>, Refused> {
    admin.more_targets.as_ref().ok_or_else(|| match admin.data_servers.is_empty() {
        true => Refused(
            StatusCode::NOT_FOUND,
            "this is a metaserver, which has no targets; run the command on the machine of the data server, with --admin DIR \
             or --config FILE if its directory is another than /var/lib/heorot"
                .into(),
        ),
        false => refused(no_targets_of_up()),
    })
}

/// Routes and their handlers.
pub(crate) fn router(admin: Arc<Admin>) -> Router {
    Router::new()
        .route(access::METRICS, get(metrics_page))
        .route("/status", get(status))
        .route("/clean", post(clean))
        .route("/adopt", post(adopt))
        .merge(boot::routes())
        .merge(clients::routes())
        .merge(nodes::routes())
        .merge(pools::routes())
        .merge(quotas::routes())
        .merge(snapshots::routes())
        .merge(stripe::routes())
        .merge(targets::routes())
        .merge(tokens::routes())
        .merge(volumes::routes())
        .merge(backup::routes())
        .merge(balance::routes())
        .merge(settings::routes())
        .with_state(admin)
}

/// Refusal of a request.
#[derive(Debug)]
pub(crate) struct Refused(pub StatusCode, pub String);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (self.0, Json(Refusal { error: self.1 })).into_response()
    }
}

pub(crate) fn refused(error: impl std::fmt::Display) -> Refused {
    Refused(StatusCode::UNPROCESSABLE_ENTITY, error.to_string())
}

pub(crate) fn failed(error: impl std::fmt::Display) -> Refused {
    Refused(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
}

/// Time limit of a change; a group with a quorum agrees within it.
const AGREE_TIME_MAX: Duration = Duration::from_secs(10);

/// Runs `work`, which needs a quorum, with the time limit.
pub(crate) async fn in_time<T>(work: impl Future<Output = T>) -> Result<T, Refused> {
    let why = "not done yet, and may be when enough metaservers with a vote can be reached; heorot status shows them";
    let outcome = tokio::time::timeout(AGREE_TIME_MAX, work).await;
    outcome.map_err(|_| Refused(StatusCode::SERVICE_UNAVAILABLE, why.into()))
}

pub(crate) fn metaserver(admin: &Admin) -> Result<&Arc<Metaserver>, Refused> {
    let why = "this is a data server; ask a metaserver's admin address";
    admin.metaserver.as_ref().ok_or_else(|| Refused(StatusCode::NOT_FOUND, why.into()))
}

/// Lets the data servers of this process obey the new incarnation that they heard of and refused so far.
async fn adopt(State(admin): State<Arc<Admin>>) -> Result<Json<Adopted>, Refused> {
    if admin.data_servers.is_empty() {
        let why = "this is a metaserver; ask a data server: --admin DIR, where DIR is its directory";
        return Err(Refused(StatusCode::NOT_FOUND, why.into()));
    }
    let all = tokio::task::spawn_blocking(move || {
        let adopted = admin.data_servers.iter().map(|server| server.adopt());
        adopted.filter_map(Result::transpose).collect::<Result<Vec<_>, _>>()
    });
    let adopted = all.await.map_err(failed)?.map_err(refused)?;
    Ok(Json(Adopted { epochs: adopted.into_iter().map(|incarnation| incarnation.epoch).collect() }))
}

async fn metrics_page(State(admin): State<Arc<Admin>>) -> Result<Response, Refused> {
    let mut cluster = None;
    if let Some(metaserver) = &admin.metaserver {
        cluster = Some(metrics::cluster(&metaserver.status().await.map_err(failed)?));
    }
    let checksums = metrics::checksums(admin.data_servers.iter().map(Arc::as_ref));
    let page = metrics::page(admin.registries.iter().chain(&cluster).chain([&checksums]));
    Ok(([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], page).into_response())
}

async fn status(State(admin): State<Arc<Admin>>) -> Result<Response, Refused> {
    if let Some(metaserver) = &admin.metaserver {
        return Ok(Json(metaserver.status().await.map_err(failed)?).into_response());
    }
    let cluster = match &admin.metaservers {
        Some(metaservers) => metaservers.cluster_status().await,
        None => None,
    };
    let asked = Arc::clone(&admin);
    let space = tokio::task::spawn_blocking(move || data_server_status(&asked, cluster)).await;
    Ok(Json(space.map_err(failed)?).into_response())
}

fn data_server_status(admin: &Admin, cluster: Option<serde_json::Value>) -> DataServerStatus {
    let target = |space: wire::data::TargetSpace| Target {
        id: format!("{:016x}", space.target),
        path: String::from_utf8_lossy(&space.path).into_owned(),
        total_bytes: space.total,
        free_bytes: space.free,
        objects: space.objects,
        trash_bytes: space.trash,
        reserve_bytes: space.reserve,
        state: condition_word(space.condition).into(),
    };
    DataServerStatus {
        role: "dataserver".into(),
        version: VERSION.into(),
        name: admin.data_servers.iter().map(|ds| ds.name()).collect::<Vec<_>>().join(", "),
        targets: admin.data_servers.iter().flat_map(|ds| ds.space()).map(target).collect(),
        checksums: admin.data_servers.iter().flat_map(|ds| ds.checks_of_targets()).map(Into::into).collect(),
        cluster,
    }
}

#[derive(Deserialize)]
struct CleanQuery {
    #[serde(default)]
    after_restore: bool,
}

async fn clean(
    State(admin): State<Arc<Admin>>,
    Query(query): Query<CleanQuery>,
) -> Result<Json<Clean>, Refused> {
    let metaserver = metaserver(&admin)?;
    if let Some(left) = metaserver.data().held_back_by_restore().filter(|_| !query.after_restore) {
        return Err(refused(format!(
            "not cleaned: this group was restored from a backup less than an hour ago, and takes all that was made after that \
             backup for objects of no file. Look first at what is missing; it is cleaned by itself in {} minutes, and by \
             heorot clean --after-restore now",
            left.as_secs().div_ceil(60)
        )));
    }
    let report = metaserver.data().clean().await;
    let (objects_seen, objects_removed) = (report.objects_seen, report.objects_removed);
    let (targets_cleaned, not_cleaned) = (report.targets_cleaned, report.not_cleaned);
    Ok(Json(Clean { objects_seen, objects_removed, targets_cleaned, not_cleaned }))
}
