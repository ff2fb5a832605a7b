//! Group of three members in one process: any member takes commands, the loss of one is tolerated, and a
//! returning or new member receives the state of the others.

#[path = "group/digests.rs"]
mod digests;
#[path = "group/disk.rs"]
mod disk;
#[path = "group/members.rs"]
mod members;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use namespace::{
    Command, Create, DeviceId, Exists, FileLayout, InodeId, NewAttributes, NewNode, Proposal, Reply, Stamp,
    StripeUnit, XattrExists, read,
};
use parking_lot::Mutex;
use replica::{CallFuture, Channel, Member, MemberRole, Replica, ReplicaConfig, Transport, Unreachable};
use store::Store;

use crate::disk::Disk;

/// Longest time of a step; a test that needs more hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// Largest call: the longest record of our RPC.
const CALL_BYTES_MAX: usize = (1 << 20) + (64 << 10);

/// Reachable members and broken links.
#[derive(Default)]
struct Wires {
    members: Mutex<BTreeMap<String, Replica>>,
    cut: Mutex<BTreeSet<String>>,
    /// One forwarded command in this many loses its answer; 0: none.
    lose_every: AtomicU64,
    passed_on: AtomicU64,
}

impl Wires {
    fn loses_answer(&self, channel: Channel) -> bool {
        let every = self.lose_every.load(Ordering::Relaxed);
        channel == Channel::Requests
            && every > 0
            && self.passed_on.fetch_add(1, Ordering::Relaxed).is_multiple_of(every)
    }
}

/// One member's transport.
struct Wire {
    from: String,
    wires: Arc<Wires>,
}

impl Transport for Wire {
    fn call(&self, to: &Member, channel: Channel, body: Bytes, limit: Duration) -> CallFuture {
        let (from, to, wires) = (self.from.clone(), to.address.clone(), Arc::clone(&self.wires));
        let answer = async move {
            let lost = || {
                let cut = wires.cut.lock();
                cut.contains(&from) || cut.contains(&to)
            };
            let called = wires.members.lock().get(&to).cloned();
            let Some(replica) = called.filter(|_| !lost()) else {
                return Err(Unreachable::NotSent(format!("{to} is not there")));
            };
            if body.len() > CALL_BYTES_MAX {
                return Err(Unreachable::NoAnswer("too long a record: the connection ended".into()));
            }
            let answer = replica.serve(&body).await;
            answer.map_err(Unreachable::NoAnswer).and_then(|answer| {
                match lost() || wires.loses_answer(channel) {
                    true => Err(Unreachable::NoAnswer("the answer is lost".into())),
                    false => Ok(answer),
                }
            })
        };
        // The call is sent when it is made, as on a wire.
        let task = tokio::spawn(tokio::time::timeout(limit, answer));
        Box::pin(async move {
            let outcome = task.await.map_err(|e| Unreachable::NoAnswer(e.to_string()))?;
            outcome.unwrap_or_else(|_| Err(Unreachable::NoAnswer("no answer in time".into())))
        })
    }
}

/// Group, with its directories and stores.
struct Group {
    wires: Arc<Wires>,
    dir: tempfile::TempDir,
    stores: BTreeMap<u64, Arc<Disk>>,
}

impl Group {
    /// Group of one member.
    async fn found() -> Self {
        let mut group =
            Self { wires: Arc::default(), dir: tempfile::tempdir().unwrap(), stores: BTreeMap::new() };
        group.start(1, true).await;
        group
    }

    /// Group of `count` members.
    async fn of(count: u64) -> Self {
        let mut group = Self::found().await;
        for id in 2..=count {
            // Also through a member that does not lead.
            group.add(id, id - 1).await;
        }
        group
    }

    async fn start(&mut self, id: u64, founds: bool) -> Replica {
        self.start_as(id, member(id), founds).await
    }

    async fn start_as(&mut self, id: u64, member: Member, founds: bool) -> Replica {
        let store = Arc::clone(self.stores.entry(id).or_default());
        let dir: PathBuf = self.dir.path().join(id.to_string());
        let address = member.address.clone();
        let wire = Arc::new(Wire { from: address.clone(), wires: Arc::clone(&self.wires) });
        let open = move || {
            let config = ReplicaConfig { dir, reserve_bytes: 0, id, member, founds, read_leases: true };
            Replica::open(config, store, Stamp::default(), wire, Arc::new(()))
        };
        let replica = tokio::task::spawn_blocking(open).await.unwrap().unwrap();
        self.wires.members.lock().insert(address, replica.clone());
        replica
    }

    /// Adds a member, which asks member `by`.
    async fn add(&mut self, id: u64, by: u64) -> Replica {
        let replica = self.start(id, false).await;
        replica.join(&member(by).address, member(id), MemberRole::Voter, LIMIT).await.unwrap();
        replica.ready().await.unwrap();
        replica
    }

    fn member(&self, id: u64) -> Replica {
        self.wires.members.lock()[&member(id).address].clone()
    }

    /// Stops a member, with its store in memory if `store_too`.
    async fn stop(&mut self, id: u64, store_too: bool) {
        let replica = self.wires.members.lock().remove(&member(id).address).unwrap();
        tokio::task::spawn_blocking(|| replica.stop()).await.unwrap();
        if store_too {
            self.stores.remove(&id);
        }
    }

    fn cut(&self, id: u64) {
        self.wires.cut.lock().insert(member(id).address);
    }

    fn mend(&self) {
        self.wires.cut.lock().clear();
    }

    async fn leader(&self) -> u64 {
        let asked = tokio::time::Instant::now();
        loop {
            let all: Vec<Replica> = self.wires.members.lock().values().cloned().collect();
            let cut = self.wires.cut.lock().clone();
            let leaders = all.iter().filter(|r| r.leads()).map(|r| r.status().id);
            if let Some(id) = leaders.rev().find(|id| !cut.contains(&member(*id).address)) {
                return id;
            }
            assert!(asked.elapsed() < LIMIT, "nobody leads");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn end(mut self) {
        let ids: Vec<u64> = self.stores.keys().copied().collect();
        for id in &ids {
            tokio::time::timeout(LIMIT, self.member(*id).barrier()).await.expect("in time").unwrap();
        }
        for id in ids.iter().rev() {
            self.stop(*id, false).await;
        }
        let contents: Vec<_> = ids.iter().map(|id| contents(&*self.stores[id])).collect();
        assert!(contents.windows(2).all(|pair| pair[0] == pair[1]), "the stores differ");
    }
}

fn member(id: u64) -> Member {
    Member {
        name: format!("mds{id}"),
        address: format!("10.0.0.{id}:2052"),
        serves: format!("10.0.0.{id}:2049"),
    }
}

/// All pairs except the records of consensus: members stop one after the other.
fn contents(store: &dyn Store) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all = vec![];
    let mut visit = |key: &[u8], value: &[u8]| {
        all.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    };
    store.snapshot().unwrap().scan(&[], &[0xff], &mut visit).unwrap();
    all
}

fn mkdir(name: &str) -> Proposal {
    let attributes = NewAttributes { mode: 0o755, uid: 0, gid: 0, accessed: None, modified: None };
    let command = Command::Create(Create {
        dir: InodeId::ROOT,
        name: name.into(),
        node: NewNode::Directory,
        attributes,
        exists: Exists::Refuse,
    });
    Proposal::new(Stamp::default(), None, command)
}

async fn made(replica: &Replica, name: &str) {
    let reply = tokio::time::timeout(LIMIT, replica.propose(mkdir(name))).await.expect("in time").unwrap();
    assert!(matches!(reply, Reply::Created { existed: false, .. }), "{name}: {reply:?}");
}

fn has(replica: &Replica, name: &str) -> bool {
    let view = replica.view().unwrap();
    read::lookup(&*view, InodeId::ROOT, name.as_bytes()).unwrap().is_some()
}

async fn reads(replica: &Replica, name: &str) -> bool {
    tokio::time::timeout(LIMIT, replica.barrier()).await.expect("in time").unwrap();
    has(replica, name)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_any_member_made_all_members_read() {
    let group = Group::of(3).await;
    let status = group.member(3).status();
    assert_eq!(status.members.iter().filter(|(_, _, voter)| *voter).count(), 3);
    for n in 0..50 {
        let (at, elsewhere) = (1 + n % 3, 1 + (n + 1) % 3);
        made(&group.member(at), &format!("d{n}")).await;
        assert!(has(&group.member(at), &format!("d{n}")), "where it was made it is seen at once");
        assert!(
            reads(&group.member(elsewhere), &format!("d{n}")).await,
            "d{n} made at {at}, read at {elsewhere}"
        );
    }
    group.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_whose_answer_is_lost_on_the_way_is_done_once() {
    let mut group = Group::of(3).await;
    let leader = group.leader().await;
    let other = 1 + leader % 3;
    group.wires.lose_every.store(3, Ordering::Relaxed);
    for n in 0..30 {
        made(&group.member(other), &format!("d{n}")).await;
    }
    // The next process of the member, whose first commands must not be taken for those of the old one.
    group.stop(other, false).await;
    let back = group.start(other, false).await;
    for n in 30..60 {
        made(&back, &format!("d{n}")).await;
    }
    assert!(group.wires.passed_on.load(Ordering::Relaxed) > 80, "every third was made again");
    drop(back);
    group.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_whose_leader_is_lost_goes_on_and_has_it_back_later() {
    let mut group = Group::of(3).await;
    for round in 0..3 {
        let leader = group.leader().await;
        let other = 1 + leader % 3;
        made(&group.member(other), &format!("before{round}")).await;
        group.stop(leader, round == 1).await;
        made(&group.member(other), &format!("without{round}")).await;
        assert!(reads(&group.member(other), &format!("before{round}")).await);
        let back = group.start(leader, false).await;
        tokio::time::timeout(LIMIT, back.ready()).await.expect("in time").unwrap();
        assert!(has(&back, &format!("without{round}")), "it has caught up");
        made(&back, &format!("after{round}")).await;
    }
    group.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_cut_off_neither_changes_anything_nor_shows_what_is_old() {
    let group = Group::of(3).await;
    let old = group.leader().await;
    group.cut(old);
    let lonely = group.member(old);
    let in_vain = tokio::spawn(async move { lonely.propose(mkdir("lost")).await });
    let lonely = group.member(old);
    let old_read = tokio::spawn(async move { reads(&lonely, "new").await });
    let new = group.leader().await;
    made(&group.member(new), "new").await;
    assert!(!old_read.is_finished(), "nobody confirms that it leads");
    assert!(!has(&group.member(new), "lost"));
    group.mend();
    assert!(old_read.await.unwrap(), "it waited for what it may show");
    // Another leader may have taken it up; it was proposed again, and applied once.
    let outcome = in_vain.await.unwrap();
    assert!(matches!(outcome, Ok(Reply::Created { existed: false, .. })), "{outcome:?}");
    group.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_missed_many_large_commands_gets_them_in_calls_that_are_not_too_long() {
    let mut group = Group::of(3).await;
    let away = 1 + group.leader().await % 3;
    group.stop(away, false).await;
    let leader = group.member(group.leader().await);
    for n in 0..40 {
        let command = Command::SetXattr {
            inode: InodeId::ROOT,
            name: b"large".to_vec(),
            value: vec![n; 60 << 10],
            exists: XattrExists::Either,
        };
        leader.propose(Proposal::new(Stamp::default(), None, command)).await.unwrap();
    }
    drop(leader);
    let back = group.start(away, false).await;
    tokio::time::timeout(LIMIT, back.ready()).await.expect("in time").unwrap();
    let value = read::xattr(&*back.view().unwrap(), InodeId::ROOT, b"large").unwrap();
    assert_eq!(value.unwrap()[0], 39);
    group.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_members_stopped_at_once_have_everything_when_they_are_back() {
    let mut group = Group::of(3).await;
    for n in 0..20 {
        made(&group.member(1 + n % 3), &format!("d{n}")).await;
    }
    for id in 1..=3 {
        group.stop(id, true).await;
    }
    for id in 1..=3 {
        group.start(id, false).await;
    }
    for id in 1..=3 {
        let replica = group.member(id);
        tokio::time::timeout(LIMIT, replica.ready()).await.expect("in time").unwrap();
        let missing: Vec<_> = (0..20).filter(|n| !has(&replica, &format!("d{n}"))).collect();
        assert_eq!(
            missing,
            Vec::<u64>::new(),
            "{id}: {:?}; the stores were lost whole; the logs have everything",
            replica.status()
        );
    }
    group.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_whose_entries_are_gone_from_the_log_is_sent_a_snapshot_while_commands_go_on() {
    let mut group = Group::of(2).await;
    let leader = group.member(group.leader().await);
    // Far more than stays in the log.
    let data = Bytes::from(vec![7; 60 << 10]);
    let layout = FileLayout { device: DeviceId(1), first: 0, unit: StripeUnit::DEFAULT, columns: 1 };
    let writes = (0..1600).map(|n| {
        let (replica, data) = (leader.clone(), data.clone());
        async move {
            let mut proposal = mkdir(&format!("f{n}"));
            if let Command::Create(create) = &mut proposal.command {
                create.node = NewNode::File(layout);
            }
            let Ok(Reply::Created { inode, .. }) = replica.propose(proposal).await else { panic!("f{n}") };
            let command = Command::WriteInline { inode: inode.id, offset: 0, data };
            replica.propose(Proposal::new(Stamp::default(), None, command)).await.unwrap();
        }
    });
    for write in writes {
        write.await;
    }
    let purged = tokio::time::Instant::now();
    while Path::new(&group.dir.path().join("1/log/00000000000000000000.log")).exists() {
        assert!(purged.elapsed() < LIMIT, "the log is given up from its beginning");
        made(&leader, &format!("p{}", purged.elapsed().as_millis())).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let busy = tokio::spawn({
        let leader = leader.clone();
        async move {
            for n in 0..200 {
                made(&leader, &format!("meanwhile{n}")).await;
            }
        }
    });
    let third = group.add(3, 1).await;
    busy.await.unwrap();
    assert!(reads(&third, "meanwhile199").await && has(&third, "f1599"));
    drop(leader);
    group.end().await;
}
