//! Oracle of lock waiters: no lock without a holder is denied for longer than a lease. Judged in times
//! without faults, in which the waiter gets answers: one that is cut off is not denied anything.

use crate::claims::{Calm, Claims, LEASE_MS, LockWait};

/// Time within which a lapsed client's lock is gone, after its last request: its lease, the time in which the
/// leader hears of renewals and looks for lapsed clients, and the next LOCK, which expires it.
const LAPSE_MS: u64 = LEASE_MS * 3 / 2;
/// Longest pause of a waiter between two requests, and the time of a request.
const ASK_MS: u64 = 2_000;

pub(super) fn judge(claims: &Claims, calm: &[Calm]) -> Vec<String> {
    let mut findings = vec![];
    for wait in &claims.waits {
        for calm in calm {
            let time = (wait.from_ms.max(calm.from_ms), wait.until_ms.min(calm.until_ms));
            if let Some(free) = longest_free(wait, time, claims).filter(|free| *free > LEASE_MS + ASK_MS) {
                findings.push(format!("{wait:?} was denied for {free} ms in which nobody held it"));
            }
        }
    }
    findings
}

/// Longest part of `time` in which no other owner can have held a lock that conflicts.
fn longest_free(wait: &LockWait, time: (u64, u64), claims: &Claims) -> Option<u64> {
    let (mut at_ms, end_ms) = time;
    let mut held: Vec<(u64, u64)> = vec![];
    // Time at which a client has lapsed that was not heard of after `ms`, or after its last answer.
    let lapses_ms = |life, ms: u64| {
        let silent_ms = claims.renewals.get(&life).and_then(|all| all.last()).map_or(0, |last| last.1);
        silent_ms.max(ms) + LAPSE_MS
    };
    let locks = claims.all.iter().filter(|claim| {
        claim.inode == wait.inode
            && (claim.life, claim.owner) != wait.owner
            && claim.held.conflicts(wait.held)
    });
    for claim in locks {
        // From the request on; to the answer of the return, or until the client was given up.
        let until_ms = claim.gone_ms.unwrap_or(u64::MAX).min(lapses_ms(claim.life, claim.from_ms));
        held.push((claim.asked_ms, until_ms));
    }
    let attempts = claims.attempts.iter().filter(|attempt| {
        let is_other = attempt.inode == wait.inode && attempt.owner != wait.owner;
        is_other && !attempt.is_answered && attempt.held.conflicts(wait.held)
    });
    held.extend(attempts.map(|attempt| (attempt.asked_ms, lapses_ms(attempt.owner.0, attempt.asked_ms))));
    // Times without an answer to the waiter, also to its other requests.
    let answers = claims.renewals.get(&wait.owner.0).map_or(&[][..], Vec::as_slice);
    let mut answered_ms: Vec<u64> = answers.iter().map(|answer| answer.1).collect();
    answered_ms.sort_unstable();
    held.extend(answered_ms.windows(2).map(|two| (two[0], two[1])).filter(|(from, to)| to - from > LEASE_MS));
    held.sort_unstable();
    let mut longest = None;
    for (from_ms, until_ms) in held.into_iter().chain([(end_ms, end_ms)]) {
        let from_ms = from_ms.min(end_ms);
        if from_ms > at_ms {
            longest = longest.max(Some(from_ms - at_ms));
        }
        at_ms = at_ms.max(until_ms);
    }
    longest
}
