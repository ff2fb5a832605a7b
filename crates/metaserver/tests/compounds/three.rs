//! Three metaservers in this process, over one name space; what goes to one of them can be held up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use host::ManualClock;
use metaserver::{Rules, upcalls};
use namespace::Stamp;
use replica::{Carried, Channel, Member, Part, Replica, ReplicaConfig, Transport, Unreachable};
use store::MemoryStore;
use tokio::sync::watch;

use crate::world::{PATIENCE, World};

/// Who can be reached, and whose entries are held.
struct Wires {
    members: Mutex<BTreeMap<String, Replica>>,
    held: watch::Sender<BTreeSet<String>>,
}

struct Wire(Arc<Wires>);

impl Transport for Wire {
    fn call(&self, to: &Member, channel: Channel, body: Bytes, limit: Duration) -> Carried {
        let (wires, to) = (Arc::clone(&self.0), to.address.clone());
        let answer = async move {
            if channel == Channel::Entries {
                let mut held = wires.held.subscribe();
                let _ = held.wait_for(|held| !held.contains(&to)).await;
            }
            let called = wires.members.lock().unwrap().get(&to).cloned();
            let Some(replica) = called else {
                return Err(Unreachable::NotSent(format!("{to} is not there")));
            };
            replica.serve(&body).await.map_err(Unreachable::NoAnswer)
        };
        let task = tokio::spawn(tokio::time::timeout(limit, answer));
        Box::pin(async move {
            let outcome = task.await.map_err(|e| Unreachable::NoAnswer(e.to_string()))?;
            outcome.unwrap_or_else(|_| Err(Unreachable::NoAnswer("no answer in time".into())))
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
        let wires = Arc::new(Wires { members: Mutex::default(), held: watch::Sender::default() });
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
            wires.members.lock().unwrap().insert(member(id).address, replica.clone());
            if id > 1 {
                replica
                    .join(&member(1).address, member(id), Part::Voter, PATIENCE)
                    .await
                    .expect("is taken in");
            }
            replica.ready().await.expect("is ready");
            let world = World::over(replica, dir, Arc::clone(&clock), rules).await;
            world.metaserver.follow_others(follower);
            worlds.push(world);
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
        self.wires.held.send_modify(|held| held.extend([member(n as u64 + 1).address]));
    }

    pub fn let_go(&self) {
        self.wires.held.send_modify(BTreeSet::clear);
    }
}

fn member(id: u64) -> Member {
    Member { name: format!("mds{id}"), address: format!("10.0.0.{id}:2052"), serves: String::new() }
}
