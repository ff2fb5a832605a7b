//! Members whose state is not that of the others find out, and stop.

use namespace::{Command, Expect, InodeId, Proposal, Reply, Stamp};
use replica::{Replica, ReplicaConfig, ReplicaError};
use store::{Durability, Edit, Store};

use crate::{Group, LIMIT, Wire, made, member};

/// The table of names (docs/disk-format.md).
const NAMES: u8 = 0x02;

/// A name in the root directory, as a key of the store.
fn name_key(name: &str) -> Vec<u8> {
    [&[NAMES][..], &InodeId::ROOT.0.to_be_bytes(), name.as_bytes()].concat()
}

/// Does what a failing disk does: changes a member's store behind its back.
fn spoil(group: &Group, id: u64, mut how: impl FnMut(&mut dyn Edit)) {
    let mut spoil = |edit: &mut dyn Edit| {
        how(edit);
        Ok(())
    };
    group.stores[&id].batch(Durability::Immediate, &mut spoil).unwrap();
}

async fn remove(replica: &Replica, name: &str) {
    let command = Command::Remove { dir: InodeId::ROOT, name: name.into(), expect: Expect::Anything };
    let proposal = Proposal { stamp: Stamp::default(), origin: None, command };
    assert!(matches!(replica.propose(proposal).await, Ok(Reply::Removed { .. })));
}

async fn why(replica: &Replica) -> String {
    tokio::time::timeout(LIMIT, replica.failed()).await.expect("it finds out")
}

/// Why it does not start again.
async fn reopened(group: &Group, id: u64) -> ReplicaError {
    let (store, dir) = (group.stores[&id].clone(), group.dir.path().join(id.to_string()));
    let wire = std::sync::Arc::new(Wire { from: member(id).address, wires: group.wires.clone() });
    let open = move || {
        let config =
            ReplicaConfig { dir, reserve_bytes: 0, id, member: member(id), founds: false, read_leases: true };
        Replica::open(config, store, Stamp::default(), wire, std::sync::Arc::new(()))
    };
    tokio::task::spawn_blocking(open).await.unwrap().err().expect("it does not start")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_three_whose_state_differs_stops_and_is_to_fill_itself_again() {
    let mut group = Group::of(3).await;
    for n in 0..20 {
        made(&group.member(1), &format!("d{n}")).await;
    }
    group.member(3).barrier().await.unwrap();
    // A flipped bit in a key: the name is gone, and another one is there.
    spoil(&group, 3, |edit| {
        let value = edit.get(&name_key("d7")).unwrap().unwrap();
        edit.delete(&name_key("d7")).unwrap();
        edit.put(&name_key("d6x"), &value).unwrap();
    });
    remove(&group.member(2), "d7").await;
    let odd = group.member(3);
    let why = why(&odd).await;
    assert!(why.contains("differs from that of mds") && why.contains("a majority"), "{why}");
    assert!(odd.serves_not());
    assert!(!group.member(1).serves_not() && !group.member(2).serves_not());
    made(&group.member(1), "later").await;

    group.stop(3, false).await;
    let ReplicaError::Damaged { why, others } = reopened(&group, 3).await else { panic!("it starts") };
    assert!(why.contains("differs from that of mds"), "{why}");
    assert_eq!(others.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_is_damaged_is_never_told_and_the_member_is_to_fill_itself_again() {
    let mut group = Group::of(3).await;
    made(&group.member(1), "d").await;
    group.member(2).barrier().await.unwrap();
    spoil(&group, 2, |edit| {
        let mut value = edit.get(&name_key("d")).unwrap().unwrap();
        *value.last_mut().unwrap() ^= 4;
        edit.put(&name_key("d"), &value).unwrap();
    });
    let odd = group.member(2);
    assert!(namespace::read::lookup(&*odd.view().unwrap(), InodeId::ROOT, b"d").is_err());
    assert!(odd.serves_not(), "before anybody can be told");
    assert!(why(&odd).await.contains("the disk is damaged"));
    group.stop(2, false).await;
    assert!(matches!(reopened(&group, 2).await, ReplicaError::Damaged { .. }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_that_differ_the_one_that_leads_goes_on_and_the_other_serves_nobody() {
    let group = Group::of(2).await;
    made(&group.member(1), "d").await;
    for id in 1..=2 {
        group.member(id).barrier().await.unwrap();
    }
    let leader = group.leader().await;
    let other = group.member(3 - leader);
    spoil(&group, leader, |edit| edit.delete(&name_key("d")).unwrap());
    made(&group.member(leader), "d").await;
    let why = tokio::time::timeout(LIMIT, other.doubted()).await.expect("it finds out");
    assert!(why.contains("no majority says which is right"), "{why}");
    assert!(other.serves_not() && !group.member(leader).serves_not());
    // It goes on voting.
    made(&group.member(leader), "later").await;
}
