//! Pools: changes by an administrator, and what there is to show.

use std::collections::BTreeSet;

use namespace::{
    Chain, ClusterMap, DEFAULT_POOL, DataServerId, Error, MapChange, NodeKey, NodeState, POOLS_MAX, PoolId,
    TARGETS_OF_COMMAND_MAX, TargetId, read,
};

use crate::cluster::Cluster;
use crate::error::{AdminError, ClusterError};

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
        check_move(&map, &named, id, &directories).map_err(AdminError::Invalid)?;
        let moved = self.change_map(MapChange::PoolTargets(id, named.iter().copied().collect())).await;
        moved.map_err(|error| match error {
            ClusterError::Refused(Error::NoDevice) => {
                AdminError::Invalid("a data server has one of these targets no more; look again".into())
            }
            error => error.into(),
        })?;
        Ok(named.len())
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
        match servers_of(&map, |target| map.pool_of(target) == pool).is_empty() && pool != PoolId::DEFAULT {
            true => {
                let name = map.pool_name(pool);
                let why =
                    format!("the pool {name:?} has no targets: heorot pool add {name} TARGET comes first");
                Err(AdminError::Invalid(why))
            }
            false => Ok(()),
        }
    }
}

/// Data servers that stay, and have a target for which `is_it`.
fn servers_of(map: &ClusterMap, is_it: impl Fn(TargetId) -> bool) -> BTreeSet<DataServerId> {
    let stays = |id| map.state(NodeKey::DataServer(id)) < NodeState::Draining;
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
    targets: &BTreeSet<TargetId>,
    to: PoolId,
    chosen: &BTreeSet<PoolId>,
) -> Result<(), String> {
    let left: BTreeSet<PoolId> =
        targets.iter().map(|target| map.pool_of(*target)).filter(|pool| *pool != to).collect();
    for pool in left {
        let name = map.pool_name(pool);
        let stays = |target| map.pool_of(target) == pool && !targets.contains(&target);
        let servers = servers_of(map, stays).len();
        let leaves = |chain: &&Chain| {
            chain.pool == pool && chain.members.iter().any(|member| targets.contains(&member.target))
        };
        // Chains of a pool without targets go with theirs.
        let copies = map.chains.iter().filter(leaves).map(|chain| usize::from(chain.copies)).max();
        if let Some(copies) = copies.filter(|copies| (1..*copies).contains(&servers)) {
            return Err(format!(
                "the pool {name:?} has data with {copies} copies, and targets of {servers} data servers would stay in it: put \
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
        let moved = |targets: &[u64], to, chosen: &[PoolId]| {
            let targets = targets.iter().copied().map(TargetId).collect();
            check_move(&map(), &targets, to, &chosen.iter().copied().chain([PoolId::DEFAULT]).collect())
        };
        assert_eq!(moved(&[1], PoolId::DEFAULT, &[]), Ok(()), "3 takes its place");
        let torn = moved(&[1, 3], PoolId::DEFAULT, &[]).unwrap_err();
        assert!(torn.contains("data with 2 copies, and targets of 1 data servers would stay"), "{torn}");
        assert!(moved(&[1, 2], PoolId::DEFAULT, &[]).is_err(), "3 alone");
        assert_eq!(moved(&[1, 2, 3], PoolId::DEFAULT, &[]), Ok(()), "the chain goes with them");
        let named = moved(&[1, 2, 3], PoolId::DEFAULT, &[FLASH]).unwrap_err();
        assert!(named.contains("directories name it"), "{named}");
        assert_eq!(moved(&[4], FLASH, &[]), Ok(()));
        assert!(moved(&[4, 5], FLASH, &[]).unwrap_err().contains("default pool"));
        assert_eq!(moved(&[1, 2, 3], FLASH, &[FLASH]), Ok(()), "they are there already");
    }
}
