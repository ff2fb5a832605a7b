//! Oracles of what NFS clients were told: conflicting opens and locks are never held at one time by clients
//! that keep their leases; a client that keeps its lease loses nothing.

use crate::claims::{Claim, Claims, LEASE_MS, Life};

/// Times in which a claim is good: from its answer to its return, as far as the client kept its lease, by
/// what it knew. An answered request keeps it for a lease from when it was sent.
fn good(claim: &Claim, claims: &Claims) -> Vec<(u64, u64)> {
    let until_ms = claim.until_ms.unwrap_or(u64::MAX);
    let renewals = claims.renewals.get(&claim.life);
    let mut good: Vec<(u64, u64)> = vec![];
    for (sent_ms, answered_ms) in renewals.into_iter().flatten() {
        let (from_ms, to_ms) = ((*answered_ms).max(claim.from_ms), (sent_ms + LEASE_MS).min(until_ms));
        match good.last_mut() {
            Some(last) if from_ms <= last.1 => last.1 = last.1.max(to_ms),
            _ if from_ms < to_ms => good.push((from_ms, to_ms)),
            _ => {}
        }
    }
    good
}

fn meet(one: &[(u64, u64)], other: &[(u64, u64)]) -> Option<u64> {
    let all = one.iter().flat_map(|a| other.iter().map(move |b| (a.0.max(b.0), a.1.min(b.1))));
    all.filter(|(from_ms, until_ms)| from_ms < until_ms).map(|(from_ms, _)| from_ms).min()
}

fn owner(claim: &Claim) -> (Life, u32) {
    (claim.life, claim.owner)
}

/// Conflicting opens and locks.
pub(super) fn judge(claims: &Claims) -> Vec<String> {
    let good: Vec<Vec<(u64, u64)>> = claims.all.iter().map(|claim| good(claim, claims)).collect();
    let mut findings = vec![];
    for (n, one) in claims.all.iter().enumerate() {
        for (m, other) in claims.all[..n].iter().enumerate() {
            if one.inode == other.inode
                && owner(one) != owner(other)
                && one.held.conflicts(other.held)
                && let Some(at_ms) = meet(&good[n], &good[m])
            {
                findings.push(format!("from {at_ms} ms on {one:?} and {other:?}"));
            }
        }
    }
    findings
}
