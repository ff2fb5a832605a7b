//! What a client asked once was done once, however often it was asked again: every application of the same origin was
//! answered the same, except where the slot had gone on, when it was refused and nothing done.

use std::collections::BTreeMap;

use namespace::{Error, Origin, Reply};

use crate::history::History;

pub(super) fn judge(history: &History) -> Vec<String> {
    let mut findings = vec![];
    let mut done: BTreeMap<_, (u64, &Reply)> = BTreeMap::new();
    let mut newest: BTreeMap<_, u32> = BTreeMap::new();
    for (index, (proposal, reply)) in &history.log {
        // Those of metaservers have their own rules (`namespace::servers`), which the model knows.
        let Some(Origin::Compound(origin)) = proposal.origin else { continue };
        let slot = (origin.session.0, origin.slot);
        let newest = newest.entry(slot).or_insert(origin.sequence);
        if origin.sequence < *newest {
            // A straggler.
            if *reply != Reply::Refused(Error::Misordered) {
                findings
                    .push(format!("at {index} {proposal:?}, which nobody waited for any more, -> {reply:?}"));
            }
            continue;
        }
        *newest = origin.sequence;
        match done.get(&(slot, origin.sequence, origin.index)) {
            None => drop(done.insert((slot, origin.sequence, origin.index), (*index, reply))),
            Some((first, before)) if *before != reply => findings.push(format!(
                "at {index} {proposal:?} -> {reply:?}; at {first} it had been answered {before:?}"
            )),
            Some(_) => {}
        }
    }
    findings
}
