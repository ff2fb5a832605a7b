//! A table of chains and their next steps.

use namespace::{ChainId, Time};

use super::*;

use MemberState::{Away, In, Refilling};
use Presence::{Draining, Full, Gone, Lost, Unsure, Well};

/// Chain as recorded and at present, presence of its members, and the step.
type Case = (&'static [MemberState], &'static [MemberState], &'static [Presence], Option<ChainStep>);

/// Targets 0, 1, … of a chain, and the substitute 9.
struct Table<'a> {
    presence: &'a [Presence],
    is_overdue: bool,
    may_be_tried: bool,
    other_pool: Option<PoolId>,
    /// Targets of one data server; each other one has its own.
    of_one_server: &'a [u64],
}

/// As the table, and target 1 has no room.
struct Full1<'a>(Table<'a>);

impl Targets for Full1<'_> {
    fn presence(&self, chain: &Chain, target: TargetId) -> Presence {
        self.0.presence(chain, target)
    }

    fn is_full(&self, target: TargetId) -> bool {
        target == TargetId(1)
    }

    fn other_pool(&self, chain: &Chain) -> Option<PoolId> {
        self.0.other_pool(chain)
    }

    fn substitute(&self, chain: &Chain, instead_of: TargetId) -> Option<TargetId> {
        self.0.substitute(chain, instead_of)
    }

    fn servers_in(&self, chain: &Chain, without: TargetId) -> usize {
        self.0.servers_in(chain, without)
    }

    fn is_overdue(&self, member: &ChainMember) -> bool {
        self.0.is_overdue(member)
    }

    fn may_be_tried(&self, member: &ChainMember) -> bool {
        self.0.may_be_tried(member)
    }
}

impl Targets for Table<'_> {
    fn is_full(&self, target: TargetId) -> bool {
        self.presence.get(target.0 as usize) == Some(&Full)
    }

    fn presence(&self, _: &Chain, target: TargetId) -> Presence {
        self.presence.get(target.0 as usize).copied().unwrap_or(Well)
    }

    fn other_pool(&self, _: &Chain) -> Option<PoolId> {
        self.other_pool
    }

    fn substitute(&self, chain: &Chain, _: TargetId) -> Option<TargetId> {
        (!chain.has(TargetId(9))).then_some(TargetId(9))
    }

    fn servers_in(&self, chain: &Chain, without: TargetId) -> usize {
        let others = chain.with_state(In).filter(|other| *other != without);
        let server =
            |target: TargetId| if self.of_one_server.contains(&target.0) { u64::MAX } else { target.0 };
        others.map(server).collect::<std::collections::BTreeSet<u64>>().len()
    }

    fn is_overdue(&self, _: &ChainMember) -> bool {
        self.is_overdue
    }

    fn may_be_tried(&self, _: &ChainMember) -> bool {
        self.may_be_tried
    }
}

fn chain(states: &[MemberState], copies: u8) -> Chain {
    let since = Time { seconds: 0, nanoseconds: 0 };
    let member = |(target, state): (u64, &MemberState)| ChainMember {
        target: TargetId(target),
        state: *state,
        process: 1,
        since,
    };
    let members = (0..).zip(states).map(member).collect();
    Chain { id: ChainId(90), version: 1, verifier: 1, copies, members, leaving: None, pool: PoolId::DEFAULT }
}

fn step(
    recorded: &[MemberState],
    present: &[MemberState],
    presence: &[Presence],
    is_overdue: bool,
) -> Option<ChainStep> {
    let table = Table { presence, is_overdue, may_be_tried: false, other_pool: None, of_one_server: &[] };
    next_step(&chain(recorded, 2), &chain(present, 2), &table)
}

fn at(step: fn(TargetId) -> ChainStep, target: u64) -> Option<ChainStep> {
    Some(step(TargetId(target)))
}

#[test]
fn a_chain_goes_on_without_members_that_are_gone_and_takes_them_back() {
    let (leave, back, lead) = (ChainStep::Leave, ChainStep::Return, ChainStep::Lead);
    let table: &[Case] = &[
        (&[In, In], &[In, In], &[Well, Well], None),
        (&[In, In], &[In, In], &[Well, Unsure], None),
        (&[In, In], &[In, In], &[Gone, Well], at(leave, 0)),
        (&[In, In], &[In, In], &[Gone, Gone], at(leave, 0)),
        (&[In, In], &[In, In], &[Well, Lost], at(leave, 1)),
        (&[In, Away], &[In, Away], &[Gone, Gone], None),
        (&[In, Away], &[In, Away], &[Well, Well], at(back, 1)),
        (&[In, Away], &[In, Away], &[Unsure, Well], at(back, 1)),
        (&[In, Away], &[In, Away], &[Well, Unsure], None),
        (&[In, Refilling], &[In, Refilling], &[Well, Gone], at(leave, 1)),
        (&[In, Refilling], &[In, Refilling], &[Gone, Well], None),
        // Started again.
        (&[In, In], &[Away, In], &[Well, Well], at(back, 0)),
        (&[In, In], &[Away, In], &[Gone, Well], at(leave, 0)),
        (&[In, In], &[Away, In], &[Unsure, Well], at(leave, 0)),
        (&[In, Refilling], &[In, Away], &[Well, Well], at(back, 1)),
        (&[In, In], &[Away, Away], &[Unsure, Well], at(lead, 1)),
        (&[In, In], &[Away, Away], &[Unsure, Gone], None),
        (&[In, Away], &[Away, Away], &[Gone, Well], None),
        (&[In, Refilling], &[Away, Refilling], &[Well, Well], at(lead, 0)),
    ];
    for (recorded, present, presence, expected) in table {
        assert_eq!(
            step(recorded, present, presence, false),
            *expected,
            "{recorded:?} {present:?} {presence:?}"
        );
    }
}

#[test]
fn a_full_member_stays_in_and_is_taken_back_at_intervals_or_replaced() {
    assert_eq!(step(&[In, In], &[In, In], &[Well, Full], false), None);
    assert_eq!(step(&[In, Refilling], &[In, Refilling], &[Full, Full], false), None);
    // Started again: refilling it mostly needs no room.
    assert_eq!(step(&[In, In], &[In, Away], &[Well, Full], false), at(ChainStep::Return, 1));
    assert_eq!(step(&[In, In], &[Away, Away], &[Full, Gone], false), at(ChainStep::Lead, 0));
    // It had no room for a change.
    let left = chain(&[In, Away], 2);
    let tried = |may_be_tried| {
        next_step(
            &left,
            &left,
            &Table {
                presence: &[Well, Full],
                is_overdue: false,
                may_be_tried,
                other_pool: None,
                of_one_server: &[],
            },
        )
    };
    assert_eq!((tried(false), tried(true)), (None, at(ChainStep::Return, 1)));
    let replace = Some(ChainStep::Replace(TargetId(1), TargetId(9)));
    assert_eq!(step(&[In, Away], &[In, Away], &[Well, Full], true), replace);
}

#[test]
fn another_target_takes_the_place_of_a_member_that_is_lost_overdue_or_drains() {
    let replace = Some(ChainStep::Replace(TargetId(1), TargetId(9)));
    assert_eq!(step(&[In, Away], &[In, Away], &[Well, Gone], false), None);
    assert_eq!(step(&[In, Away], &[In, Away], &[Well, Gone], true), replace);
    assert_eq!(step(&[In, Away], &[In, Away], &[Well, Lost], false), replace);
    assert_eq!(
        step(&[Away, In], &[Away, In], &[Lost, Gone], true),
        Some(ChainStep::Replace(TargetId(0), TargetId(9)))
    );
    let drains: &[Presence] = &[Well, Draining];
    assert_eq!(step(&[In, In], &[In, In], drains, false), at(ChainStep::Add, 9));
    assert_eq!(step(&[In, In, Refilling], &[In, In, Refilling], drains, false), None);
    assert_eq!(step(&[In, In, In], &[In, In, In], drains, false), at(ChainStep::Drop, 1));
    // It has nearly all data, also while another one is refilled.
    assert_eq!(step(&[In, Away], &[In, Away], drains, false), at(ChainStep::Return, 1));
    let others = [Well, Draining, Well];
    assert_eq!(
        step(&[In, Refilling, Away], &[In, Refilling, Away], &[Well, Well, Draining], false),
        at(ChainStep::Return, 2)
    );
    assert_eq!(step(&[In, Away, In], &[In, Away, In], &others, false), at(ChainStep::Drop, 1));
    // It has no room: it would leave again.
    let full = |states: &[MemberState], presence: &[Presence], may_be_tried| {
        let chain = chain(states, 2);
        let table = Table { presence, is_overdue: false, may_be_tried, other_pool: None, of_one_server: &[] };
        next_step(&chain, &chain, &Full1(table))
    };
    assert_eq!(full(&[In, Away], drains, false), replace);
    assert_eq!(full(&[In, Away], &[Gone, Draining], false), None, "no one fills another");
    assert_eq!(full(&[In, Away], &[Gone, Draining], true), at(ChainStep::Return, 1));
    assert_eq!(full(&[In, Away, Refilling], &others, true), None, "another one has its place");
    // It moves, though its data server serves.
    let moves = |states: &[MemberState], presence: &[Presence]| {
        let chain = Chain { leaving: Some(TargetId(0)), ..chain(states, 2) };
        next_step(
            &chain,
            &chain,
            &Table { presence, is_overdue: false, may_be_tried: false, other_pool: None, of_one_server: &[] },
        )
    };
    assert_eq!(moves(&[In, In, Refilling], &[Well, Well, Well]), None);
    assert_eq!(moves(&[In, In, In], &[Well, Well, Well]), at(ChainStep::Drop, 0));
    assert_eq!(moves(&[In, In, In], &[Full, Well, Well]), at(ChainStep::Drop, 0));
    assert_eq!(moves(&[In, In, Refilling], &[Well, Well, Gone]), at(ChainStep::Leave, 2));
    assert_eq!(moves(&[In, In, Away], &[Well, Well, Gone]), at(ChainStep::Drop, 2), "the move ends");
    assert_eq!(moves(&[In, Refilling, Away], &[Well, Well, Gone]), None);
    // It has stopped by itself before it is dropped.
    assert_eq!(moves(&[In, In, Away], &[Well, Well, Well]), at(ChainStep::Return, 2));
    let stopped = Chain { leaving: Some(TargetId(2)), ..chain(&[In, In, Away], 2) };
    let table = Table {
        presence: &[Well, Well, Well],
        is_overdue: false,
        may_be_tried: false,
        other_pool: None,
        of_one_server: &[],
    };
    assert_eq!(next_step(&stopped, &stopped, &table), at(ChainStep::Drop, 2));
    // Not heard of: the new member is not dropped in its place.
    assert_eq!(moves(&[In, In, In], &[Unsure, Well, Well]), None);
    // Both are lost, the one that moves and the new one.
    let both_lost: &[Presence] = &[Well, Lost, Lost];
    assert_eq!(
        step(&[In, Away, Away], &[In, Away, Away], both_lost, false),
        Some(ChainStep::Replace(TargetId(1), TargetId(9)))
    );
    // Removed while the target in its place was refilled: that one takes its place, and no further one.
    let [lost, refilled] = [[Well, Well, Lost], [Well, Well, Lost]];
    assert_eq!(step(&[In, Refilling, Away], &[In, Refilling, Away], &lost, false), None);
    assert_eq!(step(&[In, In, Away], &[In, In, Away], &refilled, false), at(ChainStep::Drop, 2));
    assert_eq!(step(&[In, In, In], &[In, In, In], &[Well, Well, Well], false), at(ChainStep::Drop, 2));
}

#[test]
fn a_chain_of_one_copy_moves_as_a_whole_and_an_open_one_stays() {
    let step = |states: &[MemberState], presence: &[Presence], leaving| {
        let chain = Chain { leaving, ..chain(states, 1) };
        next_step(
            &chain,
            &chain,
            &Table { presence, is_overdue: true, may_be_tried: false, other_pool: None, of_one_server: &[] },
        )
    };
    assert_eq!(step(&[In], &[Well], None), None);
    assert_eq!(step(&[In], &[Gone], None), None, "no other target has its data");
    assert_eq!(step(&[In], &[Draining], None), at(ChainStep::Add, 9));
    assert_eq!(step(&[In, Refilling], &[Draining, Well], None), None);
    assert_eq!(step(&[In, In], &[Draining, Well], None), at(ChainStep::Drop, 0));
    assert_eq!(step(&[In, Refilling], &[Draining, Gone], None), at(ChainStep::Leave, 1));
    assert_eq!(step(&[In, Away], &[Draining, Gone], None), at(ChainStep::Drop, 1));
    let open = Some(TargetId(0));
    assert_eq!(step(&[In], &[Draining], open), None);
    let two = Chain { leaving: open, ..chain(&[In], 2) };
    let table = Table {
        presence: &[Well],
        is_overdue: true,
        may_be_tried: true,
        other_pool: None,
        of_one_server: &[],
    };
    assert_eq!(next_step(&two, &two, &table), None);
    // Closed, and an object may not know of it yet.
    let closing = Chain { leaving: Some(TargetId(7)), ..chain(&[In], 2) };
    assert_eq!(next_step(&closing, &closing, &table), None);
    let away = Chain { leaving: open, ..chain(&[Away], 2) };
    assert_eq!(next_step(&two, &away, &table), at(ChainStep::Lead, 0));
}

#[test]
fn a_chain_that_is_short_of_a_member_gets_one() {
    let step = |states: &[MemberState], copies| {
        let table = Table {
            presence: &[Well, Well],
            is_overdue: false,
            may_be_tried: false,
            other_pool: None,
            of_one_server: &[],
        };
        next_step(&chain(states, copies), &chain(states, copies), &table)
    };
    assert_eq!(step(&[In], 2), Some(ChainStep::Add(TargetId(9))));
    assert_eq!(step(&[In, Refilling], 2), None);
    assert_eq!(step(&[In, In], 3), Some(ChainStep::Add(TargetId(9))));
    assert_eq!(step(&[MemberState::Doubted], 2), None, "no member has the data");
    for presence in [Gone, Lost, Unsure] {
        let table = Table {
            presence: &[presence],
            is_overdue: false,
            may_be_tried: false,
            other_pool: None,
            of_one_server: &[],
        };
        assert_eq!(next_step(&chain(&[In], 2), &chain(&[In], 2), &table), None, "no one fills it");
    }
}

/// Before anything else: its members would drain, and there is no place for them.
#[test]
fn a_chain_whose_pool_has_no_targets_goes_with_its_members() {
    let step = |states: &[MemberState], presence: &[Presence]| {
        let table = Table {
            presence,
            is_overdue: false,
            may_be_tried: false,
            other_pool: Some(PoolId(7)),
            of_one_server: &[],
        };
        next_step(&chain(states, 2), &chain(states, 2), &table)
    };
    assert_eq!(step(&[In, In], &[Draining, Draining]), Some(ChainStep::Pool(PoolId(7))));
    assert_eq!(step(&[In, Refilling], &[Draining, Gone]), Some(ChainStep::Pool(PoolId(7))));
    let open = Chain { leaving: Some(TargetId(0)), ..chain(&[In], 2) };
    let table = Table {
        presence: &[Well],
        is_overdue: false,
        may_be_tried: false,
        other_pool: Some(PoolId(7)),
        of_one_server: &[],
    };
    assert_eq!(next_step(&open, &open, &table), Some(ChainStep::Pool(PoolId(7))));
}

/// A move between two targets, 0 and 2, of one data server, while the only other copy, 1, is away.
#[test]
fn the_last_copy_of_another_data_server_is_not_dropped() {
    let step = |states: &[MemberState], presence: &[Presence], is_overdue, leaving: Option<u64>| {
        let of_one_server = &[0, 2];
        let table = Table { presence, is_overdue, may_be_tried: false, other_pool: None, of_one_server };
        let moving = Chain { leaving: leaving.map(TargetId), ..chain(states, 2) };
        next_step(&moving, &moving, &table)
    };
    let leaving = Some(0);
    assert_eq!(step(&[In, Away, Refilling], &[Well, Gone, Well], false, leaving), None);
    assert_eq!(step(&[In, Away, In], &[Well, Gone, Well], false, leaving), None, "it may come back");
    let replaced = Some(ChainStep::Replace(TargetId(1), TargetId(9)));
    assert_eq!(step(&[In, Away, In], &[Well, Gone, Well], true, leaving), replaced);
    assert_eq!(step(&[In, Away, In], &[Well, Well, Well], false, leaving), at(ChainStep::Return, 1));
    assert_eq!(step(&[In, Away, In], &[Well, Draining, Well], false, leaving), at(ChainStep::Return, 1));
    assert_eq!(step(&[In, In, In], &[Well, Draining, Well], false, leaving), at(ChainStep::Drop, 0));
    assert_eq!(step(&[In, In, In], &[Well, Well, Well], false, None), at(ChainStep::Drop, 2), "cancelled");
}
