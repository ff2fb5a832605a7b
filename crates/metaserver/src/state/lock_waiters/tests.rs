use super::*;

const FILE: InodeId = InodeId(9);
const READ: LockKind = LockKind::Read;
const WRITE: LockKind = LockKind::Write;

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn waiter(client: u64, owner: &str, kind: LockKind, range: std::ops::Range<u64>, at: u64) -> Waiter {
    let range = ByteRange { start: range.start, end: range.end };
    Waiter::new(ClientId(client), owner.into(), kind, range, InodeId::ROOT, s(at))
}

fn waits(waiters: &LockWaiters, waiter: Waiter) -> Answer {
    waiters.wait(FILE, waiter, false)
}

/// Owners that are notified at this time, while no lock is held.
fn told(waiters: &LockWaiters, at: u64) -> Vec<String> {
    let next = waiters.next(FILE, s(at), |_| true);
    next.into_iter().map(|waiter| String::from_utf8(waiter.owner).expect("a test's name")).collect()
}

#[test]
fn waiters_are_told_in_the_order_in_which_they_came_readers_together() {
    let waiters = LockWaiters::default();
    for (at, owner, kind) in [(1, "w1", WRITE), (2, "r1", READ), (3, "r2", READ), (4, "w2", WRITE)] {
        waits(&waiters, waiter(1, owner, kind, 0..10, at));
    }
    waits(&waiters, waiter(1, "elsewhere", WRITE, 10..20, 5));
    assert_eq!(told(&waiters, 10), ["w1", "elsewhere"]);
    assert_eq!(told(&waiters, 11), Vec::<String>::new(), "each once, and the others after its turn");
    waiters.leave(FILE, ClientId(1), b"w1");
    assert_eq!(told(&waiters, 11), ["r1", "r2"]);
    waiters.leave(FILE, ClientId(1), b"r1");
    assert_eq!(told(&waiters, 11), Vec::<String>::new());
    waiters.leave(FILE, ClientId(1), b"r2");
    assert_eq!(told(&waiters, 11), ["w2"]);
}

#[test]
fn who_does_not_come_in_its_turn_leaves_the_queue_to_the_next() {
    let waiters = LockWaiters::default();
    waits(&waiters, waiter(1, "dead", WRITE, 0..10, 1));
    waits(&waiters, waiter(2, "next", WRITE, 0..10, 1));
    assert_eq!(told(&waiters, 10), ["dead"]);
    let barging = waiter(3, "late", WRITE, 5..6, 11);
    let conflict = waiters.turn_of_another(FILE, &barging, s(11)).expect("it is another's turn");
    assert_eq!((conflict.client, conflict.owner.as_slice()), (ClientId(1), &b"dead"[..]));
    assert_eq!(waiters.turn_of_another(FILE, &waiter(1, "dead", WRITE, 0..10, 11), s(11)), None, "its own");
    assert_eq!(waiters.turn_of_another(FILE, &waiter(3, "late", WRITE, 10..11, 11), s(11)), None);
    assert_eq!(waiters.turn_of_another(FILE, &barging, s(12)), None, "turns end");
    assert_eq!(told(&waiters, 12), ["next"]);
}

#[test]
fn only_waiters_without_a_conflict_are_told() {
    let waiters = LockWaiters::default();
    waits(&waiters, waiter(1, "blocked", WRITE, 0..10, 1));
    waits(&waiters, waiter(1, "free", WRITE, 0..10, 1));
    let next = waiters.next(FILE, s(2), |waiter| waiter.owner == b"free");
    assert_eq!(next.into_iter().map(|w| w.owner).collect::<Vec<_>>(), [b"free"]);
}

#[test]
fn a_waiter_is_told_after_five_delays_unless_too_many_wait() {
    let waiters = LockWaiters::default();
    let ask = |owner: &str| waits(&waiters, waiter(1, owner, WRITE, 0..10, 0));
    let [delay, anew] = [Answer::Delay, Answer::Anew];
    assert_eq!(
        [(); 7].map(|()| ask("w")),
        [delay, delay, delay, delay, delay, anew, anew],
        "until it hears it"
    );
    waiters.begins_anew(FILE, ClientId(1), b"w");
    assert_eq!([(); 6].map(|()| ask("w")), [delay, delay, delay, delay, delay, anew]);
    for number in 0..OFTEN_ASKING_MAX {
        ask(&number.to_string());
    }
    assert_eq!(ask("w"), delay, "it has company");
    for number in 0..OFTEN_ASKING_MAX {
        waiters.leave(FILE, ClientId(1), number.to_string().as_bytes());
    }
    assert_eq!(ask("w"), anew);
}

#[test]
fn delays_count_that_a_waiter_was_answered_elsewhere_or_before_it_missed_its_turn() {
    let waiters = LockWaiters::default();
    assert_eq!(waiters.wait(FILE, waiter(1, "comes", WRITE, 0..10, 1), true), Answer::Anew);
    assert_eq!(waiters.who_may_pause_for_long(ClientId(1)).len(), 1);
    for at in 1..=5 {
        waits(&waiters, waiter(2, "misses", WRITE, 20..30, at));
    }
    assert_eq!(told(&waiters, 6), ["comes", "misses"]);
    assert_eq!(told(&waiters, 9), Vec::<String>::new());
    assert_eq!(waits(&waiters, waiter(2, "misses", WRITE, 20..30, 10)), Answer::Anew);
    assert_eq!(told(&waiters, 11), ["misses"], "it asked again");
    waiters.begins_anew(FILE, ClientId(1), b"comes");
    assert_eq!(waiters.who_may_pause_for_long(ClientId(1)), []);
}

#[test]
fn the_queue_is_bounded_and_forgets_who_went() {
    let waiters = LockWaiters::default();
    for number in 0..2 * WAITERS_OF_CLIENT_MAX {
        waits(&waiters, waiter(1, &number.to_string(), READ, 0..1, 1));
    }
    waits(&waiters, waiter(2, "other", READ, 0..1, 1));
    waits(&waiters, waiter(2, "other", READ, 0..1, 100));
    assert_eq!(waiters.0.lock()[&FILE].len(), WAITERS_OF_CLIENT_MAX + 1);
    assert_eq!(told(&waiters, 200), ["other"], "the silent have given up");
    waiters.forget_client(ClientId(2));
    assert_eq!(waiters.files(), []);
}
