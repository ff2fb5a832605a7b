//! Who holds which service address: the leader's book. It knows time only as it is told.
//!
//! ```text
//! free ──granted──▶ held until a lease from the last grant ──not granted again──▶ over, and late by the kernel ──▶ free
//!                        └── handed back: reported as not held any more ─────────────────────────────────────────▶ free
//! ```

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use host::interface::EXPIRY_LATE_MAX;
use replica::NodeId;

/// For how long an address is granted; the kernel of whom it was granted to takes it away then. Short: clients of a
/// metaserver that died wait for it. Linux tries to connect again 3 s after it was refused, and then waits for longer: by
/// then the address should be where somebody answers.
pub(crate) const LEASE: Duration = Duration::from_secs(1);
/// How often each metaserver asks the leader for its addresses.
pub(crate) const BEAT: Duration = Duration::from_millis(150);
/// How long it takes to ask whether anybody else has an address.
pub(crate) const ASKING: Duration = Duration::from_millis(60);
/// Who was not heard of for this long gets none.
const SILENT_AFTER: Duration = Duration::from_secs(1);
/// How much later than a lease's end an address may be gone: the grant was on its way for a beat at most, the address was
/// asked for, the kernel is late, and a clock may run slower than another.
const LATE_MAX: Duration =
    EXPIRY_LATE_MAX.saturating_add(BEAT).saturating_add(ASKING).saturating_add(Duration::from_millis(50));

/// One address.
#[derive(Debug, Clone, Copy)]
struct Entry {
    owner: Option<NodeId>,
    /// Somebody else may hold it from then on.
    free_from: Duration,
    /// To be handed back, since others have fewer.
    withheld: bool,
}

/// All addresses.
#[derive(Debug)]
pub(crate) struct Assignment {
    entries: BTreeMap<IpAddr, Entry>,
    heard: BTreeMap<NodeId, Duration>,
}

impl Assignment {
    /// Of a leader that has just begun: what the one before granted is unknown, but over after a lease.
    pub(crate) fn new(addresses: &[IpAddr], now: Duration) -> Self {
        let entry = Entry { owner: None, free_from: now + LEASE + LATE_MAX, withheld: false };
        Self { entries: addresses.iter().map(|a| (*a, entry)).collect(), heard: BTreeMap::new() }
    }

    /// `member` lives, and holds `held`: what it may hold for a lease from now on.
    pub(crate) fn beat(&mut self, member: NodeId, held: &[IpAddr], now: Duration) -> Vec<IpAddr> {
        self.heard.insert(member, now);
        self.heard.retain(|_, heard| now.saturating_sub(*heard) < SILENT_AFTER);
        for (address, entry) in &mut self.entries {
            match (entry.owner, held.contains(address)) {
                // The leader before granted it.
                (None, true) if entry.free_from > now => entry.owner = Some(member),
                (Some(owner), false) if owner == member && entry.withheld => {
                    *entry = Entry { owner: None, free_from: now, withheld: false };
                }
                _ => {}
            }
        }
        self.level(member);
        let mut granted = Vec::new();
        for address in self.entries.keys().copied().collect::<Vec<_>>() {
            let entry = self.entries[&address];
            let is_over = entry.owner.is_none_or(|owner| !self.heard.contains_key(&owner));
            let taken =
                entry.owner != Some(member) && is_over && entry.free_from <= now && self.is_poorest(member);
            if taken || (entry.owner == Some(member) && !entry.withheld) {
                let free_from = now + LEASE + LATE_MAX;
                self.entries.insert(address, Entry { owner: Some(member), free_from, withheld: false });
                granted.push(address);
            }
        }
        granted
    }

    /// `member`, which still holds `held`, is to hold none, and is not counted: what it has handed back is free.
    pub(crate) fn withhold(&mut self, member: NodeId, held: &[IpAddr], now: Duration) {
        self.heard.remove(&member);
        for (address, entry) in &mut self.entries {
            if entry.owner != Some(member) {
                continue;
            }
            match held.contains(address) {
                true => entry.withheld = true,
                false => *entry = Entry { owner: None, free_from: now, withheld: false },
            }
        }
    }

    /// Who holds what, for people.
    pub(crate) fn owners(&self) -> BTreeMap<IpAddr, Option<NodeId>> {
        self.entries.iter().map(|(address, entry)| (*address, entry.owner)).collect()
    }

    fn count(&self, member: NodeId) -> usize {
        self.entries.values().filter(|entry| entry.owner == Some(member) && !entry.withheld).count()
    }

    fn is_poorest(&self, member: NodeId) -> bool {
        self.heard.keys().all(|other| self.count(member) <= self.count(*other))
    }

    /// If somebody has so much less than `member` that one address more would not make him richer, one is asked back.
    fn level(&mut self, member: NodeId) {
        let poorest = self.heard.keys().map(|other| self.count(*other)).min().unwrap_or(0);
        let underway = self.entries.values().any(|entry| entry.withheld);
        if underway || self.count(member) < poorest + 2 {
            return;
        }
        if let Some(entry) = self.entries.values_mut().find(|entry| entry.owner == Some(member)) {
            entry.withheld = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(count: u8) -> Vec<IpAddr> {
        (0..count).map(|n| IpAddr::from([10, 77, 0, n])).collect()
    }

    /// Members that beat in turn, and hold what they were granted until its lease is over, as the kernel does.
    struct Cluster {
        book: Assignment,
        now: Duration,
        held: BTreeMap<NodeId, Vec<(IpAddr, Duration)>>,
        cut_off: Vec<NodeId>,
    }

    impl Cluster {
        fn new(members: u64, count: u8) -> Self {
            let book = Assignment::new(&addresses(count), Duration::ZERO);
            let held = (1..=members).map(|id| (id, vec![])).collect();
            Self { book, now: Duration::ZERO, held, cut_off: vec![] }
        }

        fn pass(&mut self, time: Duration) {
            let end = self.now + time;
            while self.now < end {
                self.now += BEAT;
                let now = self.now;
                for (member, held) in &mut self.held {
                    held.retain(|(_, until)| *until > now);
                    if self.cut_off.contains(member) {
                        continue;
                    }
                    let before: Vec<IpAddr> = held.iter().map(|(address, _)| *address).collect();
                    let granted = self.book.beat(*member, &before, now);
                    // At its latest.
                    let until = now + LEASE + LATE_MAX - Duration::from_millis(1);
                    *held = granted.into_iter().map(|address| (address, until)).collect();
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
        cluster.cut_off = vec![2]; // its beats are carried out here
        let mut beats = 0;
        while cluster.counts() != [3, 0, 3] {
            let held: Vec<IpAddr> = cluster.held[&2].iter().map(|(address, _)| *address).collect();
            cluster.book.withhold(2, &held, cluster.now);
            cluster.held.get_mut(&2).unwrap().clear();
            cluster.pass(BEAT);
            beats += 1;
            assert!(beats < 6, "{:?}", cluster.counts());
        }
        cluster.cut_off.clear();
        cluster.pass(LONG);
        assert_eq!(cluster.counts(), [2, 2, 2]);
    }

    const LONG: Duration = Duration::from_secs(10);

    #[test]
    fn all_addresses_are_held_and_shared_out() {
        let mut cluster = Cluster::new(3, 6);
        cluster.pass(LEASE);
        assert_eq!(cluster.counts(), [0, 0, 0], "the leader before may have granted them");
        cluster.pass(LONG);
        assert_eq!(cluster.counts(), [2, 2, 2]);
        let mut few = Cluster::new(3, 1);
        few.pass(LONG);
        assert_eq!(few.counts().iter().sum::<usize>(), 1);
    }

    #[test]
    fn who_is_cut_off_loses_his_to_the_others_and_gets_some_back_one_by_one() {
        let mut cluster = Cluster::new(3, 6);
        cluster.pass(LONG);
        cluster.cut_off = vec![2];
        let mut waited = Duration::ZERO;
        while cluster.counts() != [3, 0, 3] {
            cluster.pass(BEAT);
            waited += BEAT;
            assert!(waited <= LEASE + LATE_MAX + 2 * BEAT, "clients wait: {:?}", cluster.counts());
        }
        let kept: Vec<_> = cluster.held[&1].iter().map(|(address, _)| *address).collect();
        cluster.cut_off.clear();
        cluster.pass(LONG);
        assert_eq!(cluster.counts(), [2, 2, 2]);
        let stayed = cluster.held[&1].iter().filter(|(address, _)| kept.contains(address)).count();
        assert_eq!(stayed, 2, "only what moved has moved");
    }

    #[test]
    fn a_new_leader_leaves_addresses_where_they_are() {
        let mut cluster = Cluster::new(3, 3);
        cluster.pass(LONG);
        let before = cluster.held.clone();
        cluster.book = Assignment::new(&addresses(3), cluster.now);
        cluster.pass(LONG);
        let places = |held: &BTreeMap<NodeId, Vec<(IpAddr, Duration)>>| -> Vec<Vec<IpAddr>> {
            held.values().map(|held| held.iter().map(|(address, _)| *address).collect()).collect()
        };
        assert_eq!(places(&cluster.held), places(&before));
    }
}
