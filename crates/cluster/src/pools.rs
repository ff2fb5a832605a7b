//! Pools: changes by an administrator, and what there is to show.

mod places;
mod policy;

use std::collections::BTreeSet;

use namespace::{
    DEFAULT_POOL, Error, MapChange, POOLS_MAX, PoolId, PoolPolicy, TARGETS_OF_COMMAND_MAX, Verify, read,
};

use crate::cluster::Cluster;
use crate::error::{AdminError, ClusterError};
use places::check_move;

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
    /// Copies of new files whose directory names no number.
    pub copies: u8,
    /// When blocks are verified.
    pub verify: Verify,
    /// What of these it says itself; else the cluster's settings do.
    pub policy: PoolPolicy,
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
                copies: self.copies_in(id),
                verify: self.verify_in(id),
                policy: map.pool_policy(id),
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
}
