//! Whether the data and the new files of pools have a place, now and after a change.

use std::collections::{BTreeMap, BTreeSet};

use namespace::{Chain, ClusterMap, DataServerId, PoolId, TargetId, read};

use crate::cluster::Cluster;
use crate::error::AdminError;

impl Cluster {
    /// Checks that new files in a pool have a place.
    ///
    /// # Errors
    /// [`AdminError::Invalid`] if it has no targets.
    pub fn check_pool_has_targets(&self, pool: PoolId) -> Result<(), AdminError> {
        let map = self.map();
        if pool == PoolId::DEFAULT || self.servers_of_pool(pool) > 0 {
            return Ok(());
        }
        let name = map.pool_name(pool);
        let why = format!("the pool {name:?} has no targets: heorot pool add {name} TARGET comes first");
        Err(AdminError::Invalid(why))
    }

    /// Number of data servers that stay, and have a target in the pool that is not lost.
    #[must_use]
    pub fn servers_of_pool(&self, pool: PoolId) -> usize {
        let (map, lost) = (self.map(), self.data_servers.lost_targets());
        servers_of(&map, &lost, |target| map.pool_of(target) == pool).len()
    }

    /// Checks that pools beside the default one keep a place for their data and new files without these targets, those
    /// of a data server or one alone. `name`: what leaves, for people.
    ///
    /// # Errors
    /// [`AdminError::Invalid`] with the pool that would not.
    pub fn check_pools_without(&self, leaving: &BTreeSet<TargetId>, name: &str) -> Result<(), AdminError> {
        let (map, lost) = (self.map(), self.data_servers.lost_targets());
        let known = read::pools(&*self.group.view()?)?;
        let places = leaving.iter().filter(|target| !lost.contains(target));
        let pools: BTreeSet<PoolId> = places.map(|target| map.pool_of(*target)).collect();
        let is_used = |pool: &PoolId| {
            let is_named = known.iter().any(|other| other.id == *pool && other.directories > 0);
            *pool != PoolId::DEFAULT && (is_named || map.chains.iter().any(|chain| chain.pool == *pool))
        };
        for pool in pools.into_iter().filter(is_used) {
            let stays = |target| map.pool_of(target) == pool && !leaving.contains(&target);
            if servers_of(&map, &lost, stays).is_empty() {
                let pool = map.pool_name(pool);
                return Err(AdminError::Invalid(format!(
                    "{name} has the only targets of the pool {pool:?}: put others into it (heorot pool add {pool} TARGET), or \
                     these into another one"
                )));
            }
        }
        Ok(())
    }

    /// Checks that the data of a target, and of its chains, have a place on the others of its pool, of which `with` will be
    /// one.
    ///
    /// # Errors
    /// [`AdminError::Invalid`] with what is missing.
    pub fn check_target_drain(&self, target: TargetId, with: Option<TargetId>) -> Result<(), AdminError> {
        let (mut map, lost) = (ClusterMap::clone(&self.map()), self.data_servers.lost_targets());
        if let Some(with) = with {
            let pool = map.pool_of(target);
            map.pools_of_targets.insert(with, pool);
        }
        check_drain(&map, &lost, target).map_err(AdminError::Invalid)
    }

    /// Pools in which new files wait for a place, each with the reason. Where the default one has no target that takes
    /// files, it is not among them: that is not a fault of the pool.
    ///
    /// # Errors
    /// [`AdminError::Failed`].
    pub fn pools_without_place(&self) -> Result<Vec<(String, String)>, AdminError> {
        let (map, usable) = (self.map(), self.data_servers.usable());
        let named = read::pools(&*self.group.view()?)?.into_iter().filter(|pool| pool.directories > 0);
        let named: Vec<PoolId> = named.map(|pool| pool.id).collect();
        let has_target = |pool: PoolId| usable.iter().any(|usable| map.pool_of(usable.target) == pool);
        let why = |pool: PoolId| {
            let (copies, servers) = (self.copies_in(pool), self.servers_of_pool(pool));
            match has_target(pool) {
                false if pool == PoolId::DEFAULT => None,
                false => Some("has no target that takes new files, and directories name it".to_string()),
                true if copies < 2 || self.has_chains(copies, pool) || servers >= copies.into() => None,
                true => Some(format!(
                    "has targets of {servers} data servers, and new files in it want {copies} copies: they wait"
                )),
            }
        };
        let all = std::iter::once(PoolId::DEFAULT).chain(named);
        Ok(all.filter_map(|pool| Some((map.pool_name(pool).to_string(), why(pool)?))).collect())
    }

    /// Targets that drain, alone or with their data servers, whose data have no place elsewhere, each with the reason.
    #[must_use]
    pub fn drains_without_place(&self) -> Vec<(String, String)> {
        let (map, lost) = (self.map(), self.data_servers.lost_targets());
        let is_used = |target: TargetId| map.chains.iter().any(|chain| chain.has(target));
        let mut found = Vec::new();
        for server in map.present_data_servers() {
            for target in &server.targets {
                let drains = map.is_draining(*target, server.id) && !lost.contains(target);
                if drains
                    && is_used(*target)
                    && let Err(why) = check_drain(&map, &lost, *target)
                {
                    found.push((format!("{:016x} of {}", target.0, server.name), why));
                }
            }
        }
        found
    }
}

/// Data servers with a target that stays and is not lost, and for which `is_it`.
fn servers_of(
    map: &ClusterMap,
    lost: &BTreeSet<TargetId>,
    is_it: impl Fn(TargetId) -> bool,
) -> BTreeSet<DataServerId> {
    let mut servers = BTreeSet::new();
    for server in map.present_data_servers() {
        let stays = |target| !lost.contains(&target) && !map.is_draining(target, server.id);
        if server.targets.iter().any(|target| stays(*target) && is_it(*target)) {
            servers.insert(server.id);
        }
    }
    servers
}

/// Checks that data without copies have a place in the target's pool, and those of its chains in theirs.
fn check_drain(map: &ClusterMap, lost: &BTreeSet<TargetId>, target: TargetId) -> Result<(), String> {
    let own = map.pool_of(target);
    let mut wanted = BTreeMap::from([(own, 1)]);
    for chain in map.chains.iter().filter(|chain| chain.has(target)) {
        let copies = wanted.entry(chain.pool).or_default();
        *copies = chain.copies.max(*copies);
    }
    for (pool, copies) in wanted {
        let servers = servers_of(map, lost, |other| other != target && map.pool_of(other) == pool).len();
        let name = map.pool_name(pool);
        match usize::from(copies) {
            _ if servers == 0 => {
                return Err(format!(
                    "no other target of the pool {name:?} can take its data: put another one into it first"
                ));
            }
            copies if copies > servers => {
                return Err(format!(
                    "it is in chains of {copies} copies, which may have no data, and other targets of the pool {name:?} are on \
                     {servers} data servers: put one of another data server into it first"
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Checks that what is in the pools which these targets leave has a place afterwards. `chosen`: pools that
/// directories name.
pub(super) fn check_move(
    map: &ClusterMap,
    lost: &BTreeSet<TargetId>,
    targets: &BTreeSet<TargetId>,
    to: PoolId,
    chosen: &BTreeSet<PoolId>,
) -> Result<(), String> {
    let left: BTreeSet<PoolId> =
        targets.iter().map(|target| map.pool_of(*target)).filter(|pool| *pool != to).collect();
    for pool in left {
        let name = map.pool_name(pool);
        let stays = |target| map.pool_of(target) == pool && !targets.contains(&target);
        let servers = servers_of(map, lost, stays).len();
        let of_pool = || map.chains.iter().filter(|chain| chain.pool == pool);
        // Chains of a pool without targets go with theirs, all to one pool.
        let is_elsewhere =
            |member: &namespace::ChainMember| ![pool, to].contains(&map.pool_of(member.target));
        if servers == 0 && of_pool().any(|chain| chain.members.iter().any(is_elsewhere)) {
            return Err(format!(
                "data of the pool {name:?} are still on their way from targets that were taken out of it: wait until heorot status \
                 shows no chain with members in other pools, or put those targets back"
            ));
        }
        let leaves = |chain: &&Chain| {
            let goes = |target| targets.contains(&target) || map.pool_of(target) != pool;
            chain.members.iter().any(|member| goes(member.target))
        };
        let copies = of_pool().filter(leaves).map(|chain| usize::from(chain.copies)).max();
        if let Some(copies) = copies.filter(|copies| (1..*copies).contains(&servers)) {
            return Err(format!(
                "the pool {name:?} has chains of {copies} copies, and targets of {servers} data servers would stay in it: put \
                 others into it first, or take all of its targets out at once"
            ));
        }
        if servers == 0 && chosen.contains(&pool) {
            return Err(match pool {
                PoolId::DEFAULT => {
                    "no target would stay in the default pool, which new files go to where no pool is chosen"
                        .into()
                }
                _ => format!(
                    "no target would stay in the pool {name:?}, and directories name it: heorot stripe set --pool comes first"
                ),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use namespace::{ChainId, ChainMember, DataServer, MemberState, Pool, PoolPolicy, TargetState, Time};

    use super::*;

    const FLASH: PoolId = PoolId(1);

    /// Data servers 1 to 5 with a target each; 1 to 3 are in the pool of flash disks, with a chain of 1 and 2.
    fn map() -> ClusterMap {
        let server = |id| DataServer {
            id: DataServerId(id),
            name: format!("ds{id}"),
            addresses: vec![],
            service_address: None,
            zone: String::new(),
            targets: vec![TargetId(id)],
            process: 1,
        };
        let member = |target| ChainMember {
            target: TargetId(target),
            state: MemberState::In,
            process: 1,
            since: Time::default(),
        };
        let members = vec![member(1), member(2)];
        let (id, version, verifier, copies) = (ChainId(9), 1, 1, 2);
        ClusterMap {
            data_servers: (1..=5).map(server).collect(),
            pools: vec![Pool {
                id: FLASH,
                name: "flash".into(),
                targets: 3,
                directories: 0,
                policy: PoolPolicy::default(),
            }],
            pools_of_targets: (1..=3).map(|target| (TargetId(target), FLASH)).collect(),
            chains: vec![Chain { id, version, verifier, copies, members, leaving: None, pool: FLASH }],
            ..ClusterMap::default()
        }
    }

    #[test]
    fn targets_leave_a_pool_only_if_its_data_and_new_files_have_a_place() {
        let lost = BTreeSet::from([TargetId(6)]);
        let moved = |targets: &[u64], to, chosen: &[PoolId]| {
            let targets = targets.iter().copied().map(TargetId).collect();
            check_move(
                &map(),
                &lost,
                &targets,
                to,
                &chosen.iter().copied().chain([PoolId::DEFAULT]).collect(),
            )
        };
        assert_eq!(moved(&[1], PoolId::DEFAULT, &[]), Ok(()), "3 takes its place");
        let torn = moved(&[1, 3], PoolId::DEFAULT, &[]).unwrap_err();
        assert!(torn.contains("chains of 2 copies, and targets of 1 data servers would stay"), "{torn}");
        assert!(moved(&[1, 2], PoolId::DEFAULT, &[]).is_err(), "3 alone");
        assert_eq!(moved(&[1, 2, 3], PoolId::DEFAULT, &[]), Ok(()), "the chain goes with them");
        let named = moved(&[1, 2, 3], PoolId::DEFAULT, &[FLASH]).unwrap_err();
        assert!(named.contains("directories name it"), "{named}");
        assert_eq!(moved(&[4], FLASH, &[]), Ok(()));
        assert!(moved(&[4, 5], FLASH, &[]).unwrap_err().contains("default pool"));
        assert_eq!(moved(&[1, 2, 3], FLASH, &[FLASH]), Ok(()), "they are there already");
        assert_eq!(check_drain(&map(), &lost, TargetId(1)), Ok(()), "3 takes its place");
        assert!(
            check_drain(&map(), &BTreeSet::from([TargetId(3)]), TargetId(1))
                .unwrap_err()
                .contains("chains of 2")
        );
        assert_eq!(check_drain(&map(), &lost, TargetId(4)), Ok(()), "it is in no chain");
        let last = check_drain(&map(), &BTreeSet::from([TargetId(5)]), TargetId(4)).unwrap_err();
        assert!(last.contains("no other target of the pool \"default\""), "{last}");
        // A target that drains is no place.
        let mut draining = map();
        draining.declared_targets.insert(TargetId(3), TargetState::Draining);
        let one = BTreeSet::from([TargetId(1)]);
        assert!(check_move(&draining, &lost, &one, PoolId::DEFAULT, &BTreeSet::new()).is_err());
        // A lost target is no place, and data that are on their way have to arrive.
        let without_3 = BTreeSet::from([TargetId(3)]);
        assert!(check_move(&map(), &without_3, &one, PoolId::DEFAULT, &BTreeSet::new()).is_err());
        let mut on_the_way = map();
        on_the_way.pools_of_targets.remove(&TargetId(1));
        let rest = BTreeSet::from([TargetId(2), TargetId(3)]);
        let moved = |to| check_move(&on_the_way, &lost, &rest, to, &BTreeSet::new());
        assert_eq!(moved(PoolId::DEFAULT), Ok(()), "all are together again");
        let waits = moved(PoolId(2)).unwrap_err();
        assert!(waits.contains("still on their way"), "{waits}");
    }
}
