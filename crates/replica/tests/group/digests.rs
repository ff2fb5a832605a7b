//! Members whose state differs from the others' find out, and stop.

use namespace::{
    Command, Create, DeviceId, Error, Exists, Expect, FileLayout, InodeId, NewAttributes, NewNode, Proposal,
    Reply, Stamp, StripeUnit, read,
};
use replica::{Replica, ReplicaConfig, ReplicaError};
use store::{Durability, Edit, Store};

use crate::{Group, LIMIT, Wire, made, member};

/// Table of names (docs/disk-format.md).
const NAMES: u8 = 0x02;

/// A name in the root directory, as a key of the store.
fn name_key(name: &str) -> Vec<u8> {
    [&[NAMES][..], &InodeId::ROOT.0.to_be_bytes(), name.as_bytes()].concat()
}

/// Changes a member's store as a failing disk does.
fn spoil(group: &Group, id: u64, mut how: impl FnMut(&mut dyn Edit)) {
    let mut spoil = |edit: &mut dyn Edit| {
        how(edit);
        Ok(())
    };
    group.stores[&id].batch(Durability::Immediate, &mut spoil).unwrap();
}

async fn remove(replica: &Replica, name: &str) {
    let command = Command::Remove { dir: InodeId::ROOT, name: name.into(), expect: Expect::Anything };
    let proposal = Proposal::new(Stamp::default(), None, command);
    assert!(matches!(replica.propose(proposal).await, Ok(Reply::Removed { .. })));
}

async fn why(replica: &Replica) -> String {
    tokio::time::timeout(LIMIT, replica.failed()).await.expect("it finds out")
}

/// Reason that a member does not start again.
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
    // A flipped bit in a key: one name is gone, and another exists.
    spoil(&group, 3, |edit| {
        let value = edit.get(&name_key("d7")).unwrap().unwrap();
        edit.delete(&name_key("d7")).unwrap();
        edit.put(&name_key("d6x"), &value).unwrap();
    });
    remove(&group.member(2), "d7").await;
    let odd = group.member(3);
    let why = why(&odd).await;
    assert!(why.contains("differs from that of mds") && why.contains("a majority"), "{why}");
    assert!(odd.is_out_of_service());
    assert!(!group.member(1).is_out_of_service() && !group.member(2).is_out_of_service());
    made(&group.member(1), "later").await;

    group.stop(3, false).await;
    let ReplicaError::Damaged { why, others } = reopened(&group, 3).await else { panic!("it starts") };
    assert!(why.contains("differs from that of mds"), "{why}");
    assert_eq!(others.len(), 2);
}

/// OPEN with creation, as a client sends it. `random`: the random bits of the metaserver that was asked.
async fn create(replica: &Replica, name: &str, random: u64) -> Result<Reply, ReplicaError> {
    let layout = FileLayout { device: DeviceId(1), first: 0, unit: StripeUnit::DEFAULT, columns: 1 };
    let attributes = NewAttributes { mode: 0o644, uid: 0, gid: 0, accessed: None, modified: None };
    let (dir, name, node) = (InodeId::ROOT, name.into(), NewNode::File(layout));
    let command = Command::Create(Create { dir, name, node, attributes, exists: Exists::Take });
    let stamp = Stamp { random, ..Stamp::default() };
    replica.propose(Proposal::new(stamp, None, command)).await
}

/// Write to the inode that a client found by a look-up at this member.
async fn write(replica: &Replica, name: &str, data: &'static str) -> Result<Reply, ReplicaError> {
    let inode = named(replica, name).expect("it is there");
    let command = Command::WriteInline { inode, offset: 0, data: data.into() };
    replica.propose(Proposal::new(Stamp::default(), None, command)).await
}

fn named(replica: &Replica, name: &str) -> Option<InodeId> {
    read::lookup(&*replica.view().unwrap(), InodeId::ROOT, name.as_bytes()).unwrap()
}

/// A member loses a name; a client creates files and writes through it. Returns the reply to the write; None:
/// the member found the damage before, within a second.
async fn written_through_an_odd_member() -> Option<Reply> {
    let group = Group::of(3).await;
    let leader = group.leader().await;
    let (sound, odd) = (group.member(leader), group.member(1 + leader % 3));
    create(&sound, "f", 11).await.unwrap();
    odd.barrier().await.unwrap();
    // One bit of a key: 'f' becomes 'g'.
    spoil(&group, 1 + leader % 3, |edit| {
        let value = edit.get(&name_key("f")).unwrap().unwrap();
        edit.delete(&name_key("f")).unwrap();
        edit.put(&name_key("g"), &value).unwrap();
    });
    // The others have 'f', this member creates it: from now on its inodes have other numbers.
    create(&odd, "f", 12).await.ok()?;
    create(&odd, "mine", 13).await.ok()?;
    create(&sound, "other", 14).await.unwrap();
    write(&sound, "other", "sound").await.unwrap();
    odd.barrier().await.ok()?;
    assert_eq!(named(&odd, "mine"), named(&sound, "other"), "one number, two files");

    let answered = write(&odd, "mine", "wrong").await;
    let other = named(&sound, "other").unwrap();
    let data = read::inline_data(&*sound.view().unwrap(), other).unwrap();
    assert_eq!(&data[..], b"sound", "what another client wrote is there");
    assert!(why(&odd).await.contains("differs from that of mds"), "the odd one finds out");
    answered.ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_through_a_member_that_lost_a_name_does_not_land_in_another_file() {
    const TRIES_MAX: usize = 10; // members compare digests once a second, which costs a few tries at most
    for _ in 0..TRIES_MAX {
        if let Some(reply) = written_through_an_odd_member().await {
            assert_eq!(reply, Reply::Refused(Error::Stale));
            return;
        }
    }
    panic!("the odd member always found out first");
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
    assert!(odd.is_out_of_service(), "before anybody can be told");
    assert!(why(&odd).await.contains("the disk is damaged"));
    group.stop(2, false).await;
    assert!(matches!(reopened(&group, 2).await, ReplicaError::Damaged { .. }));
}

/// A record that is gone has no checksum that could be wrong.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_the_disk_lost_is_found_though_nobody_reads_it() {
    let mut group = Group::of(3).await;
    for name in ["d", "e"] {
        made(&group.member(1), name).await;
    }
    group.member(3).barrier().await.unwrap();
    spoil(&group, 3, |edit| edit.delete(&name_key("e")).unwrap());
    let why = why(&group.member(3)).await;
    assert!(why.contains("the digest of a scrub differs"), "{why}");
    assert!(group.member(3).is_out_of_service() && !group.member(1).is_out_of_service());
    group.stop(3, false).await;
    assert!(matches!(reopened(&group, 3).await, ReplicaError::Damaged { .. }));
}

/// The state may be right: it is kept, and its clients go to a member that can read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_whose_disk_cannot_be_read_stops_at_the_first_read() {
    let group = Group::of(3).await;
    made(&group.member(1), "d").await;
    let odd = group.member(2);
    odd.barrier().await.unwrap();
    group.stores[&2].fail();
    assert!(read::lookup(&*odd.view().unwrap(), InodeId::ROOT, b"d").is_err());
    assert!(odd.is_out_of_service(), "before a client is told");
    assert!(why(&odd).await.contains("EIO"));
    assert!(!group.dir.path().join("2/log/distrusted").exists(), "it is not said to be wrong");
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
    let why = tokio::time::timeout(LIMIT, other.wait_out_of_service()).await.expect("it finds out");
    assert!(why.contains("no majority says which is right"), "{why}");
    assert!(other.is_out_of_service() && !group.member(leader).is_out_of_service());
    // It still votes.
    made(&group.member(leader), "later").await;
}
