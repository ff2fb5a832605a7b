//! Three metaservers in this process, over one name space; what goes to one of them can be held up.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use cluster::Rules;
use host::{ManualClock, watch};
use metaserver::upcalls;
use namespace::Stamp;
use parking_lot::Mutex;
use replica::{CallFuture, Channel, Member, MemberRole, Replica, ReplicaConfig, Transport, Unreachable};
use store::MemoryStore;
use tokio::sync::{mpsc, oneshot};

use crate::world::{PATIENCE, World, register_at};

/// Who can be reached, and whose entries are held.
struct Wires {
    members: Mutex<BTreeMap<String, Replica>>,
    held: watch::Sender<BTreeSet<String>>,
    /// What goes to one member over one channel arrives in the order in which it was sent.
    lines: Mutex<HashMap<(String, Channel), mpsc::UnboundedSender<Carrying>>>,
}

/// On its way: a message, and who waits for the answer.
type Carrying = (Bytes, oneshot::Sender<Result<Bytes, Unreachable>>);

impl Wires {
    fn line(self: &Arc<Self>, to: &str, channel: Channel) -> mpsc::UnboundedSender<Carrying> {
        let mut lines = self.lines.lock();
        let line = lines.entry((to.to_owned(), channel)).or_insert_with(|| {
            let (send, receive) = mpsc::unbounded_channel();
            tokio::spawn(Arc::clone(self).carry(to.to_owned(), channel, receive));
            send
        });
        line.clone()
    }

    async fn carry(
        self: Arc<Self>,
        to: String,
        channel: Channel,
        mut line: mpsc::UnboundedReceiver<Carrying>,
    ) {
        while let Some((body, answer)) = line.recv().await {
            if channel == Channel::Entries {
                let mut held = self.held.subscribe();
                let _ = held.wait_for(|held| !held.contains(&to)).await;
            }
            let called = self.members.lock().get(&to).cloned();
            let to = to.clone();
            let mut served = Box::pin(async move {
                let outcome = match called {
                    Some(replica) => replica.serve(&body).await.map_err(Unreachable::NoAnswer),
                    None => Err(Unreachable::NotSent(format!("{to} is not there"))),
                };
                let _ = answer.send(outcome);
            });
            // As a connection does: it is begun with before the next is looked at.
            if !poll_fn(|cx| Poll::Ready(served.as_mut().poll(cx).is_ready())).await {
                tokio::spawn(served);
            }
        }
    }
}

struct Wire(Arc<Wires>);

impl Transport for Wire {
    fn call(&self, to: &Member, channel: Channel, body: Bytes, limit: Duration) -> CallFuture {
        let (answer, answered) = oneshot::channel();
        let gone = |_| Unreachable::NoAnswer("the other end is gone".into());
        let sent = self.0.line(&to.address, channel).send((body, answer)).map_err(|_| gone(()));
        Box::pin(async move {
            sent?;
            match tokio::time::timeout(limit, answered).await {
                Ok(outcome) => outcome.map_err(|_| gone(()))?,
                Err(_) => Err(Unreachable::NoAnswer("no answer in time".into())),
            }
        })
    }
}

/// The three.
pub struct Three {
    pub worlds: Vec<World>,
    pub clock: Arc<ManualClock>,
    wires: Arc<Wires>,
}

impl Three {
    pub async fn start(rules: Rules) -> Self {
        let wires = Arc::new(Wires {
            members: Mutex::default(),
            held: watch::Sender::default(),
            lines: Mutex::default(),
        });
        let clock = Arc::new(ManualClock::default());
        let mut worlds = vec![];
        for id in 1..=3 {
            let dir = tempfile::tempdir().expect("a folder");
            let (path, wire) = (dir.path().to_owned(), Arc::new(Wire(Arc::clone(&wires))));
            let (observer, follower) = upcalls();
            let open = move || {
                let member = member(id);
                let config = ReplicaConfig {
                    dir: path,
                    reserve_bytes: 0,
                    id,
                    member,
                    founds: id == 1,
                    read_leases: true,
                };
                let stamp = Stamp { random: 0x1234_5678_9abc_def0 + id, ..Stamp::default() };
                Replica::open(config, Arc::new(MemoryStore::new()), stamp, wire, observer)
            };
            let replica = tokio::task::spawn_blocking(open).await.expect("runs").expect("a replica");
            wires.members.lock().insert(member(id).address, replica.clone());
            if id > 1 {
                replica
                    .join(&member(1).address, member(id), MemberRole::Voter, PATIENCE)
                    .await
                    .expect("is taken in");
            }
            replica.ready().await.expect("is ready");
            let world = World::over(replica, dir, Arc::clone(&clock), rules).await;
            world.metaserver.follow_others(follower);
            worlds.push(world);
        }
        // One data server, whoever is asked: what another metaserver registers replaces what this one knew.
        for world in &worlds {
            register_at(&world.server, &worlds[0].data.address()).await;
        }
        Self { worlds, clock, wires }
    }

    /// Who leads, and who does not.
    pub fn leader_and_follower(&self) -> (usize, usize) {
        let leader = self.worlds.iter().position(|world| world.replica.leads()).expect("somebody leads");
        (leader, (leader + 1) % 3)
    }

    /// What others do from now on does not come to metaserver `n`.
    pub fn hold(&self, n: usize) {
        self.wires.held.set_if(|held| held.insert(member(n as u64 + 1).address));
    }

    pub fn let_go(&self) {
        self.wires.held.set(BTreeSet::new());
    }
}

fn member(id: u64) -> Member {
    Member { name: format!("mds{id}"), address: format!("10.0.0.{id}:2052"), serves: String::new() }
}
