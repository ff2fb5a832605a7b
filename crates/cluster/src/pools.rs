//! Pools: changes by an administrator, and what there is to show.

use std::collections::BTreeSet;

use namespace::{
    Chain, ClusterMap, DEFAULT_POOL, DataServerId, Error, MapChange, NodeKey, NodeState, POOLS_MAX, PoolId,
    TARGETS_OF_COMMAND_MAX, TargetId, read,
};

use crate::cluster::Cluster;
use crate::error::{AdminError, ClusterError};

/// Tries of a change that other changes of the map come before.
const TRIES_MAX: usize = 50;

/// A pool, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolReport {
    /// Its name.
    pub name: String,
    /// Its targets, each as data server and directory.
    pub targets: Vec<String>,
    /// Directories whose stripe policy names it; none: the default pool, which all others have.
    pub directories: Option<u64>,
    /// Bytes of the file systems of its targets.
    pub total_bytes: u64,
    /// Bytes free there.
    pub free_bytes: u64,
}

impl Cluster {
    /// All pools, the default one first.
    ///
    /// # Errors
    /// [`AdminError::Failed`].
    pub async fn pools_report(&self) -> Result<Vec<PoolReport>, AdminError> {
        self.agree().await?;
        let (map, view) = (self.map(), self.group.view()?);
        let beside =
            read::pools(&*view)?.into_iter().map(|pool| (pool.id, pool.name, Some(pool.directories)));
        let all = std::iter::once((PoolId::DEFAULT, DEFAULT_POOL.to_string(), None)).chain(beside);
        let known = self.known_targets()?;
        let report = |(id, name, directories)| {
            let own = || known.iter().filter(|target| map.pool_of(target.target) == id);
            let mut file_systems = BTreeSet::new();
            let counted = own().filter_map(|target| target.report.as_ref());
            let counted: Vec<_> =
                counted.filter(|report| file_systems.insert((report.server, report.file_system))).collect();
            PoolReport {
                name,
                targets: own().map(crate::nodes::KnownTarget::place).collect(),
                directories,
                total_bytes: counted.iter().map(|report| report.total_bytes).sum(),
                free_bytes: counted.iter().map(|report| report.free_bytes).sum(),
            }
        };
        Ok(all.map(report).collect())
    }

    /// Makes an empty pool.
    ///
    /// # Errors
    /// [`AdminError::Invalid`] if there is one with this name.
    pub async fn make_pool(&self, name: &str) -> Result<(), AdminError> {
        self.agree().await?;
        let made = self.change_map(MapChange::MakePool(name.into())).await;
        made.map_err(|error| match error {
            ClusterError::Refused(Error::Exists) => {
                AdminError::Invalid(format!("there is a pool {name:?} already"))
            }
            ClusterError::Refused(Error::Invalid) => {
                AdminError::Invalid(format!("there are {POOLS_MAX} pools, and that is the bound"))
            }
            error => error.into(),
        })
    }

    /// Removes a pool that nothing uses.
    ///
    /// # Errors
    /// [`AdminError::Invalid`] if there is none, or it is in use.
    pub async fn remove_pool(&self, name: &str) -> Result<(), AdminError> {
        self.agree().await?;
        let id = self.pool(name)?;
        if id == PoolId::DEFAULT {
            return Err(AdminError::Invalid("the default pool stays".into()));
        }
        let removed = self.change_map(MapChange::RemovePool(id)).await;
        removed.map_err(|error| match error {
            ClusterError::Refused(Error::NotEmpty) => AdminError::Invalid(format!(
                "the pool {name:?} is in use: put its targets into another one (heorot pool add), and have its directories \
                 name another one (heorot stripe set --pool); heorot pool list counts both"
            )),
            error => error.into(),
        })
    }

    /// Puts targets into a pool; each is named by its id, by data server and directory, or, with all others of its
    /// data server, by that. Returns how many there are.
    ///
    /// # Errors
    /// [`AdminError::Invalid`] if there is no such pool or target, or data or new files would have no place.
    pub async fn put_into_pool(&self, name: &str, targets: &[String]) -> Result<usize, AdminError> {
        for _ in 0..TRIES_MAX {
            if let Some(count) = self.try_to_put_into_pool(name, targets).await? {
                return Ok(count);
            }
        }
        Err(AdminError::Failed(
            "the cluster map changes all the time: try again when chains are not refilled".into(),
        ))
    }

    /// None: the map has changed meanwhile.
    async fn try_to_put_into_pool(
        &self,
        name: &str,
        targets: &[String],
    ) -> Result<Option<usize>, AdminError> {
        self.agree().await?;
        let (id, map) = (self.pool(name)?, self.map());
        let mut named = BTreeSet::new();
        for target in targets {
            match map.present_data_servers().find(|server| server.name == *target) {
                Some(server) => named.extend(server.targets.iter().copied()),
                None => drop(named.insert(self.named_target(target)?.target)),
            }
        }
        if named.len() > TARGETS_OF_COMMAND_MAX {
            let why =
                format!("{} targets at once are too many: {TARGETS_OF_COMMAND_MAX} at most", named.len());
            return Err(AdminError::Invalid(why));
        }
        let directories: BTreeSet<PoolId> = {
            let pools = read::pools(&*self.group.view()?)?.into_iter();
            pools.filter(|pool| pool.directories > 0).map(|pool| pool.id).chain([PoolId::DEFAULT]).collect()
        };
        let lost = self.data_servers.lost_targets();
        check_move(&map, &lost, &named, id, &directories).map_err(AdminError::Invalid)?;
        let all = named.iter().copied().collect();
        let moved = self.change_map(MapChange::PoolTargets(id, all, map.head.version)).await;
        match moved {
            Ok(()) => Ok(Some(named.len())),
            // The map has changed since: chains change often.
            Err(ClusterError::Refused(Error::Delay)) => Ok(None),
            Err(ClusterError::Refused(Error::NoDevice)) => {
                Err(AdminError::Invalid("a data server has one of these targets no more; look again".into()))
            }
            Err(ClusterError::Refused(Error::NotEmpty)) => Err(AdminError::Invalid(
                "directories name the pool that would have no targets; look again".into(),
            )),
            Err(error) => Err(error.into()),
        }
    }

    /// The pool with this name.
    ///
    /// # Errors
    /// [`AdminError::Invalid`] if there is none.
    pub fn pool(&self, name: &str) -> Result<PoolId, AdminError> {
        self.map().pool_named(name).ok_or_else(|| {
            AdminError::Invalid(format!("there is no pool {name:?}; heorot pool list shows them"))
        })
    }

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

    /// Checks that pools beside the default one keep a place for their data and new files without this data server.
    ///
    /// # Errors
    /// [`AdminError::Invalid`] with the pool that would not.
    pub fn check_pools_without(&self, server: DataServerId) -> Result<(), AdminError> {
        let (map, lost) = (self.map(), self.data_servers.lost_targets());
        let Some(leaving) = map.data_servers.iter().find(|other| other.id == server) else { return Ok(()) };
        let known = read::pools(&*self.group.view()?)?;
        let places = leaving.targets.iter().filter(|target| !lost.contains(target));
        let pools: BTreeSet<PoolId> = places.map(|target| map.pool_of(*target)).collect();
        let is_used = |pool: &PoolId| {
            let is_named = known.iter().any(|other| other.id == *pool && other.directories > 0);
            *pool != PoolId::DEFAULT && (is_named || map.chains.iter().any(|chain| chain.pool == *pool))
        };
        for pool in pools.into_iter().filter(is_used) {
            let mut others = servers_of(&map, &lost, |target| map.pool_of(target) == pool);
            others.remove(&server);
            if others.is_empty() {
                let name = map.pool_name(pool);
                return Err(AdminError::Invalid(format!(
                    "{} has the only targets of the pool {name:?}: put others into it (heorot pool add {name} TARGET), or \
                     these into another one",
                    leaving.name
                )));
            }
        }
        Ok(())
    }

    /// Pools beside the default one that directories name, and that have no target which takes new files.
    ///
    /// # Errors
    /// [`AdminError::Failed`].
    pub fn pools_without_place(&self) -> Result<Vec<String>, AdminError> {
        let (map, usable) = (self.map(), self.data_servers.usable());
        let pools = read::pools(&*self.group.view()?)?.into_iter();
        let has_place = |pool: PoolId| usable.iter().any(|usable| map.pool_of(usable.target) == pool);
        Ok(pools.filter(|pool| pool.directories > 0 && !has_place(pool.id)).map(|pool| pool.name).collect())
    }
}

/// Data servers that stay, and have a target that is not lost, and for which `is_it`.
fn servers_of(
    map: &ClusterMap,
    lost: &BTreeSet<TargetId>,
    is_it: impl Fn(TargetId) -> bool,
) -> BTreeSet<DataServerId> {
    let stays = |id| map.state(NodeKey::DataServer(id)) < NodeState::Draining;
    let is_it = |target: TargetId| !lost.contains(&target) && is_it(target);
    let servers = map.present_data_servers().filter(|server| stays(server.id));
    servers
        .filter(|server| server.targets.iter().any(|target| is_it(*target)))
        .map(|server| server.id)
        .collect()
}

/// Checks that what is in the pools which these targets leave has a place afterwards. `chosen`: pools that
/// directories name.
fn check_move(
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
    use namespace::{ChainId, ChainMember, DataServer, MemberState, Pool, Time};

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
            pools: vec![Pool { id: FLASH, name: "flash".into(), targets: 3, directories: 0 }],
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
        // A lost target is no place, and data that are on their way have to arrive.
        let without_3 = BTreeSet::from([TargetId(3)]);
        let one = BTreeSet::from([TargetId(1)]);
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
