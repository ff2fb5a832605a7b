//! Whole data servers of a cluster: faults of their disks, and their rest: all chains are whole, members have the same
//! bytes, and clients read what they wrote.

use dataserver::shown_bytes;
use store::StoreError;

use crate::cluster::Cluster;
use crate::columns::{Column, Object, is_whole};
use crate::data_server::Served;
use crate::mount::NfsClient;
use crate::net::CLIENTS;
use crate::object_disk::Condition;
use crate::rng::Rng;

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

impl Cluster {
    /// A fault of a disk, or none.
    pub(crate) fn trouble_disks(&mut self, rng: &mut Rng) {
        let now_ms = self.shared.now_ms();
        let number = rng.below(self.data_servers.len());
        let server = &mut self.data_servers[number];
        // Disks that refuse new objects are half of the faults where many columns are to be placed anew.
        let choice = match self.shared.data.places_anew && rng.below(2) == 0 {
            true => 3 + 4 * rng.below(2),
            false => rng.below(10),
        };
        let (at, changes, pause_ms) = (server.address, rng.within(0..=80), rng.within(50..=3000));
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
            7 => {
                disk.set_condition(Condition::ReadOnly);
                server.must_restart = true;
                "its disk is read-only".into()
            }
            _ => return,
        };
        self.shared.note(|| format!("data server {at}: {what}"));
    }

    /// Waits until all chains are whole; reads all records, and compares the members.
    pub(crate) fn copies_come_to_rest(&mut self) -> Result<(), String> {
        if self.shared.data.has_snapshots {
            self.snapshots_come_to_rest()?;
        }
        if self.shared.data.is_operated {
            self.operators_come_to_rest()?;
        }
        let are_whole = |cluster: &Self| cluster.incomplete().is_some_and(|chains| chains.is_empty());
        if !self.until(WHOLE_MS_MAX, are_whole) {
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
        let incomplete = chains.values().filter(|chain| !is_whole(chain));
        Some(incomplete.map(|chain| format!("{chain:?}")).collect())
    }

    /// A column that members of its chain have otherwise, or do not have.
    fn difference(&self) -> Result<Option<String>, StoreError> {
        for Column { name, chain, objects, .. } in self.columns()? {
            let read = |object: &Object| (object.chain, shown_bytes(&object.path).unwrap_or_default());
            let objects: Vec<Option<(u64, Vec<u8>)>> =
                objects.iter().map(|object| object.as_ref().map(read)).collect();
            let is_right = |object: &Option<(u64, Vec<u8>)>| {
                object.as_ref().is_some_and(|(of, _)| *of == chain.0) && *object == objects[0]
            };
            // A move of an empty column that did not come about leaves its mark at the target that both chains have. The
            // next call, before it brings data, sets the file's chain again.
            let is_empty =
                objects.iter().all(|object| object.as_ref().is_some_and(|(_, bytes)| bytes.is_empty()));
            if !is_empty && !objects.iter().all(is_right) {
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
        Ok(None)
    }
}
