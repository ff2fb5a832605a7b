//! Members that beat, hang, drain and die; no address is ever at two of them.

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
                let before: Vec<IpAddr> = self.held[&member].iter().map(|(address, _)| *address).collect();
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
    assert_eq!(cluster.counts().iter().sum::<usize>(), 2, "a removed address is not granted");
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
