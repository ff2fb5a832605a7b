//! Routes of the admin interface for servers: `GET /nodes`, `PUT /node`.

use std::sync::Arc;

use axum::extract::State;
use axum::routing::{get, put};
use axum::{Json, Router};
use cluster::{NodeChange, NodeReport, NodeRoles};
use metaserver::status::state_word;
use namespace::{DataServerId, NodeKey};

use crate::admin::api::{Node, NodeDone, NodeRequest};
use crate::admin::http::{Admin, Refused, failed, metaserver, refused};

/// Router of this module.
pub(crate) fn routes() -> Router<Arc<Admin>> {
    Router::new().route("/nodes", get(nodes)).route("/node", put(change))
}

async fn nodes(State(admin): State<Arc<Admin>>) -> Result<Json<Vec<Node>>, Refused> {
    let nodes = metaserver(&admin)?.cluster().nodes().await.map_err(failed)?;
    Ok(Json(nodes.into_iter().map(shown).collect()))
}

async fn change(
    State(admin): State<Arc<Admin>>,
    Json(request): Json<NodeRequest>,
) -> Result<Json<NodeDone>, Refused> {
    let change = match request.action.as_str() {
        "drain" => NodeChange::Drain,
        "undrain" => NodeChange::Undrain,
        "remove" => NodeChange::Remove,
        "promote" => NodeChange::Promote,
        "demote" => NodeChange::Demote,
        "lead" => NodeChange::Lead,
        other => {
            let known = "drain, undrain, remove, promote, demote or lead";
            return Err(refused(format!("there is no action {other:?}; it must be {known}")));
        }
    };
    let roles = match request.role.as_str() {
        "" => NodeRoles::Any,
        "mds" => NodeRoles::Metaserver,
        "ds" => NodeRoles::DataServer,
        other => return Err(refused(format!("there is no role {other:?}; it must be mds or ds"))),
    };
    // A task of its own: the change finishes even if the client disconnects.
    let server = Arc::clone(metaserver(&admin)?);
    let work = async move { server.change_node(&request.name, roles, change, request.force).await };
    let done = tokio::spawn(work).await.map_err(failed)?;
    Ok(Json(NodeDone { done: done.map_err(refused)? }))
}

fn shown(node: NodeReport) -> Node {
    let (NodeKey::Metaserver(id) | NodeKey::DataServer(DataServerId(id))) = node.key;
    Node {
        id: format!("{id:016x}"),
        name: node.name,
        role: node.role.into(),
        address: node.address,
        state: state_word(node.state).into(),
        liveness: node.liveness,
        version: node.version,
        seen_ms: node.seen.map(|ago| ago.as_millis() as u64),
        applied: node.applied,
        lag: node.lag,
        service_addresses: node.service_addresses.iter().map(ToString::to_string).collect(),
        objects: node.objects,
    }
}
