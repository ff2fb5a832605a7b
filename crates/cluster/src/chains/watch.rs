//! The leader's watch on chains: it takes members out whose data servers are lost, takes them back, and tells the
//! others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use namespace::{CHAINS_OF_COMMAND_MAX, Chain, ChainChange, ChainStep, Command, DataServerId, TargetId};
use wire::cluster::register::{LeftChain, Refilled};
use wire::data::{self, Procedure, chain};

use super::known::Known;
use super::lease::LEASE;
use super::step::next_step;
use super::to_wire;
use crate::cluster::Cluster;
use crate::error::ClusterError;

/// Interval between two looks at the chains; a change of the map ends it.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Time limit of CHAIN. A data server that does not answer hears of its chains with its next heartbeat.
pub(super) const TELL_TIME_MAX: Duration = Duration::from_millis(500);

/// Logs a line for each target and kind of step: a target is in many chains.
fn log_changes(changes: &[ChainChange]) {
    let mut counts = BTreeMap::<(TargetId, &str), usize>::new();
    for ChainChange { chain, version, step } in changes {
        tracing::debug!(chain = %format!("{:016x}", chain.0), version, ?step, "a chain changes");
        let (target, what) = match *step {
            ChainStep::Leave(target) => (target, "a target leaves chains"),
            ChainStep::Return(target) => (target, "a target comes back to chains, and is refilled"),
            ChainStep::Complete(target) => (target, "a target has all data of chains"),
            ChainStep::Lead(target) => (target, "a target leads chains of which no member was there"),
            ChainStep::Replace(_, target) | ChainStep::Add(target) | ChainStep::Move(_, target) => {
                (target, "a target takes a place in chains, and is refilled")
            }
            ChainStep::Drop(target) => (target, "a target is not needed in chains any more"),
            ChainStep::Adopt([Some(target), ..], _) => {
                (target, "a target leads chains again after the restore")
            }
            ChainStep::Adopt(..)
            | ChainStep::Doubt
            | ChainStep::Close
            | ChainStep::Closed
            | ChainStep::Copies(_)
            | ChainStep::Pool(_) => continue,
        };
        *counts.entry((target, what)).or_default() += 1;
    }
    for ((target, what), chains) in counts {
        tracing::info!(target = %format!("{:016x}", target.0), chains, "{what}");
    }
}

impl Cluster {
    /// Watches the chains while this metaserver leads. Never returns.
    pub async fn watch_chains(self: Arc<Self>) {
        let mut looks = 0_u32;
        loop {
            let _ = tokio::time::timeout(LOOK_EVERY, self.chains.changed.notified()).await;
            let (leads, status) = (self.group.replica.leads(), self.group.replica.status());
            self.chains.leases.lead(leads.then_some(status.term), self.group.clock.monotonic());
            if !leads || (self.chains().is_empty() && !self.are_copies_wanted()) {
                continue;
            }
            looks = looks.wrapping_add(1);
            let steps = self.chain_steps();
            if !steps.is_empty()
                && let Err(error) = self.change_chains(&steps).await
            {
                tracing::warn!(%error, "chains cannot be changed, retrying: writes of their files wait");
            }
            self.chains.leases.unbar();
            // New targets get chains, too.
            if looks.is_multiple_of(32)
                && let Err(error) = self.make_missing_chains().await
            {
                tracing::warn!(%error, "cannot make chains for new targets, retrying");
            }
        }
    }

    /// Gives a data server that has registered a lease for its members of chains, if this metaserver leads.
    pub async fn lease_chains(&self, server: DataServerId) -> Duration {
        if !self.group.replica.leads() {
            return Duration::ZERO;
        }
        // Before the barrier: a lease counts from here at the latest.
        let now = self.group.clock.monotonic();
        if self.group.read_barrier().await.is_err() || !self.group.replica.leads() {
            return Duration::ZERO;
        }
        self.chains.leases.lead(Some(self.group.replica.status().term), now);
        if self.chains.leases.grant(server, self.group.clock.monotonic()) { LEASE } else { Duration::ZERO }
    }

    /// Takes the members in that the heads of their chains have refilled.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn complete_members(&self, by: &[TargetId], refilled: &[Refilled]) -> Result<(), ClusterError> {
        let chains = self.chains();
        let step = |refilled: &Refilled| {
            let chain = chains.get(&namespace::ChainId(refilled.chain))?;
            let is_head = chain.head().is_some_and(|head| by.contains(&head));
            let is_now = is_head && chain.version == refilled.version;
            let is_refilled =
                chain.with_state(namespace::MemberState::Refilling).any(|t| t.0 == refilled.target);
            let step = ChainStep::Complete(TargetId(refilled.target));
            (is_now && is_refilled).then_some(ChainChange { chain: chain.id, version: chain.version, step })
        };
        let steps: Vec<ChainChange> = refilled.iter().filter_map(step).collect();
        if steps.is_empty() { Ok(()) } else { self.change_chains(&steps).await }
    }

    /// Takes the members out that have left their chains by themselves. `by`: the targets of the data server that
    /// reports them.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn members_left(&self, by: &[TargetId], left: &[LeftChain]) -> Result<(), ClusterError> {
        if left.is_empty() || !self.group.replica.leads() {
            return Ok(()); // the leader tells the other members, too
        }
        let chains = self.chains();
        let step = |left: &LeftChain| {
            let (target, chain) = (TargetId(left.target), chains.get(&namespace::ChainId(left.chain))?);
            let is_now = chain.version == left.version && by.contains(&target);
            let step = ChainStep::Leave(target);
            let change = ChainChange { chain: chain.id, version: chain.version, step };
            let is_there = |member: &namespace::ChainMember| {
                member.target == target && member.state != namespace::MemberState::Away
            };
            (is_now && chain.members.iter().any(is_there)).then_some((chain.id, change))
        };
        let steps: BTreeMap<_, ChainChange> = left.iter().filter_map(step).collect();
        let steps: Vec<ChainChange> = steps.into_values().collect();
        if steps.is_empty() { Ok(()) } else { self.change_chains(&steps).await }
    }

    fn chain_steps(&self) -> Vec<ChainChange> {
        let (map, present) = (self.map(), self.chains());
        let servers = map.present_data_servers().map(|server| server.id);
        let over = self.chains.leases.bar(servers, self.group.clock.monotonic());
        let targets = Known::without(self, &over);
        let step = |recorded: &Chain| {
            let step = next_step(recorded, present.get(&recorded.id)?, &targets)?;
            targets.note(recorded.id, step);
            Some(ChainChange { chain: recorded.id, version: recorded.version, step })
        };
        map.chains.iter().filter_map(step).collect()
    }

    /// Changes chains, and tells their members.
    pub(super) async fn change_chains(&self, steps: &[ChainChange]) -> Result<(), ClusterError> {
        let steps = &self.stop_dropped(steps).await[..];
        // Nothing to propose: following the map would begin the next look at once.
        if steps.is_empty() {
            return Ok(());
        }
        let outcome = self.propose_and_tell(steps).await;
        // Also those of a command whose outcome is not known.
        self.note_left_behind(steps);
        outcome
    }

    async fn propose_and_tell(&self, steps: &[ChainChange]) -> Result<(), ClusterError> {
        for changes in steps.chunks(CHAINS_OF_COMMAND_MAX) {
            log_changes(changes);
            self.group.propose(None, Command::ChangeChains { changes: changes.to_vec() }).await?;
        }
        self.follow_map()?;
        self.tell_members(steps).await;
        Ok(())
    }

    /// Tells the data servers of these chains their present state.
    async fn tell_members(&self, steps: &[ChainChange]) {
        let (map, chains) = (self.map(), self.chains());
        let mut by_server: BTreeMap<DataServerId, (TargetId, Vec<data::Chain>)> = BTreeMap::new();
        for (step, chain) in steps.iter().filter_map(|step| Some((step.step, chains.get(&step.chain)?))) {
            // Also the one that is a member no more.
            let is_told = |target: TargetId| {
                let left =
                    matches!(step, ChainStep::Drop(left) | ChainStep::Replace(left, _) if left == target);
                chain.has(target) || left
            };
            for server in map.present_data_servers() {
                let own = server.targets.iter().find(|target| is_told(**target));
                if let Some(target) =
                    own.filter(|_| self.chains.leases.is_held(server.id, self.group.clock.monotonic()))
                {
                    let (_, told) = by_server.entry(server.id).or_insert((*target, vec![]));
                    told.push(to_wire(chain, &map));
                }
            }
        }
        let calls = by_server.into_values().filter_map(|(target, chains)| {
            let peer = self.data_servers.peer(target)?;
            Some(async move {
                let args = chain::Args { chains, stop: vec![] };
                let told = peer.call::<chain::Res>(Procedure::Chain as u32, &args, TELL_TIME_MAX).await;
                if !matches!(told, Ok(Ok(()))) {
                    tracing::debug!(address = %peer.address(), ?told, "a data server was not told of its chains");
                }
            })
        });
        join_all(calls).await;
    }
}
