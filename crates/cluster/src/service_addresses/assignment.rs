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
mod tests {
    use host::interface::EXPIRY_LATE_MAX;
    use replica::NodeId;

    use super::*;

    fn addresses(count: u8) -> Vec<IpAddr> {
        (0..count).map(|n| IpAddr::from([10, 77, 0, n])).collect()
    }

    /// Members that beat in turn. They hold a granted address until its lease is over, as the kernel does,
    /// and take an address only if no other member answers for it.
    struct Cluster {
        assignment: Assignment<NodeId>,
        now: Duration,
        held: BTreeMap<NodeId, Vec<(IpAddr, Duration)>>,
        /// Their kernels answer.
        hung: Vec<NodeId>,
    }

    impl Cluster {
        fn new(members: u64, count: u8) -> Self {
            let assignment = Assignment::new(&addresses(count), 1..=members, Duration::ZERO);
            let held = (1..=members).map(|id| (id, vec![])).collect();
            Self { assignment, now: Duration::ZERO, held, hung: vec![] }
        }

        fn pass(&mut self, time: Duration) {
            let end = self.now + time;
            while self.now < end {
                self.now += BEAT;
                let now = self.now;
                for member in self.held.keys().copied().collect::<Vec<_>>() {
                    self.held.values_mut().for_each(|held| held.retain(|(_, until)| *until > now));
                    if self.hung.contains(&member) {
                        continue;
                    }
                    let has = |held: &[(IpAddr, Duration)], address| held.iter().any(|(a, _)| *a == address);
                    let before: Vec<IpAddr> =
                        self.held[&member].iter().map(|(address, _)| *address).collect();
                    let mut granted = self.assignment.beat(member, &before, now);
                    granted.retain(|address| {
                        !self.held.iter().any(|(other, held)| *other != member && has(held, *address))
                    });
                    // At its latest time.
                    let until = now + LEASE + EXPIRY_LATE_MAX;
                    let held = granted.into_iter().map(|address| (address, until)).collect();
                    self.held.insert(member, held);
                }
                let mut all: Vec<_> = self.held.values().flatten().map(|(address, _)| *address).collect();
                let held = all.len();
                all.sort_unstable();
                all.dedup();
                assert_eq!(all.len(), held, "one address on two machines at {now:?}");
            }
        }

        fn counts(&self) -> Vec<usize> {
            self.held.values().map(Vec::len).collect()
        }
    }

    #[test]
    fn a_member_that_drains_holds_none_and_the_others_have_them_at_once() {
        let mut cluster = Cluster::new(3, 6);
        cluster.pass(LONG);
        cluster.hung = vec![2]; // its beats are carried out here
        let mut beats = 0;
        while cluster.counts() != [3, 0, 3] {
            let held: Vec<IpAddr> = cluster.held[&2].iter().map(|(address, _)| *address).collect();
            cluster.assignment.withhold(2, &held, cluster.now);
            cluster.held.get_mut(&2).unwrap().clear();
            cluster.pass(BEAT);
            beats += 1;
            assert!(beats < 6, "{:?}", cluster.counts());
        }
        cluster.hung.clear();
        cluster.pass(LONG);
        assert_eq!(cluster.counts(), [2, 2, 2]);
    }

    const LONG: Duration = Duration::from_secs(10);

    #[test]
    fn all_addresses_are_held_and_shared_out() {
        let mut cluster = Cluster::new(3, 6);
        cluster.pass(LONG);
        assert_eq!(cluster.counts(), [2, 2, 2]);
        let mut few = Cluster::new(3, 1);
        few.pass(LONG);
        assert_eq!(few.counts().iter().sum::<usize>(), 1);
    }

    #[test]
    fn who_hangs_loses_his_to_the_others_and_gets_some_back_one_by_one() {
        let mut cluster = Cluster::new(3, 6);
        cluster.pass(LONG);
        cluster.hung = vec![2];
        let mut waited = Duration::ZERO;
        while cluster.counts() != [3, 0, 3] {
            cluster.pass(BEAT);
            waited += BEAT;
            assert!(waited <= LEASE + EXPIRY_LATE_MAX + 2 * BEAT, "clients wait: {:?}", cluster.counts());
        }
        let kept: Vec<_> = cluster.held[&1].iter().map(|(address, _)| *address).collect();
        cluster.hung.clear();
        cluster.pass(LONG);
        assert_eq!(cluster.counts(), [2, 2, 2]);
        let stayed = cluster.held[&1].iter().filter(|(address, _)| kept.contains(address)).count();
        assert_eq!(stayed, 2, "only what moved has moved");
    }

    #[test]
    fn addresses_come_and_go_and_the_others_stay_where_they_are() {
        let mut cluster = Cluster::new(3, 3);
        cluster.pass(LONG);
        let before = cluster.held.clone();
        cluster.assignment.follow(&addresses(6), cluster.now);
        cluster.pass(LONG);
        assert_eq!(cluster.counts(), [2, 2, 2]);
        let holds = |held: &BTreeMap<NodeId, Vec<(IpAddr, Duration)>>, id: &NodeId, address: IpAddr| {
            held[id].iter().any(|(held, _)| *held == address)
        };
        for (id, held) in &before {
            assert!(holds(&cluster.held, id, held[0].0), "{} has moved", held[0].0);
        }
        cluster.assignment.follow(&addresses(2), cluster.now);
        cluster.pass(LONG);
        assert_eq!(cluster.counts().iter().sum::<usize>(), 2, "what was removed is granted to nobody");
        // Removed and added again while its holder may still have it: never on two machines, which `pass`
        // checks.
        cluster.hung = vec![1];
        cluster.assignment.follow(&[], cluster.now);
        cluster.assignment.follow(&addresses(3), cluster.now);
        cluster.pass(LONG);
        assert_eq!(cluster.counts().iter().sum::<usize>(), 3);
    }

    #[test]
    fn a_new_leader_leaves_addresses_where_they_are() {
        let mut cluster = Cluster::new(3, 3);
        cluster.pass(LONG);
        let before = cluster.held.clone();
        cluster.assignment = Assignment::new(&addresses(3), 1..=3, cluster.now);
        cluster.pass(LONG);
        let places = |held: &BTreeMap<NodeId, Vec<(IpAddr, Duration)>>| -> Vec<Vec<IpAddr>> {
            held.values().map(|held| held.iter().map(|(address, _)| *address).collect()).collect()
        };
        assert_eq!(places(&cluster.held), places(&before));
    }

    #[test]
    fn what_a_dead_one_had_is_granted_with_the_next_beat() {
        let mut cluster = Cluster::new(3, 3);
        cluster.pass(LONG);
        let lost = cluster.held.remove(&2).expect("a member")[0].0;
        cluster.pass(2 * BEAT);
        assert_eq!(cluster.assignment.suspects(cluster.now), [2], "it is asked for");
        cluster.assignment.gone(2, cluster.now);
        cluster.pass(BEAT);
        let everywhere: Vec<IpAddr> = cluster.held.values().flatten().map(|(address, _)| *address).collect();
        assert!(everywhere.contains(&lost) && everywhere.len() == 3, "{everywhere:?}");
        assert!(cluster.assignment.suspects(cluster.now).is_empty());
    }

    #[test]
    fn a_new_leader_grants_what_the_one_before_had_once_it_is_known_to_be_dead() {
        let mut cluster = Cluster::new(3, 3);
        cluster.pass(LONG);
        let lost = cluster.held.remove(&1).expect("the leader")[0].0;
        cluster.assignment = Assignment::new(&addresses(3), 1..=3, cluster.now);
        cluster.pass(2 * BEAT);
        assert!(!cluster.assignment.owners().values().any(|owner| *owner == Some(1)));
        assert_eq!(cluster.counts(), [1, 1], "the leader before may have granted it to the silent one");
        cluster.assignment.gone(1, cluster.now);
        cluster.pass(BEAT);
        assert_eq!(cluster.counts().iter().sum::<usize>(), 3, "{lost} is granted");
    }

    #[test]
    fn an_address_with_a_home_is_there_whenever_the_home_lives() {
        let mut cluster = Cluster::new(3, 3);
        let homes: BTreeMap<IpAddr, NodeId> = addresses(3).into_iter().zip([2, 3, 1]).collect();
        cluster.assignment = Assignment::new(&[], [], Duration::ZERO);
        cluster.assignment.follow_homes(homes.clone(), Duration::ZERO);
        let is_at_home = |cluster: &Cluster, address: &IpAddr| {
            cluster.held[&homes[address]].iter().any(|(held, _)| held == address)
        };
        cluster.pass(LONG);
        assert!(homes.keys().all(|address| is_at_home(&cluster, address)));
        cluster.hung = vec![2];
        let mut waited = Duration::ZERO;
        while cluster.counts().iter().sum::<usize>() < 3 || !cluster.held[&2].is_empty() {
            cluster.pass(BEAT);
            waited += BEAT;
            assert!(waited <= LEASE + EXPIRY_LATE_MAX + 2 * BEAT, "clients wait: {:?}", cluster.counts());
        }
        let others = homes.iter().filter(|(_, home)| **home != 2);
        assert!(others.clone().all(|(address, _)| is_at_home(&cluster, address)), "only the lost one moves");
        cluster.hung.clear();
        cluster.pass(4 * BEAT);
        assert!(homes.keys().all(|address| is_at_home(&cluster, address)), "it is at home again");
        // The home of an address changes: a data server was replaced by another one.
        let homes: BTreeMap<IpAddr, NodeId> = addresses(3).into_iter().zip([1, 3, 1]).collect();
        cluster.assignment.follow_homes(homes, cluster.now);
        cluster.pass(LONG);
        assert_eq!(cluster.counts(), [2, 0, 1]);
    }

    #[test]
    fn one_that_may_have_an_address_and_has_it_not_is_not_shown_as_its_holder() {
        let [address] = addresses(1)[..] else { unreachable!() };
        let mut assignment = Assignment::new(&[address], [1], Duration::ZERO);
        assert_eq!(assignment.beat(1, &[], BEAT), [address]);
        assert_eq!(assignment.beat(1, &[], 2 * BEAT), [address], "it is in use elsewhere: tried again");
        assert_eq!(assignment.owners()[&address], None);
        assignment.beat(1, &[address], 3 * BEAT);
        assert_eq!(assignment.owners()[&address], Some(1));
    }
}
