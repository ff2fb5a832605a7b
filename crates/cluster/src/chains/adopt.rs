//! Chains after a restore from a backup: their members are those that data servers know to have been in last.
//!
//! ```text
//! restore ─▶ all in doubt ─▶ CHAIN_RECORDS: the latest version that any target knows
//!                               ─▶ all that were in then have told what they know? ─▶ Adopt(these)
//! ```
//!
//! A version begins when a member that is in has heard of it, and each version has a member that was in before. So
//! from any record, the records of the targets that were in lead to the last version.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use namespace::{COPIES_MAX, Chain, ChainChange, ChainId, ChainStep, MemberState, TargetId};
use wire::data::{Procedure, chain_records};

use super::watch::TELL_TIME_MAX;
use crate::cluster::Cluster;

/// Interval between two lines in the log about chains that wait.
const SAY_EVERY: Duration = Duration::from_secs(60);
/// Targets that such a line names.
const NAMES_MAX: usize = 16;

/// A chain as a target last heard of it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Record {
    version: u32,
    members_in: Vec<TargetId>,
}

/// What the targets know that were asked, with the process that told it.
#[derive(Default)]
pub(super) struct Heard {
    targets: BTreeMap<TargetId, (u64, BTreeMap<ChainId, Record>)>,
    /// Time of the last line in the log.
    said: Option<Duration>,
}

/// The step of a chain in doubt, or the targets that are waited for.
fn step_of(
    chain: &Chain,
    heard: &BTreeMap<TargetId, (u64, BTreeMap<ChainId, Record>)>,
    is_lost: impl Fn(TargetId) -> bool,
) -> Result<ChainStep, Vec<TargetId>> {
    let of_backup =
        Record { version: chain.version, members_in: chain.with_state(MemberState::Doubted).collect() };
    let told = heard.values().filter_map(|(_, records)| records.get(&chain.id));
    let last = told.max_by_key(|record| record.version).filter(|record| record.version >= chain.version);
    let last = last.unwrap_or(&of_backup);
    let awaited = |target: &TargetId| !heard.contains_key(target) && !is_lost(*target);
    let waits: Vec<TargetId> = last.members_in.iter().copied().filter(awaited).collect();
    let there = last.members_in.iter().copied().filter(|target| heard.contains_key(target));
    let mut members = [None; COPIES_MAX];
    members.iter_mut().zip(there).for_each(|(place, target)| *place = Some(target));
    match waits.is_empty() && members[0].is_some() {
        true => Ok(ChainStep::Adopt(members, last.version)),
        false => Err(if waits.is_empty() { last.members_in.clone() } else { waits }),
    }
}

impl Cluster {
    /// True if the chain waits, after a restore, for its members to be known.
    #[must_use]
    pub fn is_in_doubt(&self, chain: ChainId) -> bool {
        // In the order of their ids. As recorded: of those now, members whose process has changed are away.
        let map = self.map();
        let at = map.chains.binary_search_by_key(&chain, |recorded| recorded.id);
        at.is_ok_and(|at| map.chains[at].is_in_doubt())
    }

    /// Asks data servers about chains that are in doubt. Returns the steps of those whose members are known.
    pub(super) async fn adoptions(&self) -> Vec<ChainChange> {
        let map = self.map();
        let in_doubt: Vec<&Chain> = map.chains.iter().filter(|chain| chain.is_in_doubt()).collect();
        if in_doubt.is_empty() {
            *self.chains.heard.lock().await = Heard::default();
            return Vec::new();
        }
        let mut heard = self.chains.heard.lock().await;
        let now = self.group.clock.monotonic();
        let asked = map.present_data_servers().filter(|server| self.chains.leases.is_held(server.id, now));
        let asked = asked.flat_map(|server| server.targets.iter().map(|target| (*target, server.process)));
        let is_news = |(target, process): &(TargetId, u64)| {
            heard.targets.get(target).is_none_or(|(known, _)| known != process)
        };
        let asked: Vec<(TargetId, u64)> = asked.filter(is_news).collect();
        let answers = asked.into_iter().map(|(target, process)| async move {
            Some((target, (process, self.records_of(target).await?)))
        });
        heard.targets.extend(join_all(answers).await.into_iter().flatten());
        let lost = self.data_servers.lost_targets();
        let (mut steps, mut awaited) = (Vec::new(), BTreeMap::<TargetId, usize>::new());
        for chain in &in_doubt {
            match step_of(chain, &heard.targets, |target| lost.contains(&target)) {
                Ok(step) => steps.push(ChainChange { chain: chain.id, version: chain.version, step }),
                Err(targets) => {
                    targets.into_iter().for_each(|target| *awaited.entry(target).or_default() += 1)
                }
            }
        }
        if !awaited.is_empty() && heard.said.is_none_or(|said| now.saturating_sub(said) >= SAY_EVERY) {
            heard.said = Some(now);
            let names: Vec<String> =
                awaited.keys().take(NAMES_MAX).map(|target| format!("{:016x}", target.0)).collect();
            tracing::warn!(
                chains = in_doubt.len() - steps.len(),
                targets = names.join(", "),
                "after the restore from a backup, chains wait for targets that had their data last: start their data servers, and \
                 run heorot ds adopt on each"
            );
        }
        steps
    }

    /// What a target knows of chains. None: it does not answer.
    async fn records_of(&self, target: TargetId) -> Option<BTreeMap<ChainId, Record>> {
        let peer = self.data_servers.peer(target)?;
        let (mut records, mut after) = (BTreeMap::new(), None);
        loop {
            let args = chain_records::Args { target: target.0, after };
            let answer =
                peer.call::<chain_records::Res>(Procedure::ChainRecords as u32, &args, TELL_TIME_MAX);
            let page = answer.await.ok()?.ok()?;
            let last = page.records.last().map(|record| record.chain);
            for record in page.records {
                let members_in = record.members_in.into_iter().map(TargetId).collect();
                records.insert(ChainId(record.chain), Record { version: record.version, members_in });
            }
            // Pages ascend: a wrong answer is none.
            match last {
                _ if page.done => return Some(records),
                Some(last) if after.is_none_or(|after| after < last) => after = Some(last),
                _ => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use namespace::{ChainMember, Time};

    use super::*;

    const CHAIN: ChainId = ChainId(9);

    /// The chain of the backup: version 5, with the targets 1 and 2.
    fn backup() -> Chain {
        let member = |target| ChainMember {
            target: TargetId(target),
            state: MemberState::Doubted,
            process: 1,
            since: Time::default(),
        };
        let members = vec![member(1), member(2)];
        Chain { id: CHAIN, version: 5, verifier: 1, copies: 2, members, leaving: None }
    }

    /// The step when these targets have told these versions and members, and others of these are lost.
    fn step(told: &[(u64, u32, &[u64])], lost: &[u64]) -> Result<(Vec<u64>, u32), Vec<u64>> {
        let record = |(target, version, members): &(u64, u32, &[u64])| {
            let members_in = members.iter().copied().map(TargetId).collect();
            let records = BTreeMap::from([(CHAIN, Record { version: *version, members_in })]);
            (TargetId(*target), (1, if *version == 0 { BTreeMap::new() } else { records }))
        };
        let heard = told.iter().map(record).collect();
        match step_of(&backup(), &heard, |target| lost.contains(&target.0)) {
            Ok(ChainStep::Adopt(members, version)) => {
                Ok((members.into_iter().flatten().map(|target| target.0).collect(), version))
            }
            Ok(other) => panic!("{other:?}"),
            Err(waits) => Err(waits.into_iter().map(|target| target.0).collect()),
        }
    }

    #[test]
    fn what_the_backup_says_counts_when_nobody_knows_more() {
        assert_eq!(step(&[], &[]), Err(vec![1, 2]));
        assert_eq!(step(&[(1, 5, &[1, 2])], &[]), Err(vec![2]), "it may know more");
        assert_eq!(step(&[(1, 5, &[1, 2]), (2, 5, &[1, 2])], &[]), Ok((vec![1, 2], 5)));
        assert_eq!(step(&[(1, 5, &[1, 2])], &[2]), Ok((vec![1], 5)), "it is declared lost");
        assert_eq!(
            step(&[(1, 0, &[]), (2, 0, &[])], &[]),
            Ok((vec![1, 2], 5)),
            "an older program wrote none"
        );
        assert_eq!(step(&[(1, 3, &[1]), (2, 4, &[1, 2])], &[]), Ok((vec![1, 2], 5)), "records are old");
        assert_eq!(step(&[], &[1, 2]), Err(vec![1, 2]), "the files are lost");
    }

    #[test]
    fn records_lead_to_the_members_that_were_in_last() {
        // 2 was cut off; then 3 took its place, then 4 that of 1.
        let (cut_off, dropped) = ((2, 5, &[1, 2][..]), (1, 8, &[3, 4][..]));
        assert_eq!(step(&[cut_off], &[]), Err(vec![1]));
        assert_eq!(
            step(&[cut_off, (1, 7, &[1, 3, 4])], &[]),
            Err(vec![3, 4]),
            "it did not hear that it was dropped"
        );
        assert_eq!(step(&[cut_off, dropped], &[]), Err(vec![3, 4]));
        assert_eq!(step(&[cut_off, dropped, (3, 7, &[1, 3, 4])], &[]), Err(vec![4]));
        assert_eq!(step(&[cut_off, dropped, (3, 9, &[3])], &[]), Ok((vec![3], 9)), "4 left after that");
        assert_eq!(step(&[dropped, (3, 7, &[1, 3]), (4, 8, &[3, 4])], &[]), Ok((vec![3, 4], 8)));
    }
}
