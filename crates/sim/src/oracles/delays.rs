//! Oracle of recalls: what is in the way of a request (layouts, delegations, data that migrate) is out of it
//! within a lease and a half. A request that one metaserver answers DELAY for longer, in a time without
//! faults, is a finding.

use crate::claims::{Claims, LEASE_MS};

pub(super) fn judge(claims: &Claims, calm: &[(u64, u64)]) -> Vec<String> {
    let mut findings = vec![];
    for (what, from_ms, until_ms) in &claims.delays {
        for (calm_from_ms, calm_until_ms) in calm {
            let (from_ms, until_ms) = ((*from_ms).max(*calm_from_ms), (*until_ms).min(*calm_until_ms));
            if until_ms > from_ms + LEASE_MS * 3 / 2 {
                findings.push(format!("{what} was put off from {from_ms} to {until_ms} ms"));
            }
        }
    }
    findings
}
