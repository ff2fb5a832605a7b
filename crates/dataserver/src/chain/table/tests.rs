use host::ManualClock;

use super::*;

fn log() -> Arc<DirtyLog> {
    Arc::new(DirtyLog::new(Arc::default()))
}

fn told(version: u32, states: &[MemberState]) -> data::Chain {
    let address = bytes::Bytes::from_static(b"127.0.0.1:1");
    let member = |(at, state): (usize, &MemberState)| data::Member {
        target: at as u64 + 1,
        address: address.clone(),
        state: *state,
    };
    data::Chain { id: 9, version, verifier: 1, members: states.iter().enumerate().map(member).collect() }
}

#[test]
fn members_that_are_in_stand_before_those_that_are_refilled() {
    use MemberState::{Away, In, Refilling};
    let chain = Chain::new(&told(1, &[Away, Refilling, In, In])).unwrap();
    assert!(chain.is_head(3));
    assert_eq!(chain.next(3).map(|m| m.target), Some(4));
    assert_eq!(chain.next(4).map(|m| (m.target, m.is_refilling)), Some((2, true)));
    assert_eq!(chain.next(2), None);
    assert_eq!((chain.next(1), chain.member(1)), (None, None));
    assert_eq!(Chain::new(&told(1, &[Refilling, Away])).unwrap().head(), None);
    let mut nowhere = told(1, &[In]);
    nowhere.members[0].address = bytes::Bytes::from_static(b"\xff");
    assert_eq!(Chain::new(&nowhere), None);
}

#[test]
fn nothing_is_served_without_a_lease_or_by_an_earlier_version() {
    use MemberState::{Away, In};
    let clock = Arc::new(ManualClock::default());
    let table = ChainTable::new(clock.clone(), log());
    assert_eq!(table.serving(9, 1), Err(NotServing::Waits), "unknown");
    let _ = table.tell(&[told(2, &[In, Away])]);
    assert_eq!(table.serving(9, 1), Err(NotServing::Waits), "no lease");
    table.extend_lease(clock.monotonic(), Duration::from_secs(2));
    assert_eq!(table.serving(9, 1).map(|chain| chain.version), Ok(2));
    assert_eq!(table.serving(9, 2), Err(NotServing::NoMember));
    let _ = table.tell(&[told(1, &[Away, In])]);
    assert_eq!(table.serving(9, 1).map(|chain| chain.version), Ok(2), "the earlier one is ignored");
    clock.advance(Duration::from_secs(2));
    assert_eq!(table.serving(9, 1), Err(NotServing::Waits), "the lease is over");
    table.extend_lease(Duration::from_secs(1), Duration::from_secs(1));
    assert_eq!(table.serving(9, 1), Err(NotServing::Waits), "it was over before the answer came");
    table.extend_lease(clock.monotonic(), Duration::from_secs(2));
    assert!(table.serving(9, 1).is_ok());
    table.give_up_lease();
    table.extend_lease(clock.monotonic(), Duration::from_secs(2));
    assert_eq!(table.serving(9, 1), Err(NotServing::Waits), "the server stops");
}

#[test]
fn a_member_that_leaves_serves_nothing_until_a_later_version() {
    use MemberState::{Away, In, Refilling};
    let table = ChainTable::new(Arc::new(ManualClock::default()), log());
    table.extend_lease(Duration::ZERO, Duration::from_secs(2));
    let _ = table.tell(&[told(1, &[In, Refilling])]);
    table.leave_all(1);
    assert!(table.serving(9, 1).is_ok() && table.left().is_empty(), "the last one that is in stays");
    assert!(table.leave(9, 2) && !table.leave(8, 2) && !table.leave(9, 7));
    assert_eq!(table.left(), [(9, 1, 2)]);
    let _ = table.tell(&[told(2, &[In, In])]);
    table.leave_all(1);
    assert_eq!((table.serving(9, 1), table.left()), (Err(NotServing::Waits), vec![(9, 2, 1)]));
    assert!(table.led_by(&[1]).is_empty(), "it refills no member either");
    assert!(table.serving(9, 2).is_ok());
    let _ = table.tell(&[told(3, &[In, Away])]);
    assert!(table.serving(9, 1).is_ok() && table.left().is_empty(), "the other one was lost meanwhile");
}
