//! Removal of this member: a removed member must learn of it and stop, instead of requesting votes in vain.
//!
//! The leader that removed the member tells it. A member that could not be told sees its log stand still, and
//! asks the others: a member that knows a later membership without this member says so. Members are
//! authenticated, so their answers are trusted.

use std::sync::Arc;
use std::time::Duration;

use openraft::Raft;
use openraft::type_config::async_runtime::WatchReceiver;

use crate::state::machine::Machine;
use crate::transport::{self, Channel, Request, Transport};
use crate::types::{NodeId, Types};
use host::watch;

/// Interval at which a member whose log stands still asks whether it still belongs to the group.
const ASK_EVERY: Duration = Duration::from_secs(2);
/// Time-out of that question.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(1);
/// Reason that a removed member gives when it stops.
pub(crate) const REMOVED: &str = "this member was removed from its group";

/// Returns the reason to stop when this member was removed. `told` is set by the leader's message, or here.
pub(crate) async fn watch_removal(
    id: NodeId,
    raft: &Raft<Types, Machine>,
    transport: &Arc<dyn Transport>,
    told: &watch::Sender<bool>,
) -> String {
    let mut heard = told.subscribe();
    let asks = async {
        let mut last = None;
        // A joining member is in no committed membership yet, and perhaps never will be in the one that its
        // log has.
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
