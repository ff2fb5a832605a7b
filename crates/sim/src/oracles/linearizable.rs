//! Oracle of linearizability: each operation takes effect at one moment between request and answer, as on one
//! machine.
//!
//! In general that is a search among all orders, directory by directory (Wing and Gong; Lowe). Here no search
//! is needed, since each operation has a known position: a change has its index in the log, a read the index
//! up to which it saw. The oracle judges whether this order is right:
//!
//! - it agrees with time: an operation that was requested after the answer of another stands behind it;
//! - each answer is that of a plain model of the name space in this order (`reference`).
//!
//! That is stricter than linearizability: another order that agrees is not accepted. It covers all
//! directories together, renames between them too, and costs n log n, where the search is exponential in the
//! concurrent operations.

use std::collections::BTreeMap;

use namespace::{Command, InodeId};

use crate::history::{History, Key, Operation, key};
use crate::plain::{Content, Plain};
use crate::reference::Reference;
use crate::request::{Answer, Query, QueryResult, Request};

/// Position in the log: entry n is at 2n, a read of the entries below n is at 2n - 1.
type Position = u64;

pub(super) fn judge(history: &History) -> Vec<String> {
    let mut first: BTreeMap<Key, u64> = BTreeMap::new();
    for (index, (proposal, _)) in &history.log {
        if let Some(request) = proposal.request {
            first.entry(key(&request)).or_insert(*index);
        }
    }
    let mut findings = against_time(history, &first);
    findings.extend(against_the_model(history));
    findings
}

fn position(operation: &Operation, first: &BTreeMap<Key, u64>) -> Option<Position> {
    match (&operation.request, &operation.answered) {
        (Request::Change(Some(request), _), _) => first.get(&key(request)).map(|index| 2 * index),
        (Request::Query(_), Some((_, Answer::Read(_, next)))) => Some((2 * next).saturating_sub(1)),
        _ => None,
    }
}

/// Findings where an operation stands before one that was answered before its request.
fn against_time(history: &History, first: &BTreeMap<Key, u64>) -> Vec<String> {
    let mut moments: Vec<(u64, bool, usize, Position)> = vec![];
    for (number, operation) in history.operations.iter().enumerate() {
        let Some(position) = position(operation, first) else { continue };
        moments.push((operation.asked, false, number, position));
        if let Some((answered, _)) = &operation.answered {
            moments.push((*answered, true, number, position));
        }
    }
    moments.sort_unstable();
    let mut behind: Option<(Position, usize)> = None;
    let mut findings = vec![];
    for (_, is_answer, number, position) in moments {
        if is_answer {
            behind = behind.max(Some((position, number)));
        } else if let Some((least, other)) = behind.filter(|(least, _)| position < *least) {
            let [a, b] = [number, other].map(|n| &history.operations[n]);
            findings.push(format!(
                "operation {number} of client {} took effect at {position}/2, before operation {other} of client {} at \
                 {least}/2, which had been answered when it was asked:\n  {:?} -> {:?}\n  {:?} -> {:?}",
                a.client, b.client, a.request, a.answered, b.request, b.answered
            ));
        }
    }
    findings
}

/// Findings where an answer differs from the model's.
fn against_the_model(history: &History) -> Vec<String> {
    let mut looks: Vec<(u64, &Query, &QueryResult)> = vec![];
    for operation in &history.operations {
        if let (Request::Query(look), Some((_, Answer::Read(seen, next)))) =
            (&operation.request, &operation.answered)
        {
            looks.push((*next, look, seen));
        }
    }
    looks.sort_by_key(|(next, ..)| *next);
    let mut looks = looks.into_iter().peekable();
    let mut findings = vec![];
    let mut reference: Option<Reference> = None;
    let mut look_before = |index: u64, reference: &Option<Reference>, findings: &mut Vec<String>| {
        while let Some((next, look, seen)) = looks.next_if(|(next, ..)| *next <= index) {
            let expected = reference.as_ref().map(|reference| look_at(&reference.plain, look));
            if expected.as_ref() != Some(seen) {
                findings.push(format!("{look:?} below {next} saw {seen:?}, expected {expected:?}"));
            }
        }
    };
    for (index, (proposal, reply)) in &history.log {
        look_before(*index, &reference, &mut findings);
        let Some(reference) = &mut reference else {
            if matches!(proposal.command, Command::Format { .. }) {
                reference = Some(Reference::new(Plain::new(&proposal.stamp)));
            }
            continue;
        };
        let expected = reference.apply(proposal);
        if *reply != expected {
            findings.push(format!("at {index} {proposal:?} -> {reply:?}, expected {expected:?}"));
            break; // later replies would differ, too
        }
    }
    look_before(u64::MAX, &reference, &mut findings);
    findings
}

fn look_at(plain: &Plain, look: &Query) -> QueryResult {
    let entries = |dir: &InodeId| match plain.nodes.get(dir).map(|node| &node.content) {
        Some(Content::Directory { entries, .. }) => {
            entries.iter().map(|(name, (_, inode))| (name.clone(), *inode)).collect()
        }
        _ => vec![],
    };
    match look {
        Query::Lookup(dir, name) => QueryResult::Named(
            entries(dir).into_iter().find(|(found, _)| found == name).map(|(_, inode)| inode),
        ),
        Query::List(dir) => QueryResult::Names(entries(dir)),
        Query::Attributes(inode) => {
            QueryResult::Inode(plain.nodes.contains_key(inode).then(|| Box::new(plain.inode(*inode))))
        }
        Query::Snapshot(id) => {
            let shown = plain.snapshots.get(id).map(|_| plain.shown(*id)).unwrap_or_default();
            QueryResult::Shown(
                shown.into_iter().map(|(inode, entries, data, _)| (inode, entries, data)).collect(),
            )
        }
        Query::Data(inode) => QueryResult::Bytes(match plain.nodes.get(inode).map(|node| &node.content) {
            Some(Content::File { bytes, .. }) => bytes.clone(),
            _ => vec![],
        }),
    }
}
