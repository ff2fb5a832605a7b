//! Whole data servers of a cluster: faults of their disks, and their rest: all chains are whole, members have the same
//! bytes, and clients read what they wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use dataserver::ObjectName;
use namespace::{InodeId, MemberState, read};
use store::StoreError;

use crate::cluster::Cluster;
use crate::data_server::Served;
use crate::mount::NfsClient;
use crate::net::CLIENTS;
use crate::object_disk::Condition;
use crate::rng::Rng;
use crate::whole_data_server::{chain_of, objects};

/// Pace of a disk that works, in milliseconds.
pub const PACE_MS: (u64, u64) = (0, 1);
/// Pace of a slow disk.
const SLOW_MS: (u64, u64) = (5, 60);
/// Longest time in which all chains are whole again.
const WHOLE_MS_MAX: u64 = 60_000;
/// Longest time in which all records are read.
const AUDIT_MS_MAX: u64 = 60_000;
/// Longest time in which members that are in become equal: changes whose callers were answered go on.
const EQUAL_MS_MAX: u64 = 10_000;
/// Address of the client that reads all records.
const AUDITOR: u64 = CLIENTS + 40;

/// Objects of one data server, with the chains in their marks; 0: none.
type Objects = BTreeMap<ObjectName, (u64, PathBuf)>;

impl Cluster {
    /// A fault of a disk, or none.
    pub(crate) fn trouble_disks(&mut self, rng: &mut Rng) {
        let now_ms = self.shared.now_ms();
        let number = rng.below(self.data_servers.len());
        let server = &mut self.data_servers[number];
        let (at, choice, changes, pause_ms) =
            (server.address, rng.below(9), rng.within(0..=80), rng.within(50..=3000));
        let Served::Whole(disk, _) = &server.served else { return };
        let what = match choice {
            0 => {
                disk.cut_power_after(changes);
                format!("the power goes after {changes} changes")
            }
            1 => {
                server.lose_power();
                server.starts_at_ms = now_ms + pause_ms;
                "the power goes now".into()
            }
            2 => {
                disk.set_pace(SLOW_MS);
                "its disk is slow".into()
            }
            3 => {
                disk.set_condition(Condition::Full);
                "its disk is full".into()
            }
            4 => {
                disk.set_condition(Condition::Fails);
                server.must_restart = true;
                "its disk fails".into()
            }
            5 => {
                disk.set_condition(Condition::Works);
                disk.set_pace(PACE_MS);
                "its disk works".into()
            }
            6 => {
                for server in &mut self.data_servers {
                    server.lose_power();
                    server.starts_at_ms = now_ms + rng.within(50..=3000);
                }
                "the power goes everywhere".into()
            }
            _ => return,
        };
        self.shared.note(|| format!("data server {at}: {what}"));
    }

    /// Waits until all chains are whole; reads all records, and compares the members.
    pub(crate) fn copies_come_to_rest(&mut self) -> Result<(), String> {
        let is_whole = |cluster: &Self| cluster.incomplete().is_some_and(|chains| chains.is_empty());
        if !self.until(WHOLE_MS_MAX, is_whole) {
            return Err(format!("chains are not whole: {:?}", self.incomplete()));
        }
        let metaservers = self.members.len() as u64;
        let mut auditor = NfsClient::new(AUDITOR, metaservers, &self.shared, self.rng.fork());
        {
            let _runtime = self.clients.enter();
            auditor.start_audit();
        }
        if !self.until(AUDIT_MS_MAX, |_| auditor.has_finished()) {
            return Err("the records cannot all be read".into());
        }
        auditor.kill();
        let is_equal = |cluster: &Self| cluster.difference().is_ok_and(|found| found.is_none());
        if !self.until(EQUAL_MS_MAX, is_equal) {
            return Err(self.difference().map_err(|e| e.to_string())?.unwrap_or_default());
        }
        Ok(())
    }

    /// Chains with a member that is not in, by the leader. None: there is no leader.
    fn incomplete(&self) -> Option<Vec<String>> {
        let leads = |member: &&crate::member::Member| member.replica().is_some_and(|replica| replica.leads());
        let metaserver = self.members.iter().find(leads)?.metaserver()?;
        let chains = metaserver.cluster().chains();
        let incomplete = chains.values().filter(|chain| {
            let members_in = chain.with_state(MemberState::In).count();
            members_in != chain.members.len() || members_in < usize::from(chain.copies)
        });
        Some(incomplete.map(|chain| format!("{chain:?}")).collect())
    }

    /// A column that members of its chain have otherwise, or do not have.
    fn difference(&self) -> Result<Option<String>, StoreError> {
        let Some(metaserver) = self.members.iter().find_map(crate::member::Member::metaserver) else {
            return Ok(Some("no metaserver runs".into()));
        };
        let (map, store) = (metaserver.cluster().map(), self.members[0].store.now());
        let mut of_target: BTreeMap<u64, Objects> = BTreeMap::new();
        let mut inodes: BTreeSet<u64> = BTreeSet::new();
        for server in &self.data_servers {
            let Served::Whole(_, dir) = &server.served else { continue };
            let name = format!("ds{}", server.address);
            let known = map.present_data_servers().find(|known| known.name == name);
            let Some(target) = known.and_then(|known| known.targets.first()) else { continue };
            let found = objects(dir.path());
            inodes.extend(found.iter().map(|(name, _)| name.inode));
            let found = found.into_iter().map(|(name, path)| (name, (chain_of(&path).unwrap_or(0), path)));
            of_target.insert(target.0, found.collect());
        }
        for inode in inodes {
            let Some(inode) = read::inode(&store, InodeId(inode))? else { continue };
            let Some(layout) = inode.columns() else { continue };
            let Some(device) = read::device(&store, layout.device)? else { continue };
            for column in 0..layout.columns {
                let chain = device.chains[(layout.first + column) as usize % device.chains.len()];
                let known = map.chains.iter().find(|known| known.id == chain && known.copies > 1);
                let Some(known) = known else { continue };
                let name = ObjectName { volume: 1, inode: inode.id.0, generation: inode.generation, column };
                let members = known.with_state(MemberState::In);
                let objects = members.map(|target| of_target.get(&target.0).and_then(|of| of.get(&name)));
                let read = |(of, path): &(u64, PathBuf)| (*of, std::fs::read(path).unwrap_or_default());
                let objects: Vec<Option<(u64, Vec<u8>)>> = objects.map(|object| object.map(read)).collect();
                let is_right = |object: &Option<(u64, Vec<u8>)>| {
                    object.as_ref().is_some_and(|(of, _)| *of == chain.0) && *object == objects[0]
                };
                if !objects.iter().all(is_right) {
                    let what: Vec<_> = objects
                        .iter()
                        .map(|object| object.as_ref().map(|(of, bytes)| (of, bytes.len())))
                        .collect();
                    return Ok(Some(format!(
                        "members of chain {} differ in {name}: chain in the mark and length {what:?}",
                        chain.0
                    )));
                }
            }
        }
        Ok(None)
    }
}
