//! A member is dropped from a chain only after it has stopped serving: it would go on to answer reads with the data
//! of the version before, under the lease that it has for its other chains.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use namespace::{ChainChange, ChainId, ChainStep, DataServerId, MemberState, TargetId};
use wire::data::{Procedure, chain};

use super::to_wire;
use super::watch::TELL_TIME_MAX;
use crate::cluster::Cluster;

impl Cluster {
    /// Has the members stop that these steps drop. Returns the steps without those whose members may still serve: the
    /// next look tries again, and takes a silent one out when its lease is over.
    pub(super) async fn stop_dropped(&self, steps: &[ChainChange]) -> Vec<ChainChange> {
        let (map, chains) = (self.map(), self.chains());
        let now = self.group.clock.monotonic();
        let mut by_server = BTreeMap::<DataServerId, (TargetId, Vec<chain::Stop>)>::new();
        for ChainChange { chain, version, step } in steps {
            let ChainStep::Drop(target) = *step else { continue };
            let serves = chains.get(chain).is_some_and(|chain| {
                chain.members.iter().any(|m| m.target == target && m.state != MemberState::Away)
            });
            let server = map.present_data_servers().find(|server| server.targets.contains(&target));
            if let Some(server) =
                server.filter(|server| serves && !self.chains.leases.is_over(server.id, now))
            {
                let stop = chain::Stop { chain: chain.0, version: *version, target: target.0 };
                by_server.entry(server.id).or_insert((target, vec![])).1.push(stop);
            }
        }
        let calls = by_server.into_values().map(|(target, stop)| async move {
            let told = stop.iter().filter_map(|stop| self.chains().get(&ChainId(stop.chain)).cloned());
            let args = chain::Args { chains: told.map(|chain| to_wire(&chain, &self.map())).collect(), stop };
            let answer = match self.data_servers.peer(target) {
                Some(peer) => {
                    peer.call::<chain::Res>(Procedure::Chain as u32, &args, TELL_TIME_MAX).await.ok()
                }
                None => None,
            };
            let ids = args.stop.into_iter().map(|stop| ChainId(stop.chain)).collect::<Vec<_>>();
            if matches!(answer, Some(Ok(()))) { vec![] } else { ids }
        });
        let still_serve: BTreeSet<ChainId> = join_all(calls).await.into_iter().flatten().collect();
        let is_done = |change: &&ChainChange| {
            !matches!(change.step, ChainStep::Drop(_)) || !still_serve.contains(&change.chain)
        };
        steps.iter().filter(is_done).copied().collect()
    }
}
