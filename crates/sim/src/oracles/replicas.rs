//! Oracle of replicas: at an equal index members have applied equal commands with equal replies, and, where a
//! batch of each ended at that index, have equal stores. At the end each store is consistent by itself, too.

use crate::history::History;
use crate::member::Member;

pub(super) fn judge(history: &History, members: &[Member]) -> Vec<String> {
    let mut findings = history.disagreements.clone();
    for member in members {
        match namespace::check(&member.store.now()) {
            Ok(broken) => {
                findings.extend(broken.iter().map(|what| format!("member {}: {what}", member.id)));
            }
            Err(why) => findings.push(format!("member {}: {why}", member.id)),
        }
    }
    findings.truncate(20);
    findings
}
