//! Chains for the targets that there are, made in advance.

use std::collections::BTreeSet;
use std::net::IpAddr;

use namespace::{CHAINS_OF_COMMAND_MAX, COPIES_MAX, ChainId, Command, NewChain, PoolId, TargetId};

use super::placement::{Place, Unplaceable, check_zones, make_chains};
use super::sites::Site;
use super::{COPIES_IF_AUTO, machine};
use crate::cluster::Cluster;
use crate::error::{AdminError, ClusterError};
use crate::settings::Copies;

/// Bytes for each unit of a target's weight.
const WEIGHT_BYTES: u64 = 1 << 40;

impl Cluster {
    /// Makes chains of this many targets of a pool, unless there are some.
    ///
    /// # Errors
    /// [`AdminError::Invalid`] if the pool has too few data servers, or too few zones.
    pub async fn ensure_chains_apart(&self, copies: u8, pool: PoolId) -> Result<(), AdminError> {
        if copies < 2 || self.has_chains(copies, pool) {
            return Ok(());
        }
        let checked = check_zones(&self.places(pool), usize::from(copies));
        checked.map_err(|why| AdminError::Invalid(why.to_string()))?;
        self.ensure_chains(copies, pool).await
    }

    /// True if there are chains of this many targets of a pool.
    #[must_use]
    pub fn has_chains(&self, copies: u8, pool: PoolId) -> bool {
        let is_there = |chain: &namespace::Chain| {
            (chain.copies, chain.pool) == (copies, pool) && chain.members.len() >= usize::from(copies)
        };
        self.chains().values().any(is_there)
    }

    /// The same as [`Cluster::ensure_chains_apart`]; the copies may share a zone.
    ///
    /// # Errors
    /// [`AdminError::Invalid`] if the pool has too few data servers.
    pub async fn ensure_chains(&self, copies: u8, pool: PoolId) -> Result<(), AdminError> {
        if copies < 2 || self.has_chains(copies, pool) {
            return Ok(());
        }
        let _making = self.chains.making.lock().await;
        // Others may have made some, also other metaservers.
        self.agree().await?;
        if self.has_chains(copies, pool) {
            return Ok(());
        }
        if usize::from(copies) > COPIES_MAX {
            return Err(AdminError::Invalid(format!("copies are 1 to {COPIES_MAX}")));
        }
        let (copies, places) = (usize::from(copies), self.places(pool));
        let made =
            self.new_chains(&places, copies, pool).map_err(|why| AdminError::Invalid(why.to_string()))?;
        self.propose_chains(made).await.map_err(AdminError::from)
    }

    /// Makes chains for targets that have fewer than others. Copies share a zone, or a machine, where there are too few:
    /// they move apart when there are more.
    pub(super) async fn make_missing_chains(&self) -> Result<(), ClusterError> {
        let used: BTreeSet<(PoolId, u8)> =
            self.chains().values().map(|chain| (chain.pool, chain.copies)).collect();
        let _making = self.chains.making.lock().await;
        let pools: Vec<PoolId> = self.map().pools.iter().map(|pool| pool.id).collect();
        let wanted =
            std::iter::once(PoolId::DEFAULT).chain(pools).map(|pool| (pool, self.wanted_copies(pool)));
        let all: BTreeSet<(PoolId, u8)> = used.into_iter().chain(wanted).collect();
        for (pool, copies) in all {
            let (copies, places) = (usize::from(copies), self.places(pool));
            // Too few data servers now: those that are away come back, or are replaced.
            if (2..=COPIES_MAX).contains(&copies)
                && let Ok(made) = self.new_chains(&places, copies, pool)
            {
                self.propose_chains(made).await?;
            }
        }
        Ok(())
    }

    /// Copies of new files in a pool: those that are set, or that its machines allow.
    #[must_use]
    pub fn wanted_copies(&self, pool: PoolId) -> u8 {
        let map = self.map();
        let is_in_pool =
            |server: &&namespace::DataServer| server.targets.iter().any(|t| map.pool_of(*t) == pool);
        let machines: BTreeSet<IpAddr> =
            map.present_data_servers().filter(is_in_pool).filter_map(machine).collect();
        match (map.pool_policy(pool).copies, self.settings().stripe_copies) {
            (Some(number), _) | (None, Copies::Number(number)) => number,
            (None, Copies::Auto) if machines.len() > 1 => COPIES_IF_AUTO,
            (None, Copies::Auto) => 1,
        }
    }

    /// True if new files in some pool have copies.
    pub(super) fn are_copies_wanted(&self) -> bool {
        let map = self.map();
        let pools = map.pools.iter().map(|pool| pool.id);
        std::iter::once(PoolId::DEFAULT).chain(pools).any(|pool| self.wanted_copies(pool) > 1)
    }

    /// Targets of a pool that chains can have.
    fn places(&self, pool: PoolId) -> Vec<Place> {
        let (map, lost) = (self.map(), self.data_servers.lost_targets());
        let reports = self.data_servers.report();
        let mut places = Vec::new();
        for server in map.present_data_servers() {
            let is_in_pool = |target: &&TargetId| {
                let stays = !lost.contains(target) && !map.is_draining(**target, server.id);
                stays && map.pool_of(**target) == pool
            };
            for target in server.targets.iter().filter(is_in_pool) {
                let Some(report) = reports.iter().find(|report| report.target == *target && report.alive)
                else {
                    continue;
                };
                let weight = u32::try_from(report.total_bytes / WEIGHT_BYTES).unwrap_or(u32::MAX).max(1);
                places.push(Place { target: *target, site: Site::of(server), weight });
            }
        }
        places
    }

    fn new_chains(
        &self,
        places: &[Place],
        copies: usize,
        pool: PoolId,
    ) -> Result<Vec<NewChain>, Unplaceable> {
        let is_like = |chain: &&namespace::Chain| (usize::from(chain.copies), chain.pool) == (copies, pool);
        let members = |chain: &namespace::Chain| chain.members.iter().map(|m| m.target).collect();
        let existing: Vec<Vec<TargetId>> = self.chains().values().filter(is_like).map(members).collect();
        let made = make_chains(places, copies, &existing)?;
        let chain = |targets| NewChain { id: ChainId(self.group.entropy.u64()), targets };
        Ok(made.into_iter().map(chain).collect())
    }

    async fn propose_chains(&self, chains: Vec<NewChain>) -> Result<(), ClusterError> {
        if chains.is_empty() {
            return Ok(());
        }
        for some in chains.chunks(CHAINS_OF_COMMAND_MAX) {
            self.group.propose(None, Command::MakeChains { chains: some.to_vec() }).await?;
        }
        tracing::info!(chains = chains.len(), copies = chains[0].targets.len(), "chains of targets are made");
        self.follow_map()
    }
}
