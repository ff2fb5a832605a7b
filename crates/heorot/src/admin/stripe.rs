//! Routes of the admin interface for striping and copies: `GET /stripe?path=/dir`, `PUT /stripe`, and
//! `PUT /stripe/apply`, which begins, and `GET /stripe/apply`, which tells how far it is.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;

use crate::admin::api::{Stripe, StripeApplied, StripeApplyRequest, StripeRequest};
use crate::admin::http::{Admin, Refused, in_time, metaserver, refused};

/// Router of this module.
pub(crate) fn routes() -> Router<Arc<Admin>> {
    Router::new()
        .route("/stripe", get(stripe_get).put(stripe_put))
        .route("/stripe/apply", get(applied).put(apply))
}

fn shown(report: metaserver::StripeReport) -> Stripe {
    let metaserver::StripeReport { path, unit_bytes, columns, copies, sets_copies, pool, set_on } = report;
    Stripe { path, unit_bytes, columns, copies, sets_copies, pool, set_on }
}

#[derive(Deserialize)]
struct StripeQuery {
    path: String,
}

async fn stripe_get(
    State(admin): State<Arc<Admin>>,
    Query(query): Query<StripeQuery>,
) -> Result<Json<Stripe>, Refused> {
    let report = metaserver(&admin)?.data().stripe_get(&query.path).await.map_err(refused)?;
    Ok(Json(shown(report)))
}

async fn stripe_put(
    State(admin): State<Arc<Admin>>,
    Json(request): Json<StripeRequest>,
) -> Result<Json<Stripe>, Refused> {
    let metaserver = metaserver(&admin)?;
    let policy = match request {
        StripeRequest {
            inherit: true, unit_bytes: None, columns: None, copies: None, pool: None, ..
        } => None,
        StripeRequest { inherit: true, .. } => {
            return Err(refused(
                "a policy is either inherited or has unit, columns, copies and pool; name one of these",
            ));
        }
        StripeRequest { unit_bytes: None, columns: None, copies: None, pool: None, .. } => {
            return Err(refused("nothing to set; name unit_bytes, columns, copies, pool or inherit"));
        }
        StripeRequest { unit_bytes, columns, copies, pool, .. } => {
            let now = metaserver.data().stripe_get(&request.path).await.map_err(refused)?;
            Some(metaserver::NewStripe {
                unit_bytes: unit_bytes.unwrap_or(now.unit_bytes.into()),
                columns: columns.unwrap_or(now.columns),
                copies: copies.unwrap_or(if now.sets_copies { now.copies.into() } else { 0 }),
                pool: pool.unwrap_or(now.pool),
            })
        }
    };
    let report = in_time(metaserver.data().stripe_set(&request.path, policy)).await?.map_err(refused)?;
    Ok(Json(shown(report)))
}

async fn apply(
    State(admin): State<Arc<Admin>>,
    Json(request): Json<StripeApplyRequest>,
) -> Result<Json<StripeApplied>, Refused> {
    let begun = metaserver(&admin)?.data().stripe_apply(&request.path).map_err(refused)?;
    Ok(Json(begun.into()))
}

async fn applied(State(admin): State<Arc<Admin>>) -> Result<Json<Option<StripeApplied>>, Refused> {
    Ok(Json(metaserver(&admin)?.data().stripe_applied().map(Into::into)))
}
