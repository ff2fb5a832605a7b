//! Oracle of recalls: what is in the way of a request (layouts, delegations, data that migrate) is out of it
//! within a lease and a half. A request that one metaserver answers DELAY for longer, in a time without
//! faults, is a finding. A request that names its file by a name begins to wait anew when another file is made
//! under that name.

use crate::claims::{Calm, Claims, Delays, LEASE_MS};
use crate::history::History;

pub(super) fn judge(claims: &Claims, history: &History, calm: &[Calm]) -> Vec<String> {
    let mut findings = vec![];
    for Delays { what, name, ms } in &claims.delays {
        let made = history.made.iter().filter(|(_, made)| Some(made) == name.as_ref()).map(|(at, _)| *at);
        let mut from_ms = ms.0;
        for until_ms in made.filter(|at| (ms.0..ms.1).contains(at)).chain([ms.1]) {
            for calm in calm {
                let (from_ms, until_ms) = (from_ms.max(calm.from_ms), until_ms.min(calm.until_ms));
                if until_ms > from_ms + LEASE_MS * 3 / 2 {
                    findings.push(format!("{what} was put off from {from_ms} to {until_ms} ms"));
                }
            }
            from_ms = until_ms;
        }
    }
    findings
}
