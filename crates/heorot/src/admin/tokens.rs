//! Routes of the admin interface for join tokens: `GET /tokens`, `PUT /tokens`, `DELETE /tokens?id=…`.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;

use crate::admin::api::{JoinToken, JoinTokenRequest, NewJoinToken, NodeDone};
use crate::admin::http::{Admin, Refused, metaserver, refused};

/// Router of this module.
pub(crate) fn routes() -> Router<Arc<Admin>> {
    Router::new().route("/tokens", get(list).put(make).delete(revoke))
}

#[derive(Deserialize)]
struct Which {
    id: String,
}

async fn list(State(admin): State<Arc<Admin>>) -> Result<Json<Vec<JoinToken>>, Refused> {
    let tokens = metaserver(&admin)?.cluster().join_tokens().await.map_err(refused)?;
    let shown = |token: namespace::JoinToken| JoinToken {
        id: format!("{:016x}", token.id),
        made: token.made.seconds,
        expires: token.expires,
        used_by: token.used.map(|used| used.name),
    };
    Ok(Json(tokens.into_iter().map(shown).collect()))
}

async fn make(
    State(admin): State<Arc<Admin>>,
    Json(request): Json<JoinTokenRequest>,
) -> Result<Json<NewJoinToken>, Refused> {
    let metaserver = metaserver(&admin)?;
    let secret = admin.group_secret().ok_or_else(|| {
        refused("machines join a metaserver that has a `consensus` address: begin with heorot init, or add one to its file")
    })?;
    let (id, expires) = metaserver
        .cluster()
        .make_join_token(Duration::from_secs(request.valid_seconds))
        .await
        .map_err(refused)?;
    let token = secret.token(id, expires).to_string();
    Ok(Json(NewJoinToken { id: format!("{id:016x}"), token, expires }))
}

async fn revoke(
    State(admin): State<Arc<Admin>>,
    Query(Which { id }): Query<Which>,
) -> Result<Json<NodeDone>, Refused> {
    let number = u64::from_str_radix(&id, 16).ok().filter(|_| id.len() == 16);
    let number =
        number.ok_or_else(|| refused(format!("{id:?} is no token's id; heorot token list shows them")))?;
    metaserver(&admin)?.cluster().revoke_join_token(number).await.map_err(refused)?;
    Ok(Json(NodeDone { done: format!("join token {id} lets no machine in any more") }))
}
