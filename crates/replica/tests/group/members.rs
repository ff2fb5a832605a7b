//! Members join, change and leave while commands are carried out.

use std::sync::atomic::{AtomicBool, Ordering};

use replica::MemberChange;

use super::*;

/// Makes directories through these members in turn until `stop`; returns their number.
fn busy(replicas: Vec<Replica>, stop: Arc<AtomicBool>) -> tokio::task::JoinHandle<usize> {
    tokio::spawn(async move {
        let mut count = 0;
        while !stop.load(Ordering::Relaxed) {
            made_surely(&replicas[count % replicas.len()], &format!("busy{count}")).await;
            count += 1;
        }
        count
    })
}

/// These commands have no request id: one whose leader was lost may have been applied.
async fn made_surely(replica: &Replica, name: &str) {
    let outcome = tokio::time::timeout(LIMIT, replica.propose(mkdir(name))).await.expect("in time");
    match outcome {
        Ok(Reply::Created { .. }) => {}
        Err(replica::ReplicaError::Unknown) if reads(replica, name).await => {}
        Err(replica::ReplicaError::Unknown) => made(replica, name).await,
        other => panic!("{name}: {other:?}"),
    }
}

fn votes(replica: &Replica) -> Vec<u64> {
    let members = replica.status().members;
    members.into_iter().filter(|(.., voter)| *voter).map(|(id, ..)| id).collect()
}

async fn until(what: &str, done: impl Fn() -> bool) {
    let asked = tokio::time::Instant::now();
    while !done() {
        assert!(asked.elapsed() < LIMIT, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_member_is_removed_and_another_taken_in_under_load_and_nothing_is_lost() {
    let mut group = Group::of(3).await;
    let leader = group.leader().await;
    let (gone, stays) = (1 + leader % 3, 1 + (leader + 1) % 3);
    let stop = Arc::new(AtomicBool::new(false));
    let work = busy(vec![group.member(leader), group.member(stays)], Arc::clone(&stop));
    let removed = group.member(gone);
    group.member(stays).change_members(MemberChange::Remove(gone), false).await.unwrap();
    let why = tokio::time::timeout(LIMIT, removed.failed()).await.expect("it is told");
    assert!(removed.is_removed() && why.contains("removed"), "{why}");
    assert!(removed.propose(mkdir("too late")).await.is_err());
    drop(removed);
    group.stop(gone, true).await;
    group.add(4, stays).await;
    assert_eq!(votes(&group.member(4)), {
        let mut all = [leader, stays, 4];
        all.sort_unstable();
        all
    });
    stop.store(true, Ordering::Relaxed);
    let count = work.await.unwrap();
    assert!(count > 10, "{count} commands");
    let new = group.member(4);
    assert!(reads(&new, &format!("busy{}", count - 1)).await);
    assert_eq!((0..count).filter(|n| !has(&new, &format!("busy{n}"))).count(), 0);
    drop(new);
    group.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_removed_hands_over_first_and_stops() {
    let mut group = Group::of(3).await;
    let leader = group.leader().await;
    let others = vec![group.member(1 + leader % 3), group.member(1 + (leader + 1) % 3)];
    let stop = Arc::new(AtomicBool::new(false));
    let work = busy(others.clone(), Arc::clone(&stop));
    let old = group.member(leader);
    old.change_members(MemberChange::Remove(leader), false).await.unwrap();
    tokio::time::timeout(LIMIT, old.failed()).await.expect("it is told");
    assert!(old.is_removed());
    drop(old);
    group.stop(leader, true).await;
    stop.store(true, Ordering::Relaxed);
    let count = work.await.unwrap();
    assert!(reads(&others[0], &format!("busy{}", count - 1)).await);
    assert_eq!((0..count).filter(|n| !has(&others[0], &format!("busy{n}"))).count(), 0, "of {count}");
    assert_eq!(votes(&others[0]).len(), 2);
    drop(others);
    group.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_member_has_what_others_acknowledged_and_knows_that_there_were_others() {
    let mut group = Group::of(2).await;
    let leader = group.leader().await;
    let (old, last) = (group.member(leader), group.member(3 - leader));
    assert!(!last.is_alone());
    for n in 0..20 {
        made_surely(&old, &format!("d{n}")).await;
    }
    old.change_members(MemberChange::Remove(leader), false).await.unwrap();
    until("the other is alone", || last.is_alone()).await;
    assert!(reads(&last, "d19").await);
    assert_eq!((0..20).filter(|n| !has(&last, &format!("d{n}"))).count(), 0);
    assert!(!last.has_always_been_alone(), "clients have used the other");
    tokio::time::timeout(LIMIT, old.failed()).await.expect("it is told");
    drop((old, last));
    group.stop(leader, true).await;
    group.end().await;
    let alone = Group::of(1).await;
    assert!(alone.member(1).has_always_been_alone());
    alone.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_was_away_when_it_was_removed_is_told_when_it_is_back_and_disturbs_nobody() {
    let mut group = Group::of(3).await;
    let leader = group.leader().await;
    let (away, stays) = (1 + leader % 3, 1 + (leader + 1) % 3);
    group.stop(away, false).await;
    until("it is known to be gone", || {
        !group.member(leader).status().reachable.contains(&away) // otherwise the test proves nothing
    })
    .await;
    group.member(stays).change_members(MemberChange::Remove(away), false).await.unwrap();
    let term = group.member(stays).status().term;
    let back = group.start(away, false).await;
    let ready = tokio::time::timeout(LIMIT, back.ready()).await.expect("it finds out");
    assert!(ready.is_err() && back.is_removed(), "{ready:?}");
    made(&group.member(stays), "undisturbed").await;
    assert_eq!(group.member(stays).status().term, term, "no election");
    drop(back);
    group.stop(away, true).await;
    group.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_would_leave_too_few_living_voters_is_refused_and_says_how_many_live() {
    let mut group = Group::of(3).await;
    let leader = group.leader().await;
    let (dead, lives) = (1 + leader % 3, 1 + (leader + 1) % 3);
    group.stop(dead, false).await;
    let asked = group.member(lives);
    until("its death is noticed", || !group.member(leader).status().reachable.contains(&dead)).await;
    for change in [MemberChange::Remove(lives), MemberChange::Demote(lives)] {
        let why = asked.change_members(change, false).await.unwrap_err();
        assert!(why.contains("2 with a vote, of which 1 can be reached now and 2 are needed"), "{why}");
    }
    assert_eq!(votes(&asked).len(), 3);
    asked.change_members(MemberChange::Remove(dead), false).await.unwrap();
    let why = asked.change_members(MemberChange::Remove(dead), false).await.unwrap_err();
    assert!(why.contains("no member"), "{why}");
    made(&asked, "goes on").await;
    drop(asked);
    group.stores.remove(&dead);
    group.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_learner_serves_reads_and_is_not_waited_for_until_it_is_promoted() {
    let mut group = Group::of(3).await;
    let learner = group.start(4, false).await;
    learner.join(&member(2).address, member(4), MemberRole::Learner, LIMIT).await.unwrap();
    learner.announce(member(4), MemberRole::Learner).await.unwrap();
    learner.ready().await.unwrap();
    made(&group.member(2), "elsewhere").await;
    assert!(reads(&learner, "elsewhere").await);
    made(&learner, "by the learner").await;
    assert_eq!(votes(&learner), [1, 2, 3]);
    group.cut(4);
    made(&group.member(2), "without it").await;
    group.mend();
    learner.change_members(MemberChange::Promote(4), false).await.unwrap();
    until("it has a vote", || votes(&group.member(1)) == [1, 2, 3, 4]).await;
    group.member(1).change_members(MemberChange::Demote(4), false).await.unwrap();
    until("it has none", || votes(&group.member(1)) == [1, 2, 3]).await;
    assert!(reads(&learner, "without it").await);
    drop(learner);
    group.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leadership_goes_to_a_living_voter_or_to_the_one_that_was_named() {
    let mut group = Group::of(3).await;
    // Each named leader in turn, through a member that need not lead.
    for id in [2, 3, 1] {
        // On a busy machine an election for want of heartbeats may follow at once.
        for _ in 0..3 {
            group.member(1 + id % 3).change_members(MemberChange::Lead(id), false).await.unwrap();
            // Alone: the one before may not have heard of it yet.
            let alone = || [1, 2, 3].iter().all(|at| group.member(*at).leads() == (*at == id));
            let leads = until("the named one leads", alone);
            if tokio::time::timeout(LIMIT / 4, leads).await.is_ok() {
                break;
            }
        }
        assert_eq!(group.leader().await, id);
    }
    let (dead, heir) = (2, 3);
    group.stop(dead, false).await;
    let why = group.member(3).change_members(MemberChange::Lead(dead), false).await.unwrap_err();
    assert!(why.contains("mds2 cannot be reached"), "{why}");
    let old = group.member(1);
    let term = old.status().term;
    old.transfer_leadership(LIMIT).await;
    assert_eq!(group.leader().await, heir);
    assert_eq!(group.member(heir).status().term, term + 1, "by one election");
    made(&old, "goes on").await;
    drop(old);
    group.start(dead, false).await.ready().await.unwrap();
    group.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_said_to_lead_while_too_few_voters_can_be_reached() {
    let mut group = Group::of(3).await;
    let leader = group.leader().await;
    let (cut, follower) = (1 + leader % 3, 1 + (leader + 1) % 3);
    let named = |group: &Group, at: u64| group.member(at).status().leader;
    until("all know", || [leader, cut, follower].iter().all(|at| named(&group, *at) == Some(leader))).await;
    group.cut(cut);
    until("it hears of nobody", || named(&group, cut).is_none()).await;
    assert_eq!((named(&group, leader), named(&group, follower)), (Some(leader), Some(leader)));
    // An isolated leader does not know that it leads no other member; its status must not show it as the
    // leader.
    group.cut(follower);
    until("nobody answers it", || named(&group, leader).is_none()).await;
    assert!(group.member(leader).leads());
    group.mend();
    until("somebody leads", || {
        let all = [leader, cut, follower].map(|at| named(&group, at));
        all[0].is_some() && all.iter().all(|named| *named == all[0])
    })
    .await;
    let leader = group.leader().await;
    let others = [1 + leader % 3, 1 + (leader + 1) % 3];
    group.stop(leader, false).await;
    group.stop(others[0], false).await;
    until("it is off", || named(&group, others[1]).is_none()).await;
    for id in [leader, others[0]] {
        group.start(id, false).await;
    }
    group.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_joins_is_not_kept_by_a_dead_leader_that_a_follower_names() {
    let mut group = Group::of(3).await;
    let dead = group.leader().await;
    let follower = 1 + dead % 3;
    group.stop(dead, false).await;
    let asked = tokio::time::Instant::now();
    group.add(4, follower).await;
    assert!(asked.elapsed() < LIMIT / 2, "{:?}", asked.elapsed());
    group.start(dead, false).await.ready().await.unwrap();
    group.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_an_address_and_an_id_belong_to_one_member() {
    let mut group = Group::of(3).await;
    let named = Member { name: "mds2".into(), ..member(4) };
    let placed = Member { address: member(2).address, ..member(4) };
    let fourth = group.start(4, false).await;
    for (wrong, what) in [(named, "choose another name"), (placed, "choose another address")] {
        let why = fourth.join(&member(3).address, wrong, MemberRole::Voter, LIMIT).await.unwrap_err();
        let begins = "the group has a member \"mds2\" at 10.0.0.2:2052 already; ";
        assert!(why.starts_with(begins) && why.contains(what), "{why}");
    }
    assert_eq!(group.member(1).status().members.len(), 3, "nothing was done");
    fourth.join(&member(3).address, member(4), MemberRole::Voter, LIMIT).await.unwrap();
    fourth.ready().await.unwrap();
    let renamed = Member { name: "mds1".into(), ..member(4) };
    let why = fourth.announce(renamed, MemberRole::Voter).await.unwrap_err();
    assert!(why.contains("\"mds1\" at 10.0.0.1:2052 already"), "{why}");

    // Its directory is copied and started elsewhere while it runs.
    let moved = Member { address: "10.0.0.9:2052".into(), ..member(4) };
    let why = fourth.announce(moved, MemberRole::Voter).await.unwrap_err();
    assert!(why.starts_with("this member runs already, as \"mds4\" at 10.0.0.4:2052: "), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_moves_is_sent_what_it_lacks_where_it_is_now() {
    let mut group = Group::of(3).await;
    let leader = group.leader().await;
    let mover = 1 + leader % 3;
    group.stop(mover, false).await;
    made(&group.member(leader), "meanwhile").await;

    let moved = Member { address: format!("10.0.1.{mover}:2052"), ..member(mover) };
    let replica = group.start_as(mover, moved.clone(), false).await;
    let introduced = replica.announce(moved, MemberRole::Voter);
    tokio::time::timeout(LIMIT, introduced).await.expect("it is told that it is known").unwrap();
    assert!(reads(&replica, "meanwhile").await);
    made(&group.member(leader), "after").await;
    assert!(reads(&replica, "after").await);
    made(&replica, "by it").await;
}

/// Several elections' time, for events that must not happen.
const ELECTIONS: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_member_at_the_address_of_a_lost_one_neither_votes_nor_answers_for_it() {
    let mut group = Group::of(3).await;
    let leader = group.leader().await;
    let (lost, behind) = (1 + leader % 3, 1 + (leader + 1) % 3);
    group.cut(behind);
    made(&group.member(leader), "acknowledged").await;
    // Its log is lost, and with it one of two copies of an acknowledged entry.
    group.stop(lost, true).await;
    let new = group.start_as(9, member(lost), false).await;
    let goes_on = group.member(leader);
    let why = tokio::time::timeout(ELECTIONS, goes_on.failed()).await;
    assert!(why.is_err() && !goes_on.status().reachable.contains(&lost), "{why:?}");
    drop(goes_on);
    group.stop(leader, false).await;
    group.mend();
    tokio::time::sleep(ELECTIONS).await;
    assert!(!group.member(behind).leads(), "with whose vote?");

    group.start(leader, false).await;
    assert!(reads(&group.member(behind), "acknowledged").await);
    new.remove_lost(&member(behind).address, lost, LIMIT).await.unwrap();
    new.join(
        &member(behind).address,
        Member { name: "mds9".into(), ..member(lost) },
        MemberRole::Voter,
        LIMIT,
    )
    .await
    .unwrap();
    new.ready().await.unwrap();
    assert!(reads(&new, "acknowledged").await);
    let mut expected = [leader, behind, 9];
    expected.sort_unstable();
    assert_eq!(votes(&new), expected);
}
