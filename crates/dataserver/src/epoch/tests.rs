use super::*;

fn server(number: u32, fence: u32) -> Epoch {
    Epoch { incarnation: 7, chain: 0, call: CallEpoch::Server(number, fence) }
}

fn layout(fence: u32) -> Epoch {
    Epoch { incarnation: 7, chain: 0, call: CallEpoch::Layout(fence) }
}

fn mark(epoch: u32, layout_epoch: u32) -> Mark {
    Mark { incarnation: 7, epoch, layout_epoch, ..Mark::default() }
}

#[test]
fn a_mark_with_any_bit_changed_is_none() {
    let mark = Mark { truncated: 8, chain: 1 << 40, ..mark(9, 6) };
    let bytes = mark.to_bytes();
    assert_eq!(Mark::from_bytes(&bytes), Some(mark));
    for bit in 0..bytes.len() * 8 {
        let mut altered = bytes;
        altered[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(Mark::from_bytes(&altered), None, "bit {bit}");
    }
    assert_eq!(Mark::from_bytes(&bytes[..32]), None);
    assert_eq!(Mark::from_bytes(&[]), None);
    let mut old = [&[1], &bytes[1..21]].concat();
    old.extend(crc32c::crc32c(&old).to_be_bytes());
    assert_eq!(Mark::from_bytes(&old), Some(Mark { chain: 0, ..mark }), "of version 1");
}

#[test]
fn a_make_moves_an_object_to_the_chain_of_the_last_placement() {
    let in_5 = on(5, mark(3, 2));
    let table = [
        (Mark::default(), server(0, 0), Placement::Stays(on(9, mark(0, 0)))),
        (Mark::default(), server(4, 1), Placement::Stays(on(9, mark(4, 1)))),
        // Of a head that had it from before a restore.
        (on(9, Mark::default()), server(0, 0), Placement::Stays(on(9, Mark::default()))),
        (on(9, Mark::default()), server(1, 0), Placement::Anew(on(9, mark(1, 0)))),
        (on(9, mark(3, 2)), server(3, 2), Placement::Stays(on(9, mark(3, 2)))),
        (on(9, mark(3, 2)), server(4, 2), Placement::Anew(on(9, mark(4, 2)))),
        (mark(3, 2), server(4, 2), Placement::Anew(on(9, mark(4, 2)))),
        // It comes again.
        (on(9, mark(3, 2)), server(2, 2), Placement::Stays(on(9, mark(3, 2)))),
        (mark(3, 2), server(2, 2), Placement::Past),
        (mark(3, 2), server(3, 2), Placement::Stays(on(9, mark(3, 2)))),
        (in_5, server(2, 2), Placement::Past),
        (in_5, server(3, 2), Placement::IfEmpty(on(9, mark(3, 2)))),
        (in_5, server(4, 2), Placement::Anew(on(9, mark(4, 2)))),
        (Mark { incarnation: 6, ..in_5 }, server(3, 2), Placement::Anew(on(9, mark(3, 2)))),
        (Mark { incarnation: 6, ..on(9, mark(8, 2)) }, server(3, 2), Placement::Anew(on(9, mark(3, 2)))),
    ];
    for (before, epoch, after) in table {
        assert_eq!(before.after_make(of(9, epoch)), after, "{before:?} {epoch:?}");
    }
    // Without copies.
    let table = [
        (Mark::default(), server(1, 0), Placement::Stays(mark(1, 0))),
        (mark(3, 2), server(2, 2), Placement::Stays(mark(3, 2))),
        (mark(3, 2), server(3, 2), Placement::Stays(mark(3, 2))),
        (mark(3, 2), server(4, 2), Placement::Anew(mark(4, 2))),
        (Mark { incarnation: 6, ..mark(8, 2) }, server(3, 2), Placement::Anew(mark(3, 2))),
        // It was on a chain, and comes back to the target alone.
        (in_5, server(2, 2), Placement::Past),
        (in_5, server(3, 2), Placement::Past),
        (in_5, server(4, 2), Placement::Anew(mark(4, 2))),
        (Mark { incarnation: 6, ..in_5 }, server(3, 2), Placement::Anew(mark(3, 2))),
    ];
    for (before, epoch, after) in table {
        assert_eq!(before.after_make(epoch), after, "{before:?} {epoch:?}");
    }
}

#[test]
fn a_mark_is_before_what_its_object_has_not_seen() {
    let table = [
        (mark(3, 2), server(3, 0), false),
        (mark(3, 2), server(4, 0), true),
        (mark(3, 2), server(2, 0), false),
        (mark(u32::MAX, 2), server(0, 0), true),
        (Mark { incarnation: 6, ..mark(9, 2) }, server(1, 0), true),
        (Mark::default(), server(0, 0), false),
        (Mark::default(), server(1, 0), true),
        (mark(3, 2), layout(4), false),
    ];
    for (mark, bound, is_before) in table {
        assert_eq!(mark.is_before(bound), is_before, "{mark:?} {bound:?}");
    }
}

fn on(chain: u64, mark: Mark) -> Mark {
    Mark { chain, ..mark }
}

fn of(chain: u64, epoch: Epoch) -> Epoch {
    Epoch { chain, ..epoch }
}

#[test]
fn a_call_is_past_current_or_later() {
    let table = [
        (mark(3, 2), server(3, 2), Some(mark(3, 2))),
        (mark(3, 2), server(2, 2), None),
        (mark(3, 2), server(4, 2), Some(mark(4, 2))),
        (mark(3, 2), server(4, 4), Some(mark(4, 4))),
        // A layout that was granted before the last truncation, and after the last fence.
        (mark(3, 2), layout(2), Some(mark(3, 2))),
        (mark(3, 2), layout(1), None),
        (mark(3, 2), layout(5), Some(mark(5, 5))),
        (mark(u32::MAX, 2), server(0, 2), Some(mark(0, 2))),
        (mark(0, 0), server(u32::MAX, 0), None),
        (Mark::default(), server(0, 0), Some(Mark::default())),
        (Mark::default(), layout(0), Some(Mark::default())),
        (Mark::default(), layout(2), Some(mark(2, 2))),
        // Of a group that was restored from a backup.
        (Mark { incarnation: 6, ..mark(9, 9) }, server(1, 0), Some(mark(1, 0))),
        (Mark { incarnation: 6, truncated: 9, ..mark(9, 9) }, layout(1), Some(mark(1, 1))),
        (Mark { incarnation: 6, chain: 5, ..mark(9, 9) }, of(5, layout(1)), Some(on(5, mark(1, 1)))),
        (Mark { incarnation: 6, chain: 5, ..mark(9, 9) }, of(6, layout(1)), Some(on(6, mark(1, 1)))),
        (Mark { incarnation: 6, chain: 5, ..mark(9, 9) }, layout(1), Some(mark(1, 1))),
        // An object that gets a chain, and one that has it.
        (mark(3, 2), of(5, server(3, 2)), Some(on(5, mark(3, 2)))),
        (mark(3, 2), of(5, server(4, 2)), Some(on(5, mark(4, 2)))),
        (mark(3, 2), of(5, server(2, 2)), None),
        (Mark::default(), of(5, server(0, 0)), Some(Mark { incarnation: 7, chain: 5, ..Mark::default() })),
        (on(5, mark(3, 2)), of(5, server(3, 2)), Some(on(5, mark(3, 2)))),
        (on(5, mark(3, 2)), server(3, 2), None),
        (on(5, mark(3, 2)), server(4, 2), None),
        (on(5, mark(3, 2)), layout(2), None),
        // An empty column moves to another chain, and a move that was refused.
        (on(5, mark(3, 2)), of(6, server(4, 2)), Some(on(6, mark(4, 2)))),
        (on(5, mark(3, 2)), of(6, server(3, 2)), Some(on(6, mark(3, 2)))),
        (on(6, mark(4, 2)), of(5, server(3, 2)), None),
    ];
    for (before, epoch, after) in table {
        assert_eq!(before.after(epoch), after, "{before:?} {epoch:?}");
    }
}

#[test]
fn a_raise_refuses_earlier_calls_and_waits_for_those_under_way() {
    let gate = EpochGate::new(Mark::default());
    let Entry::Entered(call) = gate.enter(server(0, 0)) else { panic!("it has epoch 0") };
    assert!(matches!(gate.enter(server(1, 0)), Entry::Later));
    let raised = |_, mark| Ok(mark);
    std::thread::scope(|scope| {
        let raise = scope.spawn(|| gate.alone(server(1, 0), raised));
        while !matches!(gate.enter(server(0, 0)), Entry::Stale) {
            std::thread::yield_now();
        }
        assert!(!raise.is_finished(), "a call is under way");
        assert!(matches!(gate.enter(server(1, 0)), Entry::Later));
        drop(call);
        assert_eq!(raise.join().unwrap(), Ok(()));
    });
    assert!(matches!(gate.enter(server(0, 0)), Entry::Stale));
    assert!(matches!(gate.enter(server(1, 0)), Entry::Entered(_)));
    assert!(matches!(gate.enter(layout(0)), Entry::Entered(_)), "no fence");
    assert_eq!(gate.alone(server(0, 0), raised), Err(ObjectError::StaleEpoch));
    let failed = gate.alone(server(2, 2), |_, _| Err(ObjectError::NoSpace));
    assert_eq!(failed, Err(ObjectError::NoSpace));
    assert!(matches!(gate.enter(server(1, 0)), Entry::Stale), "it was announced");
    assert!(matches!(gate.enter(layout(0)), Entry::Stale), "and the fence");
    assert!(matches!(gate.enter(server(2, 2)), Entry::Later), "it has to be stored yet");
}

#[test]
fn a_raise_that_failed_holds_up_no_call_that_has_the_epoch() {
    let gate = EpochGate::new(mark(3, 2));
    let failed = gate.alone(server(4, 2), |_, _| Err(ObjectError::NoSpace));
    assert_eq!(failed, Err(ObjectError::NoSpace));
    assert!(matches!(gate.enter(layout(2)), Entry::Entered(_)), "of a client, which has no part in it");
    assert!(matches!(gate.enter(server(3, 2)), Entry::Stale), "it was announced");
    assert!(matches!(gate.enter(server(4, 2)), Entry::Later));
    assert_eq!(gate.alone(server(4, 2), |_, mark| Ok(mark)), Ok(()));
    assert!(matches!(gate.enter(server(4, 2)), Entry::Entered(_)));
}

#[test]
fn an_object_gets_its_chain_when_the_calls_under_way_have_ended() {
    let gate = EpochGate::new(mark(3, 2));
    let Entry::Entered(call) = gate.enter(server(3, 2)) else { panic!("it is the object's") };
    let first = of(5, server(3, 2));
    assert!(matches!(gate.enter(first), Entry::Later));
    std::thread::scope(|scope| {
        let raise = scope.spawn(|| gate.alone(first, |_, mark| Ok(mark)));
        while !matches!(gate.enter(server(3, 2)), Entry::Stale) {
            std::thread::yield_now();
        }
        assert!(!raise.is_finished());
        drop(call);
        assert_eq!(raise.join().unwrap(), Ok(()));
    });
    assert_eq!(gate.mark(), on(5, mark(3, 2)));
    assert!(matches!(gate.enter(first), Entry::Entered(_)));
    assert!(matches!(gate.enter(layout(2)), Entry::Stale));
}

#[test]
fn a_truncation_is_known_by_its_epoch() {
    let done = Mark { truncated: 2, ..mark(2, 0) };
    assert_eq!(done.truncated_at(server(2, 0)), None);
    assert_eq!(mark(2, 0).truncated_at(server(2, 0)), Some(done));
    assert_eq!(Mark::default().truncated_at(server(0, 0)), Some(Mark::default()), "it is not noted");
    let restored = Epoch { incarnation: 8, chain: 0, call: CallEpoch::Server(2, 0) };
    assert!(done.after(restored).is_some_and(|mark| mark.truncated_at(restored).is_some()));
}
