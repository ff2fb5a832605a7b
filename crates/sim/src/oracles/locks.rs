//! Oracle of byte-range locks: conflicting locks never overlap in time. Judged by clients' answers alone: a
//! lock is held from the answer to LOCK until the request of LOCKU or CLOSE.

use namespace::{ByteRange, Command, InodeId, LockKind, Reply, RequestId};

use crate::history::History;
use crate::net::Address;
use crate::request::{Answer, Request};

struct HeldLock {
    by: (Address, u32),
    inode: InodeId,
    kind: LockKind,
    range: ByteRange,
    from: u64,
    until: u64,
}

pub(super) fn judge(history: &History) -> Vec<String> {
    let mut held: Vec<HeldLock> = vec![];
    for operation in &history.operations {
        let Request::Change(Some(RequestId::Compound(request)), command) = &operation.request else {
            continue;
        };
        let by = (operation.client, request.slot);
        match command {
            // A slot sends one request after the other, and has one lock-owner and one file at a time: either
            // request ends all its locks.
            Command::Unlock { .. } | Command::Close { .. } => held
                .iter_mut()
                .filter(|lock| lock.by == by && lock.until > operation.asked)
                .for_each(|lock| lock.until = operation.asked),
            Command::Lock { inode, kind, range, .. } => {
                // From its request on, a LOCK may change the owner's lock on the same bytes.
                held.iter_mut()
                    .filter(|lock| lock.by == by && lock.until > operation.asked && meet(&lock.range, range))
                    .for_each(|lock| lock.until = operation.asked);
                if let Some((from, Answer::Reply(Reply::State { stateid: Some(_) }))) = &operation.answered {
                    let (inode, kind, range) = (*inode, *kind, *range);
                    held.push(HeldLock { by, inode, kind, range, from: *from, until: u64::MAX });
                }
            }
            _ => {}
        }
    }
    let mut findings = vec![];
    for (n, one) in held.iter().enumerate() {
        for other in &held[..n] {
            let excludes = one.kind == LockKind::Write || other.kind == LockKind::Write;
            let at_once = one.from < other.until && other.from < one.until;
            if excludes
                && at_once
                && one.by != other.by
                && one.inode == other.inode
                && meet(&one.range, &other.range)
            {
                findings.push(format!(
                    "{:?} of {:?} by client {:?} at {}..{} and by {:?} at {}..{}",
                    one.range, one.inode, one.by, one.from, one.until, other.by, other.from, other.until
                ));
            }
        }
    }
    findings
}

fn meet(one: &ByteRange, other: &ByteRange) -> bool {
    one.start < other.end && other.start < one.end
}
