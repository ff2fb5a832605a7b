use std::net::IpAddr;

use namespace::DataServerId;

use super::*;

/// So many data servers with so many targets each.
fn places(servers: usize, targets_of_each: usize) -> Vec<Place> {
    let one = |at: usize| Place {
        target: TargetId(1000 + at as u64),
        site: Site {
            server: DataServerId((at / targets_of_each) as u64),
            machine: None,
            zone: String::new(),
        },
        weight: 1,
    };
    (0..servers * targets_of_each).map(one).collect()
}

/// How the chains are spread.
struct Spread {
    load: Vec<u64>,
    heads: Vec<u64>,
    /// Most chains that two targets share, and least partners that a target has.
    shared_max: u64,
    partners_min: usize,
}

fn spread(places: &[Place], copies: usize, chains: &[Vec<TargetId>]) -> Spread {
    let mut shared: BTreeMap<(TargetId, TargetId), u64> = BTreeMap::new();
    let mut partners: BTreeMap<TargetId, BTreeSet<TargetId>> = BTreeMap::new();
    let by_target: BTreeMap<TargetId, &Place> = places.iter().map(|place| (place.target, place)).collect();
    for chain in chains {
        assert_eq!(chain.len(), copies);
        let servers: BTreeSet<_> = chain.iter().map(|target| by_target[target].site.server).collect();
        assert_eq!(servers.len(), copies, "each copy is on a node of its own: {chain:?}");
        let zones: BTreeSet<_> = chain.iter().map(|target| &by_target[target].site.zone).collect();
        let all: BTreeSet<_> = places.iter().map(|place| &place.site.zone).collect();
        assert_eq!(zones.len(), copies.min(all.len()), "{chain:?}");
        for one in chain {
            for other in chain.iter().filter(|other| *other != one) {
                *shared.entry((*one, *other)).or_default() += 1;
                partners.entry(*one).or_default().insert(*other);
            }
        }
    }
    let count = |has: &dyn Fn(&Vec<TargetId>, TargetId) -> bool| -> Vec<u64> {
        let of = |place: &Place| chains.iter().filter(|chain| has(chain, place.target)).count() as u64;
        places.iter().map(of).collect()
    };
    Spread {
        load: count(&|chain, target| chain.contains(&target)),
        heads: count(&|chain, target| chain[0] == target),
        shared_max: shared.values().copied().max().unwrap_or(0),
        partners_min: places
            .iter()
            .map(|p| partners.get(&p.target).map_or(0, BTreeSet::len))
            .min()
            .unwrap_or(0),
    }
}

fn within(values: &[u64], middle: u64, by: u64) -> bool {
    values.iter().all(|value| value.abs_diff(middle) <= by)
}

/// The bound that the module states.
#[test]
fn load_and_repair_are_even_for_3_to_1000_targets() {
    let per_target = CHAINS_OF_TARGET as u64;
    for copies in [2, 3] {
        for targets in [3_usize, 4, 5, 6, 7, 8, 10, 13, 16, 33, 64, 65, 100, 129, 257, 1000] {
            let places = places(targets, 1);
            let chains = make_chains(&places, copies, &[]).unwrap();
            let Spread { load, heads, shared_max, partners_min } = spread(&places, copies, &chains);
            let told = format!("{targets} targets, {copies} copies");
            assert!(within(&load, per_target, 1), "{told}: {load:?}");
            assert!(within(&heads, per_target / copies as u64, 2), "{told}: {heads:?}");
            let links = per_target * (copies as u64 - 1);
            let bound = links.div_ceil(targets as u64 - 1) + 1;
            assert!(shared_max <= bound, "{told}: two share {shared_max} chains, {bound} at most");
            let others = (targets - 1).min(links as usize / 2);
            assert!(partners_min >= others, "{told}: one has {partners_min} partners, {others} at least");
        }
    }
}

#[test]
fn one_copy_needs_no_partner() {
    let chains = make_chains(&places(3, 2), 1, &[]).unwrap();
    assert_eq!(chains.len(), 6 * CHAINS_OF_TARGET);
    assert!(chains.iter().all(|chain| chain.len() == 1));
}

#[test]
fn several_targets_of_a_node_are_in_no_chain_together() {
    let places = places(5, 8);
    let chains = make_chains(&places, 3, &[]).unwrap();
    let Spread { load, partners_min, .. } = spread(&places, 3, &chains);
    assert!(within(&load, CHAINS_OF_TARGET as u64, 1), "{load:?}");
    assert_eq!(partners_min, 32, "all targets of the other nodes");
}

#[test]
fn a_larger_target_has_more_chains() {
    let mut places = places(6, 1);
    places[0].weight = 2;
    let chains = make_chains(&places, 2, &[]).unwrap();
    let load = spread(&places, 2, &chains).load;
    assert!(load[0].abs_diff(2 * load[1]) <= 2, "{load:?}");
    assert!(within(&load[1..], load[1], 1), "{load:?}");
    // More than its share is not possible: each of its chains needs another target.
    places[0].weight = 100;
    let chains = make_chains(&places, 2, &[]).unwrap();
    let load = spread(&places, 2, &chains).load;
    assert!(load[0] + 2 >= chains.len() as u64, "in nearly each of {}: {load:?}", chains.len());
    assert!(within(&load[1..], load[1], 2), "{load:?}");
}

#[test]
fn chains_of_other_zones_only() {
    let mut places = places(9, 1);
    for (at, place) in places.iter_mut().enumerate() {
        place.site.zone = format!("rack{}", at % 3);
    }
    // Where there are too few, as many as there are.
    for copies in [2, 3, 4] {
        let chains = make_chains(&places, copies, &[]).unwrap();
        let load = spread(&places, copies, &chains).load;
        assert!(within(&load, CHAINS_OF_TARGET as u64, 1), "{copies}: {load:?}");
    }
}

#[test]
fn copies_are_on_different_machines_where_there_are_enough() {
    // Two data servers on each of two machines.
    let mut places = places(4, 1);
    for (at, place) in places.iter_mut().enumerate() {
        place.site.machine = Some(IpAddr::from([10, 0, 0, at as u8 / 2]));
    }
    let machine = |target: TargetId| places.iter().find(|place| place.target == target).unwrap().site.machine;
    for chain in make_chains(&places, 2, &[]).unwrap() {
        assert_ne!(machine(chain[0]), machine(chain[1]), "{chain:?}");
    }
    let of_three = make_chains(&places, 3, &[]).unwrap();
    assert!(!of_three.is_empty() && of_three.iter().all(|chain| chain.len() == 3), "on three data servers");
    // A zone counts for more than a machine.
    for (at, place) in places.iter_mut().enumerate() {
        place.site.zone = format!("rack{}", at % 2);
    }
    let zone = |target: TargetId| &places.iter().find(|place| place.target == target).unwrap().site.zone;
    for chain in make_chains(&places, 2, &[]).unwrap() {
        assert_ne!(zone(chain[0]), zone(chain[1]), "{chain:?}");
    }
}

#[test]
fn targets_that_are_added_get_chains_beside_the_existing_ones() {
    let all = places(8, 1);
    let before = make_chains(&all[..4], 2, &[]).unwrap();
    let more = make_chains(&all, 2, &before).unwrap();
    let load = spread(&all, 2, &[before.clone(), more].concat()).load;
    assert!(within(&load, CHAINS_OF_TARGET as u64, 2), "{load:?}");
    let all_again = make_chains(&all[..4], 2, &before).unwrap();
    assert!(all_again.is_empty(), "nothing is missing");
    // A target that is gone counts nowhere.
    let without = make_chains(&all[1..4], 2, &before).unwrap();
    assert!(without.iter().all(|chain| !chain.contains(&all[0].target)));
}

#[test]
fn what_cannot_be_is_refused_with_its_reason() {
    let told = |places: &[Place], copies| make_chains(places, copies, &[]).unwrap_err().to_string();
    assert_eq!(
        told(&places(2, 4), 3),
        "3 copies need data servers on 3 nodes, and there are 2: add nodes, or ask for fewer copies"
    );
    assert_eq!(told(&places(2, 1), 0), "a chain has at least one copy");
    let mut zoned = places(4, 1);
    let told = |places: &[Place], copies| check_zones(places, copies).unwrap_err().to_string();
    assert_eq!(check_zones(&zoned, 3), Ok(()), "no zones");
    for (at, place) in zoned.iter_mut().enumerate() {
        place.site.zone = format!("rack{}", at % 2);
    }
    assert_eq!(check_zones(&zoned, 2), Ok(()));
    assert!(told(&zoned, 3).starts_with("3 copies need 3 zones, and there are 2: "));
    zoned[3].site.zone.clear();
    assert!(told(&zoned, 2).starts_with("1 data servers have no zone"));
}
