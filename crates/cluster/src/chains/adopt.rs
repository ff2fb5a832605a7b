//! Chains after a restore from a backup: their members are those that data servers know to have been in last.
//!
//! ```text
//! restore ─▶ all in doubt ─▶ CHAIN_RECORDS: the latest version that any target knows
//!                               ─▶ all that were in then, or refilled, have told what they know? ─▶ Adopt
//! ```
//!
//! Nothing is acknowledged in a version before a member that is in has heard of it, and that member was in, or was
//! refilled, in the version before. So from any record, the records of its targets lead to the last version.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use namespace::{COPIES_MAX, Chain, ChainChange, ChainId, ChainStep, MemberState, TargetId};
use wire::data::{Procedure, chain_records};

use super::known::Known;
use super::step::Presence;
use super::watch::TELL_TIME_MAX;
use crate::cluster::Cluster;

/// Interval of looks at chains in doubt.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Interval between two lines in the log about chains that wait.
const SAY_EVERY: Duration = Duration::from_secs(60);
/// Targets that such a line names.
const NAMES_MAX: usize = 16;
/// Most pages of one target's records, and targets of one record, that are believed.
const PAGES_MAX: u32 = 1024;
const MEMBERS_MAX: usize = 16;

/// A chain as a target last heard of it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Record {
    version: u32,
    members_in: Vec<TargetId>,
    refilled: Vec<TargetId>,
}

/// What targets have told, with the processes of their data servers.
type Told = BTreeMap<TargetId, (u64, BTreeMap<ChainId, Record>)>;

/// Targets of the data servers that are in the map.
struct Present<'a> {
    /// Those that are not lost, and are asked.
    all: &'a [TargetId],
    is_lost: &'a dyn Fn(TargetId) -> bool,
    serves: &'a dyn Fn(TargetId) -> bool,
    /// True if its data server is there, whatever the state of its disk.
    answers: &'a dyn Fn(TargetId) -> bool,
}

/// The step of a chain in doubt, or the targets that are waited for.
fn step_of(chain: &Chain, told: &Told, present: &Present<'_>) -> Result<ChainStep, Vec<TargetId>> {
    let knows = |target: TargetId| told.get(&target).and_then(|(_, records)| records.get(&chain.id));
    let have_all_told = present.all.iter().all(|target| told.contains_key(target));
    let of_backup = Record {
        version: chain.version,
        members_in: chain.with_state(MemberState::Doubted).collect(),
        refilled: chain.with_state(MemberState::Refilling).collect(),
    };
    let last = last_of(told.keys().filter_map(|target| knows(*target)));
    // No server was told of it, so no data came to it.
    let is_new = last.is_none() && have_all_told;
    let last = last.filter(|record| record.version >= chain.version).unwrap_or(of_backup);
    let trail = || last.members_in.iter().chain(&last.refilled).copied();
    // One that was refilled, and has no record of it, was never in.
    let has_told = |target: TargetId| match last.members_in.contains(&target) {
        true => knows(target).is_some(),
        false => told.contains_key(&target),
    };
    let is_unheard = |target: TargetId| !is_new && !has_told(target);
    let awaited: Vec<TargetId> =
        trail().filter(|target| is_unheard(*target) && !(present.is_lost)(*target)).collect();
    if !awaited.is_empty() {
        return Err(awaited);
    }
    // What a lost target knew is lost: others that are not on the trail may know more.
    if trail().any(is_unheard) && !have_all_told {
        return Err(present.all.iter().copied().filter(|target| !told.contains_key(target)).collect());
    }
    let mut members: Vec<TargetId> =
        last.members_in.iter().copied().filter(|target| !(present.is_lost)(*target)).collect();
    // One with a disk that is read-only, if there is no better one: as without a restore.
    members.sort_by_key(|target| (!(present.serves)(*target), !(present.answers)(*target)));
    if !members.first().is_some_and(|target| (present.answers)(*target)) {
        return Err(last.members_in.clone());
    }
    let mut places = [None; COPIES_MAX];
    places.iter_mut().zip(members).for_each(|(place, target)| *place = Some(target));
    Ok(ChainStep::Adopt(places, last.version))
}

/// The latest version; of several records of it, what any of them says. A data server is told of a version again
/// when a member's process has changed, without that member.
fn last_of<'a>(records: impl Iterator<Item = &'a Record>) -> Option<Record> {
    records.fold(None, |last: Option<Record>, record| match last {
        Some(last) if last.version > record.version => Some(last),
        Some(mut last) if last.version == record.version => {
            let is_new = |known: &[TargetId], target: &TargetId| !known.contains(target);
            let members_in: Vec<TargetId> =
                record.members_in.iter().copied().filter(|target| is_new(&last.members_in, target)).collect();
            last.members_in.extend(members_in);
            let refilled: Vec<TargetId> =
                record.refilled.iter().copied().filter(|target| is_new(&last.refilled, target)).collect();
            last.refilled.extend(refilled);
            Some(last)
        }
        _ => Some(record.clone()),
    })
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

    /// Looks for the members of chains in doubt while this metaserver leads. Never returns.
    pub async fn adopt_chains(self: Arc<Self>) {
        let (mut told, mut said) = (Told::new(), None);
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            if !self.group.replica.leads() || !self.map().chains.iter().any(Chain::is_in_doubt) {
                told.clear();
                continue;
            }
            let steps = self.adoptions(&mut told, &mut said).await;
            if !steps.is_empty()
                && let Err(error) = self.change_chains(&steps).await
            {
                tracing::warn!(%error, "chains cannot have their members again, retrying: their files wait");
            }
        }
    }

    /// Asks data servers about chains that are in doubt. Returns the steps of those whose members are known.
    async fn adoptions(&self, told: &mut Told, said: &mut Option<Duration>) -> Vec<ChainChange> {
        let (map, now) = (self.map(), self.group.clock.monotonic());
        let asked = map.present_data_servers().filter(|server| self.chains.leases.is_held(server.id, now));
        let asked = asked.flat_map(|server| server.targets.iter().map(|target| (*target, server.process)));
        let is_news =
            |(target, process): &(TargetId, u64)| told.get(target).is_none_or(|(known, _)| known != process);
        let asked: Vec<(TargetId, u64)> = asked.filter(is_news).collect();
        let answers = asked.into_iter().map(|(target, process)| async move {
            Some((target, (process, self.records_of(target).await?)))
        });
        told.extend(join_all(answers).await.into_iter().flatten());
        let known = Known::of(self);
        let is_lost = |target| known.presence_of(target) == Presence::Lost;
        let serves = |target| {
            matches!(known.presence_of(target), Presence::Well | Presence::Full | Presence::Draining)
        };
        let there = map.present_data_servers().filter(|server| self.chains.leases.is_held(server.id, now));
        let there: Vec<TargetId> = there.flat_map(|server| server.targets.iter().copied()).collect();
        let answers = |target| there.contains(&target);
        let all = map.present_data_servers().flat_map(|server| server.targets.iter().copied());
        let all: Vec<TargetId> = all.filter(|target| !is_lost(*target)).collect();
        let present = Present { all: &all, is_lost: &is_lost, serves: &serves, answers: &answers };
        let (mut steps, mut awaited) = (Vec::new(), BTreeMap::<TargetId, usize>::new());
        let mut waits = 0;
        for chain in map.chains.iter().filter(|chain| chain.is_in_doubt()) {
            match step_of(chain, told, &present) {
                Ok(step) => steps.push(ChainChange { chain: chain.id, version: chain.version, step }),
                Err(targets) => {
                    waits += 1;
                    targets.into_iter().for_each(|target| *awaited.entry(target).or_default() += 1);
                }
            }
        }
        if waits > 0 && said.is_none_or(|said| now.saturating_sub(said) >= SAY_EVERY) {
            *said = Some(now);
            let names: Vec<String> =
                awaited.keys().take(NAMES_MAX).map(|target| format!("{:016x}", target.0)).collect();
            tracing::warn!(
                chains = waits,
                targets = names.join(", "),
                "after the restore from a backup, chains wait for targets that may know where their data were last: start all data \
                 servers, run heorot ds adopt on each, and only then declare those lost that are gone for good"
            );
        }
        steps
    }

    /// What a target knows of chains. None: it does not answer, or does not know any more.
    async fn records_of(&self, target: TargetId) -> Option<BTreeMap<ChainId, Record>> {
        let peer = self.data_servers.peer(target)?;
        let (mut records, mut after) = (BTreeMap::new(), None);
        for _ in 0..PAGES_MAX {
            let args = chain_records::Args { target: target.0, after };
            let answer =
                peer.call::<chain_records::Res>(Procedure::ChainRecords as u32, &args, TELL_TIME_MAX);
            let page = answer.await.ok()?.ok()?;
            let last = page.records.last().map(|record| record.chain);
            for record in page.records.into_iter().filter(|record| self.is_in_doubt(ChainId(record.chain))) {
                let [members_in, refilled] = [record.members_in, record.refilled]
                    .map(|targets| targets.into_iter().take(MEMBERS_MAX).map(TargetId).collect());
                records
                    .insert(ChainId(record.chain), Record { version: record.version, members_in, refilled });
            }
            // Pages ascend: a wrong answer is none.
            match last {
                _ if page.done => return Some(records),
                Some(last) if after.is_none_or(|after| after < last) => after = Some(last),
                _ => return None,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use namespace::{ChainMember, Time};

    use super::*;

    const CHAIN: ChainId = ChainId(9);
    /// A record: its target, version, and targets that were in, and were refilled.
    type Line<'a> = (u64, u32, &'a [u64], &'a [u64]);

    /// The chain of the backup: version 5, with the targets 1 and 2.
    fn backup() -> Chain {
        let member = |target| ChainMember {
            target: TargetId(target),
            state: MemberState::Doubted,
            process: 1,
            since: Time::default(),
        };
        let members = vec![member(1), member(2)];
        Chain {
            id: CHAIN,
            version: 5,
            verifier: 1,
            copies: 2,
            members,
            leaving: None,
            pool: namespace::PoolId::DEFAULT,
        }
    }

    /// The step when these targets are there and have told this (version 0: nothing), and others are lost.
    fn step_among(all: &[u64], lines: &[Line<'_>], lost: &[u64]) -> Result<(Vec<u64>, u32), Vec<u64>> {
        let targets = |ids: &[u64]| ids.iter().copied().map(TargetId).collect::<Vec<_>>();
        let told = |(target, version, members_in, refilled): &Line<'_>| {
            let (version, members_in, refilled) = (*version, targets(members_in), targets(refilled));
            let record = (CHAIN, Record { version, members_in, refilled });
            (TargetId(*target), (1, Some(record).filter(|_| version > 0).into_iter().collect()))
        };
        let told: Told = lines.iter().map(told).collect();
        let all = targets(all);
        let present = Present {
            all: &all,
            is_lost: &|target| lost.contains(&target.0),
            serves: &|target| target.0 < 10,
            answers: &|target| target.0 < 20,
        };
        match step_of(&backup(), &told, &present) {
            Ok(ChainStep::Adopt(members, version)) => {
                Ok((members.into_iter().flatten().map(|target| target.0).collect(), version))
            }
            Ok(other) => panic!("{other:?}"),
            Err(waits) => Err(waits.into_iter().map(|target| target.0).collect()),
        }
    }

    fn step(lines: &[Line<'_>], lost: &[u64]) -> Result<(Vec<u64>, u32), Vec<u64>> {
        let all: Vec<u64> = lines.iter().map(|(target, ..)| *target).collect();
        step_among(&all, lines, lost)
    }

    #[test]
    fn what_the_backup_says_counts_when_no_target_knows_more() {
        let (one, two): (Line<'_>, Line<'_>) = ((1, 5, &[1, 2], &[]), (2, 5, &[1, 2], &[]));
        assert_eq!(step_among(&[1, 2], &[], &[]), Err(vec![1, 2]));
        assert_eq!(step(&[one], &[]), Err(vec![2]), "it may know more");
        assert_eq!(step(&[one, two], &[]), Ok((vec![1, 2], 5)));
        assert_eq!(
            step(&[(1, 3, &[1], &[2]), (2, 4, &[1, 2], &[])], &[]),
            Ok((vec![1, 2], 5)),
            "old records"
        );
        assert_eq!(step(&[(1, 0, &[], &[]), two], &[]), Err(vec![1]), "its file is gone");
        assert_eq!(step(&[(1, 0, &[], &[]), (2, 0, &[], &[])], &[]), Ok((vec![1, 2], 5)), "just made");
        assert_eq!(step_among(&[1, 2, 3], &[(1, 0, &[], &[]), (2, 0, &[], &[])], &[]), Err(vec![1, 2]));
    }

    #[test]
    fn what_a_lost_target_knew_is_looked_for_at_all_others() {
        let one: Line<'_> = (1, 5, &[1, 2], &[]);
        assert_eq!(step_among(&[1, 3], &[one], &[2]), Err(vec![3]));
        assert_eq!(step_among(&[1, 3], &[one, (3, 0, &[], &[])], &[2]), Ok((vec![1], 5)));
        assert_eq!(step(&[one, (3, 7, &[3], &[])], &[2]), Ok((vec![3], 7)));
        assert_eq!(step(&[one, (2, 5, &[1, 2], &[])], &[2]), Ok((vec![1], 5)), "it is lost since");
        assert_eq!(step(&[], &[1, 2]), Err(vec![1, 2]), "the files are lost");
    }

    #[test]
    fn records_lead_to_the_members_that_were_in_last() {
        // 2 was cut off; then 3 took its place, then 4 that of 1.
        let (cut_off, dropped): (Line<'_>, Line<'_>) = ((2, 5, &[1, 2], &[]), (1, 8, &[3, 4], &[]));
        assert_eq!(step(&[cut_off], &[]), Err(vec![1]));
        assert_eq!(step(&[cut_off, (1, 7, &[1, 3], &[4])], &[]), Err(vec![3, 4]), "4 may have gone on alone");
        assert_eq!(step(&[cut_off, dropped], &[]), Err(vec![3, 4]));
        assert_eq!(step(&[cut_off, dropped, (3, 7, &[1, 3], &[4])], &[]), Err(vec![4]));
        assert_eq!(step(&[cut_off, dropped, (3, 9, &[3], &[])], &[]), Ok((vec![3], 9)), "4 left after that");
        let last: [Line<'_>; 3] = [dropped, (3, 7, &[1, 3], &[4]), (4, 8, &[3, 4], &[])];
        assert_eq!(step(&last, &[]), Ok((vec![3, 4], 8)));
    }

    #[test]
    fn a_target_that_serves_comes_first() {
        // 11 is read-only, 21 has gone away since it told.
        let (read_only, serves): (Line<'_>, Line<'_>) = ((11, 7, &[11, 3], &[]), (3, 7, &[11, 3], &[]));
        assert_eq!(step(&[read_only, serves], &[]), Ok((vec![3, 11], 7)));
        assert_eq!(step(&[(21, 7, &[21, 11], &[]), (11, 7, &[21, 11], &[])], &[]), Ok((vec![11, 21], 7)));
        assert_eq!(step(&[(21, 7, &[21], &[])], &[]), Err(vec![21]), "it alone has the data");
    }

    #[test]
    fn one_that_was_to_be_refilled_and_never_heard_of_it_was_not_in() {
        assert_eq!(step(&[(1, 6, &[1], &[3])], &[]), Err(vec![3]));
        assert_eq!(step(&[(1, 6, &[1], &[3]), (3, 0, &[], &[])], &[]), Ok((vec![1], 6)));
    }

    #[test]
    fn records_of_one_version_add_up() {
        let (told_again, first): (Line<'_>, Line<'_>) = ((3, 6, &[2], &[]), (2, 6, &[1, 2], &[3]));
        assert_eq!(step(&[told_again], &[]), Err(vec![2]));
        assert_eq!(step(&[told_again, first], &[]), Err(vec![1]));
        assert_eq!(step(&[told_again, first, (1, 7, &[1], &[])], &[]), Ok((vec![1], 7)));
    }
}
