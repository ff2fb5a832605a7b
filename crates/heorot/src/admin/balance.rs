//! Routes of the admin interface for the balance of targets: `GET /rebalance`, and `POST /rebalance`, which has the
//! leader look for chains to move at once.

use std::sync::Arc;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use cluster::{BalanceState, Cluster, WHY_IN_VAIN};

use crate::admin::api::PoolBalance;
use crate::admin::http::{Admin, Refused, in_time, metaserver, refused};

/// Router of this module.
pub(crate) fn routes() -> Router<Arc<Admin>> {
    Router::new().route("/rebalance", get(report).post(look))
}

type Answer = Result<Json<Vec<PoolBalance>>, Refused>;

async fn report(State(admin): State<Arc<Admin>>) -> Answer {
    balance(metaserver(&admin)?.cluster(), false).await
}

async fn look(State(admin): State<Arc<Admin>>) -> Answer {
    balance(metaserver(&admin)?.cluster(), true).await
}

async fn balance(cluster: &Cluster, look: bool) -> Answer {
    let pools = in_time(cluster.rebalance(look)).await?.map_err(refused)?;
    let known = cluster.known_targets().map_err(refused)?;
    let place = |id: namespace::TargetId| {
        let target = known.iter().find(|target| target.target == id);
        target.map_or_else(|| format!("{:016x}", id.0), cluster::KnownTarget::place)
    };
    let percent = |thousandths: u32| f64::from(thousandths) / 10.0;
    let shown = |pool: cluster::PoolBalance| PoolBalance {
        fullest: place(pool.fullest_target),
        fullest_percent: percent(pool.fullest),
        emptiest: place(pool.emptiest_target),
        emptiest_percent: percent(pool.emptiest),
        moving: pool.moving,
        incomplete: pool.incomplete,
        state: word(pool.state).into(),
        reason: reason(&pool),
        pool: pool.pool,
    };
    Ok(Json(pools.into_iter().map(shown).collect()))
}

fn word(state: BalanceState) -> &'static str {
    match state {
        BalanceState::Even => "even",
        BalanceState::Moving => "moving",
        BalanceState::Waiting => "waiting",
        BalanceState::Cleaning => "cleaning",
        BalanceState::Looking => "looking",
        BalanceState::InVain => "in vain",
    }
}

fn reason(pool: &cluster::PoolBalance) -> Option<String> {
    match pool.state {
        BalanceState::Even | BalanceState::Moving | BalanceState::Looking => None,
        BalanceState::Waiting => Some(format!(
            "{} chains lack a copy, or have one in another pool, and nothing else moves before that is over; heorot status says \
             more",
            pool.incomplete
        )),
        BalanceState::Cleaning => Some("objects that chains have left behind are removed first".into()),
        BalanceState::InVain => Some(WHY_IN_VAIN.into()),
    }
}
