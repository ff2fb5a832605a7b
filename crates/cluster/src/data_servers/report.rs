//! What data servers have reported of their targets, for people, and for `df`.

use std::collections::BTreeMap;

use namespace::{DataServerId, TargetId};
use wire::data::TargetCondition;

use super::{DataServers, Target};

/// One row of `heorot status`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetReport {
    /// The target.
    pub target: TargetId,
    /// The data server that has it.
    pub server: DataServerId,
    /// Id of the file system that it is on, in its data server.
    pub file_system: u64,
    /// Its directory there.
    pub path: String,
    /// Bytes of the file system that it is on.
    pub total_bytes: u64,
    /// Bytes free there.
    pub free_bytes: u64,
    /// Objects on the target.
    pub objects: u64,
    /// Bytes of removed objects that are still kept in the trash. They count as free.
    pub trash_bytes: u64,
    /// Reserved bytes of its file system. They do not count as free.
    pub reserve_bytes: u64,
    /// True if its server reports.
    pub alive: bool,
    /// Its condition, as last reported: readable and writable, or not.
    pub condition: TargetCondition,
}

impl DataServers {
    /// All targets, for people.
    #[must_use]
    pub fn report(&self) -> Vec<TargetReport> {
        let targets = self.targets.read();
        let row = |(id, target): (&TargetId, &Target)| {
            let space = target.space.as_ref();
            TargetReport {
                target: *id,
                server: target.server,
                file_system: space.map_or(0, |s| s.file_system),
                path: space.map_or_else(String::new, |s| String::from_utf8_lossy(&s.path).into_owned()),
                total_bytes: space.map_or(0, |s| s.total),
                free_bytes: space.map_or(0, |s| s.free),
                objects: space.map_or(0, |s| s.objects),
                trash_bytes: space.map_or(0, |s| s.trash),
                reserve_bytes: space.map_or(0, |s| s.reserve),
                alive: self.is_alive(target),
                condition: space.map_or(TargetCondition::Ok, |s| s.condition),
            }
        };
        targets.iter().map(row).collect()
    }

    /// Total and free bytes of all targets. Targets on one file system share its space, which counts once; what is in
    /// the trash of one process there is no room for another one.
    #[must_use]
    pub fn space(&self) -> (u64, u64) {
        let targets = self.targets.read();
        let mut spaces = BTreeMap::<u64, (bool, u64, u64)>::new();
        for target in targets.values() {
            let Some(space) = &target.space else { continue };
            let now = (self.is_alive(target), space.total, space.free);
            let known = spaces.entry(space.file_system).or_insert(now);
            // The report of one that is away is old.
            match now.0.cmp(&known.0) {
                std::cmp::Ordering::Greater => *known = now,
                std::cmp::Ordering::Equal => known.2 = known.2.min(space.free),
                std::cmp::Ordering::Less => {}
            }
        }
        let sum = |of: fn(&(bool, u64, u64)) -> u64| spaces.values().map(of).fold(0, u64::saturating_add);
        (sum(|(_, total, _)| *total), sum(|(.., free)| *free))
    }
}
