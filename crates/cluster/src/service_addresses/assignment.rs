//! Assignment of service addresses to holders, kept by the leader. It reads no clock: the time is an
//! argument.
//!
//! ```text
//! free ──granted──▶ held until a lease from the last grant ──not granted again──▶ over ──▶ free
//!                        ├── handed back: reported as not held any more ──────────────────▶ free
//!                        └── its holder's process is dead, or it stops ───────────────────▶ free
//! ```
//!
//! An address that is free here may still be on the machine that had it: the kernel there may be late (by
//! [`host::interface::EXPIRY_LATE_MAX`]), or have no device that goes with the process. A new holder
//! therefore probes the address first, and again with each beat until no machine answers. A machine that is
//! cut off from the prober does not answer the probe. Some clients may still reach it, for as long as its
//! kernel is late. They learn nothing wrong there, since a metaserver without a quorum answers no reads and
//! makes no changes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

/// Address lease: the holder's kernel removes the address at its end. Short: clients of a metaserver that
/// hangs wait for it.
pub(crate) const LEASE: Duration = Duration::from_secs(1);
/// Interval at which each metaserver asks the leader for its addresses.
pub(crate) const BEAT: Duration = Duration::from_millis(150);
/// Time to probe an address for another holder.
pub(crate) const ASKING: Duration = Duration::from_millis(60);
/// A member that is silent for this long gets no address.
const SILENT_AFTER: Duration = Duration::from_secs(1);
/// A member that is silent for this long is suspected: the leader checks if its process is dead.
const SUSPECT_AFTER: Duration = Duration::from_millis(200);

/// One address.
#[derive(Debug, Clone, Copy)]
struct Entry<H> {
    owner: Option<H>,
    /// Another member may be granted the address from this time on.
    free_from: Duration,
    /// To be handed back, since other members have fewer.
    withheld: bool,
    /// True if the owner reported that it holds the address; false if it only may.
    held: bool,
}

impl<H> Entry<H> {
    fn free(from: Duration) -> Self {
        Self { owner: None, free_from: from, withheld: false, held: false }
    }
}

/// All addresses of servers of one kind, with ids of type `H`.
#[derive(Debug)]
pub(crate) struct Assignment<H> {
    entries: BTreeMap<IpAddr, Entry<H>>,
    /// Home of each address that has one: a server that lives holds its own addresses.
    homes: BTreeMap<IpAddr, H>,
    heard: BTreeMap<H, Duration>,
    /// Members without a beat since this leader began: each may hold addresses that the leader before
    /// granted.
    unknown: BTreeSet<H>,
    /// True if an address has become free: another member may take it without waiting for its next beat.
    freed: bool,
}

impl<H: Copy + Ord> Assignment<H> {
    /// The assignment of a new leader. The grants of the leader before are unknown until every member has
    /// sent a beat or is dead, and expire after a lease.
    pub(crate) fn new(addresses: &[IpAddr], members: impl IntoIterator<Item = H>, now: Duration) -> Self {
        let entries = addresses.iter().map(|a| (*a, Entry::free(now + LEASE))).collect();
        let unknown = members.into_iter().collect();
        Self { entries, homes: BTreeMap::new(), heard: BTreeMap::new(), unknown, freed: false }
    }

    /// Follows the list of addresses that have a home, each with it.
    pub(crate) fn follow_homes(&mut self, homes: BTreeMap<IpAddr, H>, now: Duration) {
        let addresses: Vec<IpAddr> = homes.keys().copied().collect();
        self.homes = homes;
        self.follow(&addresses, now);
    }

    /// Follows the list of addresses. A new one may have been removed a moment ago, and still be held.
    pub(crate) fn follow(&mut self, addresses: &[IpAddr], now: Duration) {
        self.entries.retain(|address, _| addresses.contains(address));
        for address in addresses {
            self.entries.entry(*address).or_insert_with(|| Entry::free(now + LEASE));
        }
    }

    /// Notes a beat: `member` lives and holds `held`. Returns the addresses that it may hold for a lease from
    /// now on.
    pub(crate) fn beat(&mut self, member: H, held: &[IpAddr], now: Duration) -> Vec<IpAddr> {
        self.heard.insert(member, now);
        self.heard.retain(|_, heard| now.saturating_sub(*heard) < SILENT_AFTER);
        for (address, entry) in &mut self.entries {
            let holds = held.contains(address);
            match entry.owner {
                // The leader before granted the address.
                None if holds && entry.free_from > now => entry.owner = Some(member),
                Some(owner) if owner == member && !holds && entry.withheld => {
                    *entry = Entry::free(now);
                    self.freed = true;
                }
                _ => {}
            }
            if entry.owner == Some(member) {
                entry.held = holds;
            }
        }
        self.know(member, now);
        self.send_home(member);
        self.level(member);
        let mut granted = Vec::new();
        for address in self.entries.keys().copied().collect::<Vec<_>>() {
            let entry = self.entries[&address];
            let is_over = entry.owner.is_none_or(|owner| !self.heard.contains_key(&owner));
            let taken = entry.owner != Some(member)
                && is_over
                && entry.free_from <= now
                && self.may_take(member, address);
            if taken || (entry.owner == Some(member) && !entry.withheld) {
                let held = entry.held && !taken;
                let granted_now =
                    Entry { owner: Some(member), free_from: now + LEASE, withheld: false, held };
                self.entries.insert(address, granted_now);
                granted.push(address);
            }
        }
        granted
    }

    /// Notes that `member`, which still holds `held`, must hold no address, and does not count it for the
    /// balance. An address that it has handed back is free.
    pub(crate) fn withhold(&mut self, member: H, held: &[IpAddr], now: Duration) {
        self.heard.remove(&member);
        for (address, entry) in self.entries.iter_mut().filter(|(_, entry)| entry.owner == Some(member)) {
            match held.contains(address) {
                true => entry.withheld = true,
                false => {
                    *entry = Entry::free(now);
                    self.freed = true;
                }
            }
        }
        if held.is_empty() {
            self.know(member, now);
        }
    }

    /// Notes that the process of `member` is dead, or stops: its addresses are free.
    pub(crate) fn gone(&mut self, member: H, now: Duration) {
        self.heard.remove(&member);
        for entry in self.entries.values_mut().filter(|entry| entry.owner == Some(member)) {
            *entry = Entry::free(now);
            self.freed = true;
        }
        self.know(member, now);
    }

    /// True if an address has become free since the last call.
    pub(crate) fn take_freed(&mut self) -> bool {
        std::mem::take(&mut self.freed)
    }

    /// True if members other than `member` hold all addresses, by their own reports.
    pub(crate) fn is_held_without(&self, member: H) -> bool {
        self.entries.values().all(|entry| entry.held && entry.owner.is_some_and(|owner| owner != member))
    }

    /// Members whose beat is overdue.
    pub(crate) fn suspects(&self, now: Duration) -> Vec<H> {
        let owners = self.entries.values().filter_map(|entry| entry.owner);
        let silent = |member: &H| {
            self.heard.get(member).is_none_or(|heard| now.saturating_sub(*heard) > SUSPECT_AFTER)
        };
        let all: BTreeSet<H> = owners.chain(self.unknown.iter().copied()).filter(silent).collect();
        all.into_iter().collect()
    }

    /// Members without a beat for `time` whose addresses are not free yet.
    pub(crate) fn late_holders(&self, time: Duration, now: Duration) -> BTreeSet<H> {
        let held = self.entries.values().filter(|entry| entry.free_from > now);
        let late = |member: &H| self.heard.get(member).is_none_or(|heard| now.saturating_sub(*heard) > time);
        held.filter_map(|entry| entry.owner).filter(late).collect()
    }

    /// Holder of each address, for people.
    pub(crate) fn owners(&self) -> BTreeMap<IpAddr, Option<H>> {
        let owner = |entry: &Entry<H>| entry.owner.filter(|_| entry.held);
        self.entries.iter().map(|(address, entry)| (*address, owner(entry))).collect()
    }

    /// Notes that `member` has reported its addresses, or holds none. After the last unknown member, each
    /// address without an owner is free.
    fn know(&mut self, member: H, now: Duration) {
        if self.unknown.remove(&member) && self.unknown.is_empty() {
            for entry in self.entries.values_mut().filter(|entry| entry.owner.is_none()) {
                entry.free_from = now;
                self.freed = true;
            }
        }
    }

    fn count(&self, member: H) -> usize {
        self.entries.values().filter(|entry| entry.owner == Some(member) && !entry.withheld).count()
    }

    /// True if `member` is the one to take this address: its home, or while that is silent the poorest.
    fn may_take(&self, member: H, address: IpAddr) -> bool {
        match self.homes.get(&address).filter(|home| self.heard.contains_key(home)) {
            Some(home) => *home == member,
            None => self.is_poorest(member),
        }
    }

    fn is_poorest(&self, member: H) -> bool {
        self.heard.keys().all(|other| self.count(member) <= self.count(*other))
    }

    /// Takes from `member` the addresses whose home lives again.
    fn send_home(&mut self, member: H) {
        let Self { entries, homes, heard, .. } = self;
        for (address, entry) in entries.iter_mut().filter(|(_, entry)| entry.owner == Some(member)) {
            if homes.get(address).is_some_and(|home| *home != member && heard.contains_key(home)) {
                entry.withheld = true;
            }
        }
    }

    /// Rebalance: takes one address from `member` if another member has at least two fewer.
    fn level(&mut self, member: H) {
        let poorest = self.heard.keys().map(|other| self.count(*other)).min().unwrap_or(0);
        let underway = self.entries.values().any(|entry| entry.withheld);
        if underway || self.count(member) < poorest + 2 {
            return;
        }
        let Self { entries, homes, .. } = self;
        let movable = |(address, entry): &(&IpAddr, &mut Entry<H>)| {
            entry.owner == Some(member) && !homes.contains_key(*address)
        };
        if let Some((_, entry)) = entries.iter_mut().find(movable) {
            entry.withheld = true;
        }
    }
}

#[cfg(test)]
mod tests;
