//! Oracle of a restore: the restored group has all changes that were acknowledged before its backup was
//! requested, and obeys no member of the old group.

use std::collections::BTreeMap;

use crate::history::{History, key};
use crate::request::{Answer, Request};
use crate::restore::{Backup, OLD_MEMBER_RANDOM};

/// Findings about changes that were acknowledged before the backup was requested, and are not in it.
pub(super) fn judge_backup(history: &History, backup: &Backup) -> Vec<String> {
    let mut places = BTreeMap::new();
    for (index, (proposal, _)) in &history.log {
        if let Some(request) = &proposal.request {
            places.entry(key(request)).or_insert(*index);
        }
    }
    let mut findings = vec![];
    for (number, operation) in history.operations.iter().enumerate() {
        let (Request::Change(Some(request), command), Some((answered, Answer::Reply(reply)))) =
            (&operation.request, &operation.answered)
        else {
            continue;
        };
        let is_in_it = places.get(&key(request)).is_some_and(|index| *index < backup.applied);
        if *answered < backup.asked && !is_in_it {
            findings.push(format!(
                "operation {number}, {command:?} -> {reply:?}, was acknowledged before the backup, which has what is below {}",
                backup.applied
            ));
        }
    }
    findings
}

/// Findings about proposals of a machine of the old group in the log.
pub(super) fn judge(history: &History) -> Vec<String> {
    let by_left_over =
        history.log.iter().filter(|(_, (proposal, _))| proposal.stamp.random == OLD_MEMBER_RANDOM);
    by_left_over
        .map(|(index, (proposal, _))| {
            format!("at {index} stands what a member of the old group proposed: {proposal:?}")
        })
        .collect()
}
