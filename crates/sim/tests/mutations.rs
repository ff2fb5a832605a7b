//! Tests of the oracles: each seeded bug is found by its oracle.

use sim::{Bug, Scenario, run};

/// Seeds in which a bug must be found.
const SEEDS_MAX: u64 = 120;

/// First finding of one of these oracles, with this bug.
fn found(bug: Bug, oracles: &[&str]) -> String {
    found_in(bug, oracles, Scenario::from_seed)
}

/// The same among metaservers.
fn found_by_clients(bug: Bug, oracles: &[&str]) -> String {
    found_in(bug, oracles, Scenario::of_metaservers)
}

fn found_in(bug: Bug, oracles: &[&str], scenario: fn(u64) -> Scenario) -> String {
    let mut others = vec![];
    for seed in 1..=SEEDS_MAX {
        let outcome = run(&Scenario { bug: Some(bug), ..scenario(seed) });
        for finding in outcome.findings {
            if oracles.iter().any(|oracle| finding.starts_with(oracle)) {
                return format!("seed {seed}: {finding}");
            }
            others.push(finding);
        }
    }
    panic!("{bug:?} was not found by {oracles:?} in {SEEDS_MAX} seeds, but: {others:#?}");
}

#[test]
fn a_disk_that_does_not_sync_loses_what_was_acknowledged() {
    // By other entries in place of the lost ones, or by a log that lacks entries of the store.
    found(Bug::NothingSynced, &["replicas", "acknowledged", "members work"]);
}

#[test]
fn a_read_that_does_not_ask_the_leader_sees_what_was_before() {
    found(Bug::StaleReads, &["linearizable"]);
}

#[test]
fn a_slot_that_forgets_has_a_change_made_twice() {
    found(Bug::SlotsForget, &["exactly once"]);
}

#[test]
fn a_lock_that_is_not_seen_is_given_to_two() {
    found(Bug::LocksForget, &["locks"]);
}

#[test]
fn a_member_that_loses_a_part_of_a_change_differs() {
    found(Bug::MemberDiffers, &["replicas"]);
}

#[test]
fn a_member_that_differs_is_found_by_the_members_themselves() {
    found(Bug::MemberDiffers, &["members work: member 2: the state after entry"]);
}

#[test]
fn a_restored_store_that_is_not_in_the_log_is_missed_by_those_who_join() {
    found(Bug::RestoredStoreNotCovered, &["replicas"]);
}

#[test]
fn an_answer_before_the_change_was_ordered_is_an_acknowledgement_of_nothing() {
    found(Bug::AnsweredTooSoon, &["acknowledged"]);
}

#[test]
fn share_reservations_that_are_not_seen_are_both_held() {
    found_by_clients(Bug::SharesForget, &["tables"]);
    found_by_clients(Bug::SharesForget, &["conflicts"]);
}

#[test]
fn opens_in_memory_that_are_not_seen_are_lost_or_stand_beside_a_denial() {
    found_by_clients(Bug::BriefOpensForget, &["conflicts", "leases"]);
}

#[test]
fn a_delegation_that_is_not_seen_stands_beside_an_open_to_write() {
    found_by_clients(Bug::DelegationsForget, &["tables"]);
}

#[test]
fn a_write_delegation_that_is_not_seen_stands_beside_an_open_to_read() {
    found_by_clients(Bug::WriteDelegationsForget, &["tables"]);
}

#[test]
fn a_layout_that_is_not_seen_stands_beside_a_truncation() {
    found_by_clients(Bug::LayoutsForget, &["tables"]);
}

#[test]
fn a_lock_that_nobody_holds_is_denied_for_too_long() {
    found_by_clients(Bug::LocksDenied, &["lock waiters"]);
}

#[test]
fn what_is_never_revoked_is_waited_for_too_long() {
    found_by_clients(Bug::ClocksStand, &["recalls"]);
}

#[test]
fn a_lease_that_runs_out_too_soon_costs_a_good_client_its_state() {
    found_by_clients(Bug::ClocksRace, &["leases"]);
}

#[test]
fn objects_that_stay_are_found() {
    found_by_clients(Bug::ObjectsStay, &["objects"]);
}

#[test]
fn a_disk_of_a_data_server_that_does_not_sync_loses_records() {
    found_in(Bug::DataNotSynced, &["records"], Scenario::of_copies);
}
