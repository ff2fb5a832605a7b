//! Targets that are declared lost, and the files that have data on a target or a data server.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use namespace::{ChainId, DeviceId, InodeId, MemberState, NodeKey, Snapshots, TargetId, TargetState, read};

use super::change::id_text;
use crate::cluster::Cluster;
use crate::data_servers::TargetReport;
use crate::error::AdminError;

/// Names read for one page: some tens of milliseconds, in which no other reader waits.
const NAMES_MAX: usize = 50_000;
/// Files of one page.
const FILES_MAX: usize = 1000;
/// Depth of a shown path, in directories. Names of one path have 4096 bytes on Linux.
const DEPTH_MAX: usize = 4096;

/// A target, with its server and its last report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownTarget {
    /// Its id.
    pub target: TargetId,
    /// The data server that has it; none: no data server has it now.
    pub server: Option<String>,
    /// Zone of the data server; empty: none.
    pub zone: String,
    /// Its pool.
    pub pool: String,
    /// Its directory there; empty: not known.
    pub path: String,
    /// Its state, by the word of an operator.
    pub state: TargetState,
    /// True if its data move to others, since it or its data server drains.
    pub drains: bool,
    /// True if its data server reports.
    pub is_alive: bool,
    /// Last report of its data server, with its condition and its bytes; none: nothing was reported.
    pub report: Option<TargetReport>,
    /// Number of chains that it is a member of. A target that drains is left by the last one when its data have moved.
    pub chains: usize,
}

/// Some of the files that have data on a target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilesPage {
    /// Their paths, from the root of the volume.
    pub paths: Vec<Vec<u8>>,
    /// Start of the next page; none: this is the last.
    pub next: Option<Vec<u8>>,
}

impl KnownTarget {
    /// Its data server and directory; its id without them.
    #[must_use]
    pub fn place(&self) -> String {
        match &self.server {
            Some(server) if !self.path.is_empty() => format!("{server}:{}", self.path),
            _ => format!("{:016x}", self.target.0),
        }
    }
}

impl Cluster {
    /// All targets that data servers have, that files name, or that were declared lost.
    ///
    /// # Errors
    /// [`AdminError::Failed`].
    pub fn known_targets(&self) -> Result<Vec<KnownTarget>, AdminError> {
        let (map, lost) = (self.map(), self.data_servers.lost_targets());
        let reports = self.data_servers.report();
        let mut ids: BTreeSet<TargetId> = map.declared_targets.keys().copied().collect();
        ids.extend(map.present_data_servers().flat_map(|server| &server.targets));
        ids.extend(map.pools_of_targets.keys());
        let view = self.group.view()?;
        let named = read::devices(&*view)?;
        let removed = map.data_servers.iter().filter(|server| map.is_removed(server.id));
        let of_removed: BTreeSet<TargetId> = removed.flat_map(|server| &server.targets).copied().collect();
        let named = named.into_iter().flat_map(|device| device.chains);
        let named = named.flat_map(|chain| self.members_of(chain));
        ids.extend(named.filter(|target| !of_removed.contains(target)));
        let chains = self.chains();
        let known = |target: TargetId| {
            let server = map.present_data_servers().find(|server| server.targets.contains(&target));
            let report = reports.iter().find(|report| report.target == target);
            let path = report.map(|report| report.path.clone());
            KnownTarget {
                target,
                server: server.map(|server| server.name.clone()),
                pool: map.pool_name(map.pool_of(target)).into(),
                zone: server.map(|server| server.zone.clone()).unwrap_or_default(),
                path: path.or_else(|| self.data_servers.lost_path(target)).unwrap_or_default(),
                state: match map.target_state(target) {
                    TargetState::InUse if lost.contains(&target) => TargetState::Lost,
                    state => state,
                },
                drains: server.is_some_and(|server| map.is_draining(target, server.id)),
                is_alive: report.is_some_and(|report| report.alive),
                report: report.filter(|report| !report.path.is_empty()).cloned(),
                chains: chains.values().filter(|chain| chain.has(target)).count(),
            }
        };
        Ok(ids.into_iter().map(known).collect())
    }

    /// The target with this id, or with this data server and directory: `ds1:/data/sdb`.
    ///
    /// # Errors
    /// [`AdminError::Invalid`] if there is none.
    pub fn named_target(&self, name: &str) -> Result<KnownTarget, AdminError> {
        let is_named = |known: &KnownTarget| {
            let place = known.server.as_ref().map(|server| format!("{server}:{}", known.path));
            format!("{:016x}", known.target.0) == name || place.as_deref() == Some(name)
        };
        self.known_targets()?.into_iter().find(is_named).ok_or_else(|| {
            AdminError::Invalid(format!("no target is called {name:?}; heorot target list shows them"))
        })
    }

    /// A page of the files that have data on the target, or on the targets of the data server, of this name
    /// or id, and no copy elsewhere. `after`: the `next` of the page before.
    ///
    /// # Errors
    /// [`AdminError::Invalid`] if there is neither.
    pub fn files_on(&self, name: &str, after: Option<&[u8]>) -> Result<FilesPage, AdminError> {
        let targets = self.targets_of(name)?;
        let view = &Snapshots(self.group.view()?);
        let devices = read::devices(view)?;
        let concerned: BTreeSet<DeviceId> = devices
            .iter()
            .filter(|device| device.chains.iter().any(|chain| self.is_on(*chain, &targets)))
            .map(|device| device.id)
            .collect();
        let (mut seen, mut found, mut next) = (0, Vec::new(), None);
        read::names_after(view, after.unwrap_or_default(), |key, dir, name, inode| {
            if seen == NAMES_MAX || found.len() == FILES_MAX {
                return ControlFlow::Break(());
            }
            seen += 1;
            next = Some(key.to_vec());
            found.push((dir, name.to_vec(), inode));
            // Most files have no data there: only matching files stay.
            if !self.has_data_on(view, inode, &concerned, &targets).unwrap_or(true) {
                found.pop();
            }
            ControlFlow::Continue(())
        })?;
        if seen < NAMES_MAX && found.len() < FILES_MAX {
            next = None;
        }
        let mut paths = Vec::with_capacity(found.len());
        let mut known = std::collections::BTreeMap::new();
        for (dir, name, _) in found {
            let mut path = self.path_of(view, dir, &mut known, 0)?;
            path.push(b'/');
            path.extend(name);
            paths.push(path);
        }
        Ok(FilesPage { paths, next })
    }

    /// True if no target but these has all data of the chain.
    fn is_on(&self, chain: ChainId, targets: &BTreeSet<TargetId>) -> bool {
        let chains = self.chains();
        let have_all: Vec<TargetId> = match chains.get(&chain) {
            Some(chain) if chain.head().is_some() => chain.with_state(MemberState::In).collect(),
            _ => self.members_of(chain),
        };
        have_all.iter().all(|target| targets.contains(target))
    }

    fn targets_of(&self, name: &str) -> Result<BTreeSet<TargetId>, AdminError> {
        let map = self.map();
        let is_named = |server: &&namespace::DataServer| id_text(NodeKey::DataServer(server.id)) == name;
        let by_name = |server: &&namespace::DataServer| server.name == name;
        let server = map.data_servers.iter().find(is_named);
        // A removed data server is found by name only if no present one has the name.
        let server = server.or_else(|| map.present_data_servers().find(by_name));
        if let Some(server) = server.or_else(|| map.data_servers.iter().find(by_name)) {
            return Ok(server.targets.iter().copied().collect());
        }
        if let Ok(target) = self.named_target(name) {
            return Ok(BTreeSet::from([target.target]));
        }
        let id = u64::from_str_radix(name, 16).ok().filter(|_| name.len() == 16).map(TargetId);
        let of_removed = |id: &TargetId| map.data_servers.iter().any(|server| server.targets.contains(id));
        id.filter(of_removed).map(|id| BTreeSet::from([id])).ok_or_else(|| {
            AdminError::Invalid(format!(
                "no data server or target is called {name:?}; heorot node list and heorot target list show them"
            ))
        })
    }

    /// True if a column of the file on one of these targets holds data, or may hold data: of an unsettled
    /// file only the target knows.
    fn has_data_on(
        &self,
        view: &dyn store::View,
        inode: InodeId,
        concerned: &BTreeSet<DeviceId>,
        targets: &BTreeSet<TargetId>,
    ) -> Result<bool, AdminError> {
        if !read::volume_lives(view, inode)? {
            return Ok(false);
        }
        let Some(inode) = read::inode(view, inode)? else { return Ok(false) };
        let Some(layout) = inode.columns().filter(|layout| concerned.contains(&layout.device)) else {
            return Ok(false);
        };
        let Some(device) = read::device(view, layout.device)? else { return Ok(true) };
        let is_there = |column| {
            let chain = layout.chain(&device.chains, column);
            chain.is_some_and(|chain| self.is_on(chain, targets))
        };
        let may_have_more = read::unsettled(view, inode.id)?.is_some();
        let has_data = |column| may_have_more || layout.object_len(column, inode.size) > 0;
        Ok((0..layout.columns).any(|column| is_there(column) && has_data(column)))
    }

    /// The path of a directory, without a slash at its end. `known`: paths found before.
    fn path_of(
        &self,
        view: &dyn store::View,
        dir: InodeId,
        known: &mut std::collections::BTreeMap<InodeId, Vec<u8>>,
        depth: usize,
    ) -> Result<Vec<u8>, AdminError> {
        if dir == InodeId::ROOT || depth > DEPTH_MAX {
            return Ok(vec![]);
        }
        if let Some(path) = known.get(&dir) {
            return Ok(path.clone());
        }
        let inode = read::inode(view, dir)?;
        let Some(parent) = inode.and_then(|inode| inode.directory().map(|directory| directory.parent)) else {
            return Ok(vec![]);
        };
        let mut path = self.path_of(view, parent, known, depth + 1)?;
        path.push(b'/');
        path.extend(read::name_of(view, parent, dir)?.unwrap_or_default());
        known.insert(dir, path.clone());
        Ok(path)
    }
}
