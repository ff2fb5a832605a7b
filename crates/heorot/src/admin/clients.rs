//! Route of the admin interface for clients: `GET /clients`.

use std::sync::Arc;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use metaserver::ClientReport;

use crate::admin::api::Client;
use crate::admin::http::{Admin, Refused, in_time, metaserver, refused};

/// Router of this module.
pub(crate) fn routes() -> Router<Arc<Admin>> {
    Router::new().route("/clients", get(report))
}

async fn report(State(admin): State<Arc<Admin>>) -> Result<Json<Vec<Client>>, Refused> {
    let reports = in_time(metaserver(&admin)?.client_report()).await?.map_err(refused)?;
    Ok(Json(reports.into_iter().map(shown).collect()))
}

fn shown(report: ClientReport) -> Client {
    let ClientReport { id, owner, addresses, silent_seconds, sessions, opens, locks, layouts, .. } = report;
    Client {
        id: format!("{id:016x}"),
        owner,
        addresses: addresses.iter().map(ToString::to_string).collect(),
        silent_seconds,
        sessions,
        opens,
        locks,
        layouts,
        read_delegations: report.read_delegations,
        write_delegations: report.write_delegations,
    }
}
