use std::future::Future;
use std::sync::Arc;

use openraft::{LogId, Membership, StoredMembership};

use super::*;
use crate::types::Member;

fn leader(term: u64) -> LeaderId {
    LeaderId { term, node_id: 1 }
}

/// Grants of member 1 of these voters, with a configuration at index 5 and entries committed up to
/// `applied`. Member 1 leads in term 2, and all have answered.
async fn led(voters: &[u64], applied: u64) -> Arc<ReadLeaseGrants> {
    let grants = Arc::new(ReadLeaseGrants::new(1, true));
    let at = |index| LogId { leader_id: leader(1), index };
    let nodes: BTreeMap<u64, Member> = [1, 2, 3].map(|id| (id, Member::default())).into();
    let members = Membership::new(vec![voters.iter().copied().collect()], nodes).unwrap();
    let mut metrics = openraft::RaftMetrics::new_initial(1);
    metrics.membership_config = Arc::new(StoredMembership::new(Some(at(5)), members));
    metrics.last_applied = Some(at(applied));
    let (_, receiver) = watch::channel(metrics);
    grants.follow_metrics(receiver);
    grants.note_leadership(leader(2));
    grants.note_matched(leader(2), 2, 6);
    grants.note_matched(leader(2), 3, 6);
    grants
}

/// Duration of a wait; zero if it returns at once.
async fn time_of(waited: impl Future<Output = ()>) -> Duration {
    let began = Instant::now();
    waited.await;
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_change_waits_for_whoever_holds_a_lease_and_for_nobody_else() {
    let grants = led(&[1, 2, 3], 5).await;
    assert_eq!(time_of(grants.wait_for_holders(leader(2), 2, 7)).await, Duration::ZERO, "no member reads");
    assert!(grants.grant(3));
    let waits = tokio::spawn({
        let grants = Arc::clone(&grants);
        async move { time_of(grants.wait_for_holders(leader(2), 2, 7)).await }
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    grants.note_matched(leader(2), 3, 6);
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!waits.is_finished(), "member 3 has not got it");
    grants.note_matched(leader(2), 3, 7);
    assert_eq!(waits.await.unwrap(), Duration::from_millis(40));
}

#[tokio::test(start_paused = true)]
async fn who_dies_with_a_lease_holds_changes_up_until_it_ends_and_is_given_none_for_a_while() {
    let grants = led(&[1, 2, 3], 5).await;
    assert!(grants.grant(3));
    assert_eq!(time_of(grants.wait_for_holders(leader(2), 2, 7)).await, READ_LEASE_AT_LEADER);
    assert!(!grants.grant(3), "it was slow");
    assert!(grants.grant(2));
    tokio::time::sleep(SLOW_HOLDER_FOR).await;
    assert!(grants.grant(3));
}

#[tokio::test(start_paused = true)]
async fn who_was_away_is_given_none_before_entries_come_through_to_it() {
    let grants = led(&[1, 2, 3], 5).await;
    grants.note_reached(3, false);
    assert!(!grants.grant(3) && grants.grant(2));
    assert_eq!(
        time_of(grants.wait_for_holders(leader(2), 2, 7)).await,
        Duration::ZERO,
        "nobody waits for it"
    );
    grants.note_reached(3, true);
    assert!(grants.grant(3));
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_waits_for_all_whom_the_old_one_may_have_given_leases() {
    let grants = led(&[1, 2, 3], 5).await;
    grants.note_leadership(leader(4));
    grants.note_leadership(leader(2));
    grants.note_matched(leader(4), 2, 7);
    assert_eq!(
        time_of(grants.wait_for_holders(leader(4), 2, 7)).await,
        READ_LEASE_AT_LEADER,
        "member 3 may hold one"
    );
    grants.note_leadership(leader(5));
    grants.note_matched(leader(5), 2, 7);
    grants.note_matched(leader(5), 3, 0);
    assert_eq!(
        time_of(grants.wait_for_holders(leader(5), 2, 7)).await,
        Duration::ZERO,
        "it has heard of the new leader"
    );
}

#[tokio::test(start_paused = true)]
async fn no_lease_where_one_may_commit_alone_or_members_are_about_to_change() {
    assert!(!led(&[1], 5).await.grant(2), "the only voter waits for no other");
    assert!(!led(&[1, 2, 3], 4).await.grant(2), "the members are not committed");
    let grants = led(&[1, 2, 3], 5).await;
    assert!(!grants.grant(9), "a stranger");
    assert!(grants.grant(2));
    let began = Instant::now();
    let paused = grants.pause().await;
    assert_eq!(began.elapsed(), READ_LEASE_AT_LEADER, "until the one that was given has ended");
    assert!(!grants.grant(2) && !grants.grant(1));
    drop(paused);
    assert!(grants.grant(2) && grants.grant(1));
}

#[tokio::test(start_paused = true)]
async fn a_lease_counts_from_when_it_was_asked_for_and_until_another_leader_is_heard_of() {
    let lease = ReadLease { leader: leader(2), from: 7 };
    let held = HeldReadLease::new(lease, Instant::now());
    assert_eq!(held.valid_from(Some(leader(2))), Some(7));
    assert_eq!(held.valid_from(Some(leader(3))), None);
    assert_eq!(held.valid_from(Some(LeaderId { term: 2, node_id: 3 })), None, "another one of the same term");
    tokio::time::sleep(READ_LEASE * 2 / 3).await;
    assert!(held.is_old() && held.valid_from(Some(leader(2))).is_some());
    tokio::time::sleep(READ_LEASE / 3).await;
    assert_eq!(held.valid_from(Some(leader(2))), None);
}
