//! The admin interface and the metrics page: what is answered to a request that `admin_access` has let through.
//!
//! | | |
//! | --- | --- |
//! | `GET /metrics` | counters, for Prometheus |
//! | `GET /status` | [`Status`] or [`DataServerStatus`] |
//! | `GET /stripe?path=/dir`, `PUT /stripe` | [`Stripe`]; metaserver only |
//! | `POST /clean` | [`Clean`]; metaserver only |
//! | `GET /backup` | all metadata, see [`replica::Backup`]; metaserver only |
//! | `GET /nodes`, `PUT /node` | see `admin_nodes`; metaserver only |

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use dataserver::DataServer;
use metaserver::Metaserver;
use prometheus_client::registry::Registry;
use serde::Deserialize;

use crate::api::{self, Clean, DataServerStatus, Refusal, Status, Stripe, StripeRequest, Target};
use crate::ds::RunningDs;
use crate::mds::RunningMds;
use crate::{admin_access, admin_backup, admin_nodes, metrics};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The servers of this process.
pub(crate) struct Admin {
    metaserver: Option<Arc<Metaserver>>,
    data_servers: Vec<Arc<DataServer>>,
    registries: Vec<Registry>,
}

impl Admin {
    /// For these servers.
    pub(crate) fn new(mds: Option<&RunningMds>, servers: &[&RunningDs]) -> Arc<Self> {
        let metaserver = mds.map(|mds| Arc::clone(&mds.metaserver));
        let data_servers: Vec<_> = servers.iter().map(|ds| Arc::clone(&ds.data_server)).collect();
        let mut registries = Vec::new();
        if let Some(metaserver) = &metaserver {
            let labels = [("role", "metaserver"), ("server", "mds"), ("caller", "client")];
            let mut registry = metrics::registry(&metaserver.metrics(), &labels);
            metaserver.reports().register(&mut registry);
            registries.push(registry);
        }
        for ds in &data_servers {
            let labels = |caller| [("role", "dataserver"), ("server", ds.name()), ("caller", caller)];
            registries.push(metrics::registry(ds.metrics(), &labels("client")));
            registries.push(metrics::registry(ds.data_metrics(), &labels("metaserver")));
        }
        Arc::new(Self { metaserver, data_servers, registries })
    }
}

/// What is answered to which request.
pub(crate) fn router(admin: Arc<Admin>) -> Router {
    Router::new()
        .route(admin_access::METRICS, get(metrics_page))
        .route("/status", get(status))
        .route("/stripe", get(stripe_get).put(stripe_put))
        .route("/clean", post(clean))
        .merge(admin_nodes::routes())
        .merge(admin_backup::routes())
        .with_state(admin)
}

/// Why there is no answer.
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

pub(crate) fn metaserver(admin: &Admin) -> Result<&Arc<Metaserver>, Refused> {
    let why = "this is a data server; ask a metaserver's admin address";
    admin.metaserver.as_ref().ok_or_else(|| Refused(StatusCode::NOT_FOUND, why.into()))
}

async fn metrics_page(State(admin): State<Arc<Admin>>) -> Result<Response, Refused> {
    let cluster = match &admin.metaserver {
        Some(metaserver) => Some(metrics::cluster(&metaserver_status(metaserver).await?)),
        None => None,
    };
    let page = metrics::page(admin.registries.iter().chain(&cluster));
    Ok(([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], page).into_response())
}

async fn status(State(admin): State<Arc<Admin>>) -> Result<Response, Refused> {
    if let Some(metaserver) = &admin.metaserver {
        return Ok(Json(metaserver_status(metaserver).await?).into_response());
    }
    let asked = Arc::clone(&admin);
    let space = tokio::task::spawn_blocking(move || data_server_status(&asked)).await;
    Ok(Json(space.map_err(failed)?).into_response())
}

fn data_server_status(admin: &Admin) -> DataServerStatus {
    let target = |space: wire::data::TargetSpace| Target {
        id: format!("{:016x}", space.target),
        path: String::from_utf8_lossy(&space.path).into_owned(),
        total_bytes: space.total,
        free_bytes: space.free,
        objects: space.objects,
        state: api::state(true, space.condition),
    };
    DataServerStatus {
        role: "dataserver".into(),
        version: VERSION.into(),
        name: admin.data_servers.iter().map(|ds| ds.name()).collect::<Vec<_>>().join(", "),
        targets: admin.data_servers.iter().flat_map(|ds| ds.space()).map(target).collect(),
    }
}

async fn metaserver_status(metaserver: &Metaserver) -> Result<Status, Refused> {
    let report = metaserver.status().await.map_err(failed)?;
    let target = |t: metaserver::TargetReport| Target {
        id: format!("{:016x}", t.target.0),
        path: t.path,
        total_bytes: t.total_bytes,
        free_bytes: t.free_bytes,
        objects: t.objects,
        state: api::state(t.alive, t.condition),
    };
    let group = &report.group;
    let metaserver = |(id, member, voter): &(u64, replica::Member, bool)| api::Metaserver {
        id: format!("{id:016x}"),
        name: member.name.clone(),
        consensus: member.address.clone(),
        role: match (group.leader == Some(*id), voter) {
            (true, _) => "leader",
            (false, true) => "voter",
            (false, false) => "learner",
        }
        .into(),
        answers: *id == group.id,
    };
    let metaservers = group.members.iter().map(metaserver).collect();
    let name =
        |id: &u64| group.members.iter().find(|(of, ..)| of == id).map(|(_, member, _)| member.name.clone());
    let service_address = |(address, holder): (&std::net::IpAddr, &Option<u64>)| api::ServiceAddress {
        address: address.to_string(),
        holder: holder.as_ref().and_then(name),
    };
    let service_addresses = report.service_addresses.iter().map(service_address).collect();
    let data_servers = report.data_servers.into_iter().map(|s| api::DataServer {
        id: format!("{:016x}", s.id.0),
        name: s.name,
        addresses: s.addresses,
        targets: s.targets.into_iter().map(target).collect(),
    });
    Ok(Status {
        role: "metaserver".into(),
        version: VERSION.into(),
        cluster: crate::secret::hex(&report.cluster),
        uptime_seconds: report.uptime.as_secs(),
        clients: report.clients,
        sessions: report.sessions,
        inodes: report.inodes,
        work: report.work,
        proxied_read_bytes: report.bytes_read_here,
        proxied_written_bytes: report.bytes_written_here,
        metaservers,
        service_addresses,
        data_servers: data_servers.collect(),
    })
}

#[derive(Deserialize)]
struct StripeQuery {
    path: String,
}

async fn stripe_get(
    State(admin): State<Arc<Admin>>,
    Query(query): Query<StripeQuery>,
) -> Result<Json<Stripe>, Refused> {
    let report = metaserver(&admin)?.stripe_get(&query.path).await.map_err(refused)?;
    let (unit_bytes, columns) = (report.unit_bytes, report.columns);
    Ok(Json(Stripe { path: report.path, unit_bytes, columns, set_on: report.set_on }))
}

async fn stripe_put(
    State(admin): State<Arc<Admin>>,
    Json(request): Json<StripeRequest>,
) -> Result<Json<Stripe>, Refused> {
    let metaserver = metaserver(&admin)?;
    let policy = match request {
        StripeRequest { inherit: true, unit_bytes: None, columns: None, .. } => None,
        StripeRequest { inherit: true, .. } => {
            return Err(refused("a policy is either inherited or has unit and columns; name one of these"));
        }
        StripeRequest { unit_bytes: None, columns: None, .. } => {
            return Err(refused("nothing to set; name unit_bytes, columns or inherit"));
        }
        StripeRequest { unit_bytes, columns, .. } => {
            let now = metaserver.stripe_get(&request.path).await.map_err(refused)?;
            Some((unit_bytes.unwrap_or(now.unit_bytes.into()), columns.unwrap_or(now.columns)))
        }
    };
    let report = metaserver.stripe_set(&request.path, policy).await.map_err(refused)?;
    let (unit_bytes, columns) = (report.unit_bytes, report.columns);
    Ok(Json(Stripe { path: report.path, unit_bytes, columns, set_on: report.set_on }))
}

async fn clean(State(admin): State<Arc<Admin>>) -> Result<Json<Clean>, Refused> {
    let report = metaserver(&admin)?.clean().await.map_err(failed)?;
    Ok(Json(Clean { objects_seen: report.objects_seen, objects_removed: report.objects_removed }))
}
