//! Replicas are equal at an equal index: what they applied there and what they answered, and, whenever a batch ended at
//! the same index, all that they held. At the end every store is sound by itself, too.

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
