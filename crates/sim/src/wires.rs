//! What a replica is connected to: the other members, over the network, and the history.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use namespace::Command;
use replica::{
    AnswerFuture, Applied, BeforeOrder, CallFuture, Channel, Member as ReplicaMember, Observer, Transport,
    Unreachable,
};

use crate::net::{Address, Call, CallAnswer};
use crate::shared::Shared;

/// Transport of a member on the simulated network.
pub(crate) struct SimTransport {
    /// Address of the member.
    pub from: Address,
    /// State shared with the simulation.
    pub shared: Arc<Shared>,
}

impl Transport for SimTransport {
    fn call(&self, to: &ReplicaMember, channel: Channel, body: Bytes, limit: Duration) -> CallFuture {
        let Ok(to) = to.address.parse() else {
            let why = format!("{} is no address", to.address);
            return Box::pin(async move { Err(Unreachable::NotSent(why)) });
        };
        let (lane, may_come_twice) = match channel {
            Channel::Entries => (0, true),
            Channel::Heartbeats => (1, true),
            // Repeated chunks are an error for the receiver; a connection does not repeat calls.
            Channel::Snapshots => (2, false),
            Channel::Requests => (3, false),
        };
        let outcome = self.shared.net().call(self.from, to, lane, may_come_twice, Call::Member(body));
        Box::pin(async move {
            match tokio::time::timeout(limit, outcome).await {
                Ok(Ok(Ok(CallAnswer::Member(answer)))) => Ok(answer),
                Ok(Ok(Err(why))) => Err(why),
                Ok(Ok(Ok(CallAnswer::Client(_))) | Err(_)) => Err(Unreachable::NoAnswer("no answer".into())),
                Err(_) => Err(Unreachable::NoAnswer("no answer in time".into())),
            }
        })
    }
}

/// Observer that notes the commands that a member applies.
pub(crate) struct HistoryObserver {
    /// Id of the member.
    pub id: Address,
    /// Incarnation of its group.
    pub incarnation: u64,
    /// State shared with the simulation.
    pub shared: Arc<Shared>,
}

impl Observer for HistoryObserver {
    fn applied(&self, applied: &Applied<'_>) {
        if self.incarnation != self.shared.incarnation() {
            return;
        }
        let Applied { index, proposal, reply, .. } = *applied;
        self.shared.history().note_applied(self.shared.now_ms(), self.id, index, proposal, reply);
    }

    fn replaced(&self) {
        self.shared.note(|| format!("member {} has a snapshot", self.id));
    }

    fn answer_peer(&self, question: Bytes) -> AnswerFuture {
        Box::pin(std::future::ready(question))
    }

    fn before_order(&self, _: &Command) -> Option<BeforeOrder> {
        None
    }
}
