use namespace::StripeUnit;

use super::*;

fn disk(id: u64, free_gib: u64) -> Candidate {
    Candidate::new(ChainId(id), &[TargetId(id)], free_gib << 30, free_gib > 0).unwrap()
}

fn disks(free_gib: &[u64]) -> Vec<Candidate> {
    (0..).zip(free_gib).map(|(id, free)| disk(id, *free)).collect()
}

/// Places files, and adds the devices for them.
fn place(placement: &Placement, usable: &[Candidate], columns: u32, files: usize) -> Vec<Choice> {
    let one = |_| {
        let choice = placement.choose(usable, columns).unwrap();
        if placement.device(&choice.chains).is_none() {
            let id = DeviceId(1 + placement.lock().devices.len() as u64);
            placement.learn(choice.chains.clone(), id);
        }
        choice
    };
    (0..files).map(one).collect()
}

fn firsts(free_gib: &[u64], columns: u32, files: usize) -> Vec<u64> {
    let choices = place(&Placement::default(), &disks(free_gib), columns, files);
    choices.iter().map(|choice| choice.chains[choice.first as usize].0).collect()
}

fn columns_of(choices: &[Choice], id: u64) -> usize {
    choices.iter().filter(|choice| choice.chains.contains(&ChainId(id))).count()
}

#[test]
fn equal_disks_take_turns_and_emptier_ones_get_more() {
    assert_eq!(firsts(&[10, 10, 10, 10], 4, 8), [0, 1, 2, 3, 0, 1, 2, 3]);
    assert_eq!(firsts(&[10, 10, 10], 1, 6), [0, 1, 2, 0, 1, 2]);
    let picks = firsts(&[30, 10], 1, 400);
    assert_eq!(picks.iter().filter(|t| **t == 0).count(), 300);
    assert!(firsts(&[], 1, 0).is_empty());
}

#[test]
fn every_column_is_chosen_by_room() {
    let choices = place(&Placement::default(), &disks(&[40, 40, 40, 10, 10, 10]), 2, 900);
    for (id, expected) in [(0, 480), (1, 480), (2, 480), (3, 120), (4, 120), (5, 120)] {
        let got = columns_of(&choices, id);
        assert!(got.abs_diff(expected) < 60, "chain {id} has a column of {got}, not of {expected}");
    }
}

#[test]
fn a_full_target_gets_no_column_while_others_have_room() {
    let choices = place(&Placement::default(), &disks(&[0, 10, 0, 10, 0, 10]), 4, 30);
    let three = [ChainId(1), ChainId(3), ChainId(5)];
    assert!(choices.iter().all(|choice| choice.chains == three), "{choices:?}");
    let none = place(&Placement::default(), &disks(&[0, 0]), 4, 2);
    assert!(none.iter().all(|choice| choice.chains.len() == 2), "they say NOSPC themselves");
}

#[test]
fn devices_stay_few_also_when_targets_come_and_go() {
    let all = disks(&[9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]);
    let placement = Placement::default();
    place(&placement, &all, 4, 500);
    assert!(placement.lock().devices.len() <= devices_wanted(12));
    let mut after_round = Vec::new();
    for _ in 0..3 {
        for gone in 0..all.len() {
            for also in 0..gone {
                let there = |u: &&Candidate| ![gone as u64, also as u64].contains(&u.chain.0);
                let there: Vec<_> = all.iter().filter(there).copied().collect();
                place(&placement, &there, 4, 20);
            }
        }
        after_round.push(placement.lock().devices.len());
    }
    assert!(after_round[0] <= 8 * all.len(), "{after_round:?}");
    assert_eq!(after_round[0], after_round[2], "no more are made");
    assert_eq!(placement.choose(&all, 0).unwrap().chains.len(), 12);
    assert_eq!(placement.choose(&all, 100).unwrap().chains.len(), 12);
    assert_eq!(placement.choose(&[], 1), None);
}

/// Devices of before this rule, and of chains whose members have changed their places.
#[test]
fn uneven_devices_are_not_used_where_an_even_one_can_be_had() {
    let pairs =
        (0..4u64).flat_map(|head| (0..4).filter(move |next| *next != head).map(move |next| (head, next)));
    let chain = |(id, (head, next)): (u64, (u64, u64))| {
        Candidate::new(ChainId(id), &[TargetId(head), TargetId(next)], 1 << 30, true).unwrap()
    };
    let usable: Vec<_> = (0..).zip(pairs).map(chain).collect();
    let placement = Placement::default();
    // All sets with four heads.
    let sets = (0..81u64).map(|n| [n % 3, 3 + n / 3 % 3, 6 + n / 9 % 3, 9 + n / 27].map(ChainId));
    sets.zip(1..).for_each(|(chains, id)| placement.learn(chains.to_vec(), DeviceId(id)));
    for choice in place(&placement, &usable, 4, 200) {
        let next = |chain: &ChainId| usable.iter().find(|u| u.chain == *chain).and_then(|u| u.members[1]);
        let next: BTreeSet<_> = choice.chains.iter().filter_map(next).collect();
        assert_eq!(next.len(), 4, "{choice:?}");
    }
    assert_eq!(placement.lock().devices.len(), 81, "no more are made");
}

#[test]
fn columns_that_move_go_to_targets_that_the_file_does_not_have() {
    let placement = Placement::default();
    let chains = [0, 1, 2].map(ChainId);
    let layout = FileLayout { device: DeviceId(1), first: 1, unit: StripeUnit::DEFAULT, columns: 3 };
    // Column 0 is on chain 1, column 1 on 2, column 2 on 0.
    let all = disks(&[10, 10, 10, 0, 30, 10]);
    let choice = placement.choose_again(&all, &layout, &chains, |column| column == 0).unwrap();
    let moved = FileLayout { first: choice.first, ..layout };
    let at = |column| moved.chain(&choice.chains, column).unwrap().0;
    assert_eq!([at(0), at(1), at(2)], [4, 2, 0]);
    assert_eq!(choice.chains[0], ChainId(0), "the list begins at its least");
    let twice = placement.choose_again(&all[..4], &layout, &chains, |column| column == 0).unwrap();
    let moved = FileLayout { first: twice.first, ..layout };
    assert_eq!(moved.chain(&twice.chains, 0), Some(ChainId(2)), "no other chain has room");
    assert!(placement.choose_again(&all[1..2], &layout, &chains, |column| column == 0).is_none());
    let two = placement.choose_again(&all, &layout, &chains, |column| column < 2).unwrap();
    let moved = FileLayout { first: two.first, ..layout };
    let at = |column| moved.chain(&two.chains, column).unwrap().0;
    assert_eq!(at(2), 0);
    assert_eq!([at(0), at(1)].iter().sum::<u64>(), 9, "one each on 4 and 5");
}
