//! Oracle of acknowledged changes: each answered change is in the log, with this answer.

use std::collections::BTreeMap;

use namespace::Reply;

use crate::history::{History, key};
use crate::request::{Answer, Request};

pub(super) fn judge(history: &History) -> Vec<String> {
    let mut answers: BTreeMap<_, Vec<&Reply>> = BTreeMap::new();
    for (proposal, reply) in history.log.values() {
        if let Some(request) = proposal.request {
            answers.entry(key(&request)).or_default().push(reply);
        }
    }
    let mut findings = vec![];
    for (number, operation) in history.operations.iter().enumerate() {
        let (Request::Change(Some(request), command), Some((_, Answer::Reply(reply)))) =
            (&operation.request, &operation.answered)
        else {
            continue;
        };
        match answers.get(&key(request)) {
            None => findings.push(format!("operation {number}, {command:?} -> {reply:?}, is not in the log")),
            Some(all) if !all.contains(&reply) => {
                findings.push(format!("operation {number}, {command:?} -> {reply:?}; the log has {all:?}"));
            }
            Some(_) => {}
        }
    }
    findings
}
