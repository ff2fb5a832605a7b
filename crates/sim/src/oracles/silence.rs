//! Oracle of answers: a client that is up and reaches all servers gets an answer within a lease, in times without
//! faults. Its keeper sends a request at least every six tenths of a lease.

use crate::claims::{Calm, Claims, LEASE_MS};

pub(super) fn judge(claims: &Claims, calm: &[Calm]) -> Vec<String> {
    let mut findings = vec![];
    for Calm { from_ms, until_ms, clients } in calm {
        for client in clients {
            let answers =
                claims.renewals.iter().filter(|(life, _)| life.0 == *client).flat_map(|(_, all)| all);
            let answers = answers.map(|(_, answered_ms)| *answered_ms);
            let mut times: Vec<u64> = answers.filter(|at| (*from_ms..*until_ms).contains(at)).collect();
            times.extend([*from_ms, *until_ms]);
            times.sort_unstable();
            for (since_ms, at_ms) in times.iter().zip(&times[1..]) {
                if at_ms - since_ms > LEASE_MS {
                    findings.push(format!("client {client} got no answer from {since_ms} to {at_ms} ms"));
                }
            }
        }
    }
    findings
}
