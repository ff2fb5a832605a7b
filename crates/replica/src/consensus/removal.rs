//! How a member finds out that it was removed: then it stops, instead of asking for votes that it does not get.
//!
//! The leader that removed it tells it. One that could not be told sees the log stand still, and asks the others: who
//! knows of later members, without this one, says so. What the others say is believed, since they proved that they belong.

use std::sync::Arc;
use std::time::Duration;

use openraft::Raft;
use openraft::type_config::async_runtime::WatchReceiver;

use crate::runtime::watch;
use crate::state::machine::Machine;
use crate::transport::{self, Channel, Request, Transport};
use crate::types::{NodeId, Types};

/// How often a member whose log stands still asks whether it still belongs.
const ASK_EVERY: Duration = Duration::from_secs(2);
/// For a small question.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(1);
/// What a member says when it stops.
pub(crate) const REMOVED: &str = "this member was removed from its group";

/// Returns why this member stops, when it was removed. `told` is set by who says so, or here.
pub(crate) async fn watch_removal(
    id: NodeId,
    raft: &Raft<Types, Machine>,
    transport: &Arc<dyn Transport>,
    told: &watch::Sender<bool>,
) -> String {
    let mut heard = told.subscribe();
    let asks = async {
        let mut last = None;
        // Who joins is in no list of members yet that all agreed on, and perhaps never will be in the one that its log has.
        let mut belonged = None;
        loop {
            tokio::time::sleep(ASK_EVERY).await;
            let metrics = raft.metrics().borrow_watched().clone();
            let agreed = &metrics.committed_membership_config;
            let belongs = agreed.get_node(&id).is_some();
            if belongs {
                belonged = agreed.log_id().map(|log_id| log_id.index);
            }
            let stands_still = last == metrics.last_log_index;
            last = metrics.last_log_index;
            let Some(at) = belonged.filter(|_| stands_still && !metrics.state.is_leader()) else { continue };
            if !belongs {
                return;
            }
            for (_, member) in metrics.membership_config.nodes().filter(|(other, _)| **other != id) {
                let body = transport::encode(&Request::WasRemoved { id, at });
                let answer = transport.call(member, Channel::Heartbeats, body, ANSWER_TIME_MAX).await;
                let removed = answer.ok().and_then(|answer| transport::decode::<bool>(&answer).ok());
                if removed == Some(true) {
                    return;
                }
            }
        }
    };
    tokio::select! {
        biased;
        () = asks => {}
        outcome = heard.wait_for(|removed| *removed) => drop(outcome.is_ok()),
    }
    told.set(true);
    REMOVED.into()
}
