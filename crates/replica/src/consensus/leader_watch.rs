//! Leader watch, for a fast leader election: a follower stands for election as soon as the leader's process
//! is dead, without an election time-out.
//!
//! ```text
//! leader    ── heartbeat ── heartbeat ── killed
//! follower  ........................ silent for 150 ms ── its kernel refuses a connection ── stands for election
//! ```
//!
//! Silence alone is no evidence: the machine or the network may be slow. A refused connection is evidence:
//! the kernel of that machine is alive, and no process listens on the member's port. So the watch changes
//! nothing for a leader that hangs or is partitioned. A leader whose messages arrive is never probed: a
//! firewall that refuses connections to it but passes its heartbeats causes no election. A follower stands
//! once for each leader; afterwards the time-outs decide.
//!
//! The other voters still hold openraft's lease of the leader, so the vote request is sent as a leadership
//! transfer, which openraft accepts. Nothing depends on that lease: a majority confirms a leader
//! (`ReadPolicy::ReadIndex`), and a new leader waits for the read leases of the old one (`read_lease`).

use std::sync::Arc;
use std::time::Duration;

use openraft::Raft;
use openraft::raft::TransferLeaderRequest;
use openraft::type_config::async_runtime::WatchReceiver;

use crate::consensus::liveness::Liveness;
use crate::state::machine::Machine;
use crate::transport::Transport;
use crate::types::{Member, NodeId, Types, Vote};

/// Interval of checks for messages of the leader.
const CHECK_EVERY: Duration = Duration::from_millis(50);
/// Checks without a message before the leader is probed. A heartbeat is due every 100 ms: one is missing, and
/// half the time to the next has passed.
const SILENT_CHECKS_MIN: u32 = 3;
/// Delay between followers, which stand one after the other by their ids: a follower whose log is shorter
/// than another's is refused, and the next one stands. (In one term a vote with a larger id wins over one
/// with a smaller.)
const ELECTION_STAGGER: Duration = Duration::from_millis(100);

/// Stands for election when the leader's process is dead; runs until consensus stops.
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
            silent = 0; // probed again after the same time of silence
            continue;
        }
        tokio::time::sleep(ELECTION_STAGGER * watched.position).await;
        let unchanged = WatchedLeader::current(id, raft).is_some_and(|now| now.vote == watched.vote);
        if !unchanged || liveness.leader_messages() != last {
            continue;
        }
        tracing::info!(leader = %watched.leader.name, "the leader's process is dead, this metaserver stands for election");
        stood_against = Some(watched.vote);
        if raft.handle_transfer_leader(TransferLeaderRequest::new(watched.vote, id, None)).await.is_err() {
            return; // consensus has stopped
        }
    }
}

/// Leader of this voter, if it is another member.
struct WatchedLeader {
    vote: Vote,
    leader: Member,
    /// Number of voters that stand before this one.
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
