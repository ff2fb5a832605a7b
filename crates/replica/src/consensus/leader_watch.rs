//! A leader whose process is dead is followed at once, not after an election's time-out.
//!
//! ```text
//! leader    ── heartbeat ── heartbeat ── killed
//! follower  ........................ silent for 150 ms ── its kernel refuses a connection ── stands for election
//! ```
//!
//! Silence alone is no evidence: a machine may be slow, and the network may be. A refused connection is: the kernel there
//! lives, and nobody listens where that member listens for as long as its process is there. So this changes nothing for a
//! leader that hangs or is cut off. A leader that can be heard is never asked: where a firewall refuses what goes to it,
//! but lets its heartbeats through, no election follows. And whoever stands does so once for each leader; after that the
//! time-outs decide, as ever.
//!
//! The other voters still count on the leader that they have heard a moment ago (its lease): the vote goes out as one
//! that the leader has handed over, which openraft lets pass. Nothing depends on that lease of openraft's: a leader is
//! confirmed by a majority (`ReadPolicy::ReadIndex`), and a new one waits for the read leases that the old one may have
//! given (`read_lease`).

use std::sync::Arc;
use std::time::Duration;

use openraft::Raft;
use openraft::raft::TransferLeaderRequest;
use openraft::type_config::async_runtime::WatchReceiver;

use crate::consensus::liveness::Liveness;
use crate::state::machine::Machine;
use crate::transport::Transport;
use crate::types::{Member, NodeId, Types, Vote};

/// How often to look whether the leader was heard.
const CHECK_EVERY: Duration = Duration::from_millis(50);
/// A heartbeat is due every 100 ms: with one missing, and half the time to the next, it is worth a question.
const SILENT_CHECKS_MIN: u32 = 3;
/// Followers stand one after the other, by their numbers: whoever has less of the log than another is refused, and that
/// one stands next. (A vote of the same term with a larger number goes before one with a smaller.)
const ELECTION_STAGGER: Duration = Duration::from_millis(100);

/// Stands for election when the leader's process is found dead; for ever.
pub(crate) async fn watch_leader(
    id: NodeId,
    raft: &Raft<Types, Machine>,
    transport: &Arc<dyn Transport>,
    liveness: &Liveness,
) {
    let mut checks = tokio::time::interval(CHECK_EVERY);
    checks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut last, mut silent) = (0, 0);
    let mut stood_against = None;
    loop {
        checks.tick().await;
        let now = liveness.leader_messages();
        silent = if now == last { silent + 1 } else { 0 };
        last = now;
        if silent < SILENT_CHECKS_MIN {
            continue;
        }
        let Some(watched) =
            WatchedLeader::current(id, raft).filter(|watched| stood_against != Some(watched.vote))
        else {
            continue;
        };
        if !transport.refuses_connections(&watched.leader).await {
            silent = 0; // asked again after as long a silence
            continue;
        }
        tokio::time::sleep(ELECTION_STAGGER * watched.position).await;
        let unchanged = WatchedLeader::current(id, raft).is_some_and(|now| now.vote == watched.vote);
        if !unchanged || liveness.leader_messages() != last {
            continue;
        }
        tracing::info!(leader = %watched.leader.name, "the leader's process is dead: standing for election");
        stood_against = Some(watched.vote);
        if raft.handle_transfer_leader(TransferLeaderRequest::new(watched.vote, id, None)).await.is_err() {
            return; // stopped
        }
    }
}

/// A voter's leader, if that is another member.
struct WatchedLeader {
    vote: Vote,
    leader: Member,
    /// How many voters stand before this one.
    position: u32,
}

impl WatchedLeader {
    fn current(id: NodeId, raft: &Raft<Types, Machine>) -> Option<Self> {
        let metrics = raft.metrics().borrow_watched().clone();
        let leader = metrics.current_leader.filter(|leader| *leader != id && metrics.vote.is_committed())?;
        let membership = metrics.membership_config.membership();
        let voters: Vec<NodeId> = membership.voter_ids().filter(|voter| *voter != leader).collect();
        let position = voters.iter().position(|voter| *voter == id)?;
        let position = u32::try_from(position).ok()?;
        Some(Self { vote: metrics.vote, leader: membership.get_node(&leader)?.clone(), position })
    }
}
