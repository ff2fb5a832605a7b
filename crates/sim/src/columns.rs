//! Columns with copies, and their files at the members of their chains, as they are at rest and in between.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use dataserver::ObjectName;
use metaserver::Metaserver;
use namespace::{Chain, ChainId, InodeId, MemberState, read};
use store::StoreError;

use crate::cluster::Cluster;
use crate::data_server::Served;
use crate::member::Member;
use crate::whole_data_server::{chain_of, objects};

/// File of an object.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    /// The chain in its mark; 0: none.
    pub chain: u64,
    /// The file.
    pub path: PathBuf,
}

/// A column on a chain with copies.
pub(crate) struct Column {
    pub name: ObjectName,
    pub chain: ChainId,
    /// Objects of the members that are in; none: there is no file.
    pub objects: Vec<Option<Object>>,
    /// True if all members are in, and as many as there are to be, and none has lost anything that the cluster does not
    /// know of yet.
    pub is_whole: bool,
}

/// True if all members of a chain are in, and as many as there are to be.
pub(crate) fn is_whole(chain: &Chain) -> bool {
    let members_in = chain.with_state(MemberState::In).count();
    members_in == chain.members.len() && members_in >= usize::from(chain.copies)
}

impl Cluster {
    /// The metaserver that has applied most. For one that lags, chains are whole that members have left.
    pub(crate) fn newest(&self) -> Option<(Arc<Metaserver>, &Member)> {
        let running = self.members.iter().filter_map(|member| Some((member, member.metaserver()?)));
        let newest = running.max_by_key(|(member, _)| member.status().map(|status| status.applied));
        newest.map(|(member, metaserver)| (metaserver, member))
    }

    /// All columns with copies, of the files that the newest store has.
    pub(crate) fn columns(&self) -> Result<Vec<Column>, StoreError> {
        let Some((metaserver, member)) = self.newest() else { return Ok(vec![]) };
        let store = member.store.now();
        let map = metaserver.cluster().map();
        let mut known_to_run = BTreeSet::new();
        let mut of_target: BTreeMap<u64, BTreeMap<ObjectName, PathBuf>> = BTreeMap::new();
        let mut inodes: BTreeSet<u64> = BTreeSet::new();
        for server in &self.data_servers {
            let Served::Whole(_, dir) = &server.served else { continue };
            let name = server.name();
            let known = map.present_data_servers().find(|known| known.name == name);
            let Some(known) = known else { continue };
            let Some(target) = known.targets.first() else { continue };
            if server.runs_as(known.process) {
                known_to_run.insert(*target);
            }
            let found = objects(dir.path());
            inodes.extend(found.iter().map(|(name, _)| name.inode));
            of_target.insert(target.0, found.into_iter().collect());
        }
        let mut columns = vec![];
        for inode in inodes {
            let inode = InodeId(inode);
            let Some(owner) = read::owner(&store, inode)? else { continue };
            // Copies that are being made, or were begun by a metaserver that is gone.
            if read::copy_of_objects(&store, owner.file)? == Some(inode) {
                continue;
            }
            let has_columns = |inode: namespace::Inode| inode.columns().is_some();
            if !owner.is_kept && !read::inode(&store, owner.file)?.is_some_and(has_columns) {
                continue;
            }
            let layout = owner.layout;
            let Some(device) = read::device(&store, layout.device)? else { continue };
            for column in 0..layout.columns {
                let chain = device.chains[(layout.first + column) as usize % device.chains.len()];
                let known = map.chains.iter().find(|known| known.id == chain && known.copies > 1);
                let Some(known) = known else { continue };
                let name = ObjectName { volume: 1, inode: inode.0, generation: owner.generation, column };
                let members = known.with_state(MemberState::In);
                let path = members.map(|target| of_target.get(&target.0).and_then(|of| of.get(&name)));
                let object =
                    |path: &PathBuf| Object { chain: chain_of(path).unwrap_or(0), path: path.clone() };
                let objects = path.map(|path| path.map(object)).collect();
                let all_run = known.members.iter().all(|member| known_to_run.contains(&member.target));
                columns.push(Column { name, chain, objects, is_whole: is_whole(known) && all_run });
            }
        }
        Ok(columns)
    }
}
