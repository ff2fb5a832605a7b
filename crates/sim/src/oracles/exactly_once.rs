//! Oracle of exactly-once: each request is applied once, however often it is repeated. All its applications
//! have one reply, except those after the slot has advanced, which are refused without effect.

use std::collections::BTreeMap;

use namespace::{Error, Reply, RequestId};

use crate::history::History;

pub(super) fn judge(history: &History) -> Vec<String> {
    let mut findings = vec![];
    let mut done: BTreeMap<_, (u64, &Reply)> = BTreeMap::new();
    let mut newest: BTreeMap<_, u32> = BTreeMap::new();
    for (index, (proposal, reply)) in &history.log {
        // Metaservers' own requests have rules of their own (`namespace::servers`), which the model knows.
        let Some(RequestId::Compound(request)) = proposal.request else { continue };
        let slot = (request.session.0, request.slot);
        let newest = newest.entry(slot).or_insert(request.sequence);
        if request.sequence < *newest {
            // Late copy of an old request.
            if !matches!(reply, Reply::Refused(Error::Misordered | Error::BadSession)) {
                findings
                    .push(format!("at {index} {proposal:?}, which nobody waited for any more, -> {reply:?}"));
            }
            continue;
        }
        *newest = request.sequence;
        match done.get(&(slot, request.sequence, request.index)) {
            None => drop(done.insert((slot, request.sequence, request.index), (*index, reply))),
            // No answer yet: the metaserver asks again once the delegations are back.
            Some((_, Reply::Delegated { .. } | Reply::Claimed { .. })) => {
                done.insert((slot, request.sequence, request.index), (*index, reply));
            }
            // The client was expired since, with its session.
            Some(_) if *reply == Reply::Refused(Error::BadSession) => {}
            Some((first, before)) if *before != reply => findings.push(format!(
                "at {index} {proposal:?} -> {reply:?}; at {first} it had been answered {before:?}"
            )),
            Some(_) => {}
        }
    }
    findings
}
