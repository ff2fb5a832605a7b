//! Comparison of the digests of all members' states, once a second.
//!
//! ```text
//! each second, to each other member: Digest ─▶ its last index, and the digest there
//!     once this member has applied that index: equal, or not
//! not equal: to all others: DigestAt(index) ─▶ the digest of a majority of the voters is right
//! ```
//!
//! A member that differs from the majority stops, and its next start rebuilds it. Without a majority (two
//! members, or unreachable ones) the leader goes on, so that clients see one state, and the others stop
//! serving: an operator has to find out which state is right.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::service::Service;
use crate::state::digest::Digest;
use crate::transport::{self, Channel, Request};
use crate::types::{Member, NodeId};

/// Interval of comparisons: bounds the time for which a wrong state is served.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// Time-out of a question.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(2);
/// Number of comparisons that differ before unreachable members are left out: a member may be restarting.
const ASKED_MAX: u32 = 5;

/// Verdict of the voters.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// A majority of the voters has this member's digest.
    Right,
    /// A majority has another digest.
    Wrong,
    /// No majority has one digest.
    Nobody,
}

/// Compares digests until the member stops.
pub(crate) async fn compare(service: Weak<Service>) {
    // Digests of others at indices that this member had not applied yet.
    let mut said: BTreeMap<NodeId, (u64, Digest)> = BTreeMap::new();
    let mut differs: BTreeMap<NodeId, u32> = BTreeMap::new();
    loop {
        tokio::time::sleep(ASK_EVERY).await;
        let Some(service) = service.upgrade() else { return };
        let others = service.other_members();
        said.retain(|id, _| others.iter().any(|(other, _)| other == id));
        for (id, member) in &others {
            if !said.contains_key(id)
                && let Some(at) = service.asked_for_digest(member).await
            {
                said.insert(*id, at);
            }
            let Some((next, digest)) = said.get(id).copied() else { continue };
            if service.history.last().is_none_or(|(last, _)| last < next) {
                continue;
            }
            said.remove(id);
            let Some(own) = service.history.at(next) else { continue };
            if own == digest {
                differs.remove(id);
                continue;
            }
            let times = differs.entry(*id).or_default();
            *times += 1;
            if !service.settle_difference(next, own, member, *times).await {
                said.insert(*id, (next, digest));
            }
        }
    }
}

impl Service {
    fn other_members(&self) -> Vec<(NodeId, Member)> {
        let members = self.metrics().membership_config;
        let others = members.membership().nodes().filter(|(id, _)| **id != self.id);
        others.map(|(id, member)| (*id, member.clone())).collect()
    }

    async fn asked_for_digest(&self, member: &Member) -> Option<(u64, Digest)> {
        let body = transport::encode(&Request::Digest);
        let answer = self.transport.call(member, Channel::Requests, body, ANSWER_TIME_MAX).await;
        transport::decode::<Option<(u64, Digest)>>(&answer.ok()?).ok()?
    }

    /// Settles a difference between this member's state and another's at one index. False: compare again.
    async fn settle_difference(&self, next: u64, own: Digest, other: &Member, times: u32) -> bool {
        let mut known = BTreeMap::from([(self.id, own)]);
        for (id, member) in self.other_members() {
            let body = transport::encode(&Request::DigestAt(next));
            let answer = self.transport.call(&member, Channel::Requests, body, ANSWER_TIME_MAX).await;
            let said = answer.ok().and_then(|answer| transport::decode::<Option<Digest>>(&answer).ok());
            known.extend(said.flatten().map(|digest| (id, digest)));
        }
        let voters: Vec<NodeId> = self.metrics().membership_config.voter_ids().collect();
        let verdict = verdict(&voters, &known, own);
        // Nothing is applied yet at 0: a damaged store can differ there.
        let index = next.saturating_sub(1);
        let why = || format!("the state after entry {index} differs from that of {}", other.name);
        match verdict {
            Verdict::Right => {
                if times == 1 {
                    tracing::error!(
                        metaserver = %other.name, index,
                        "a metaserver's state differs from that of the majority: it stops, and its next start rebuilds it"
                    );
                }
                true
            }
            Verdict::Wrong => {
                self.integrity.report_damage(&format!("{}, and a majority has the same as that one", why()));
                true
            }
            Verdict::Nobody if times < ASKED_MAX => false,
            Verdict::Nobody if self.raft.is_leader() => {
                if times == ASKED_MAX {
                    tracing::error!(
                        metaserver = %other.name, index,
                        "a metaserver's state differs, and no majority says which state is right; this one leads and \
                         goes on: compare their files, and remove the wrong one (heorot node remove)"
                    );
                }
                true
            }
            Verdict::Nobody => {
                self.integrity.report_difference(&format!("{}, and no majority says which is right", why()));
                true
            }
        }
    }
}

fn verdict(voters: &[NodeId], known: &BTreeMap<NodeId, Digest>, own: Digest) -> Verdict {
    let needed = voters.len() / 2 + 1;
    let mut votes: BTreeMap<[u8; 16], usize> = BTreeMap::new();
    for digest in voters.iter().filter_map(|voter| known.get(voter)) {
        *votes.entry(digest.bytes()).or_default() += 1;
    }
    match votes.into_iter().find(|(_, count)| *count >= needed) {
        Some((digest, _)) if digest == own.bytes() => Verdict::Right,
        Some(_) => Verdict::Wrong,
        None => Verdict::Nobody,
    }
}

/// Starts the comparison.
pub(crate) fn start(service: &Arc<Service>, runtime: &tokio::runtime::Handle) {
    runtime.spawn(compare(Arc::downgrade(service)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_majority_of_all_voters_is_right_and_not_that_of_those_that_answer() {
        let digest = |n: u8| {
            let mut digest = Digest::default();
            digest.change(&[n], None, Some(b""));
            digest
        };
        let (a, b, c) = (digest(1), digest(2), digest(3));
        for (voters, known, expected) in [
            (&[1, 2, 3][..], &[(1, a), (2, b), (3, b)][..], Verdict::Wrong),
            (&[1, 2, 3], &[(1, a), (2, a), (3, b)], Verdict::Right),
            (&[1, 2, 3], &[(1, a), (2, b)], Verdict::Nobody),
            (&[1, 2, 3], &[(1, a), (2, b), (3, c)], Verdict::Nobody),
            (&[1, 2], &[(1, a), (2, b)], Verdict::Nobody),
            // This member has no vote.
            (&[2], &[(1, a), (2, b)], Verdict::Wrong),
            (&[2, 3], &[(1, a), (2, a), (3, b)], Verdict::Nobody),
        ] {
            let known: BTreeMap<NodeId, Digest> = known.iter().copied().collect();
            assert_eq!(verdict(voters, &known, a), expected, "{voters:?}");
        }
    }
}
