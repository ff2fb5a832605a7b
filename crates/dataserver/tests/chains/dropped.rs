//! A member that is dropped, because another one has its place.

use std::time::Duration;

use wire::data::remove::Only;
use wire::data::{Procedure, Status, chain, remove};
use wire::handle::ObjectHandle;

use crate::{CHAIN, LEASE, MemberState, World, call, key};
use MemberState::{Away, In};

impl World {
    async fn stop(&self, node: usize, version: u32) -> chain::Res {
        let stop = chain::Stop { chain: CHAIN, version, target: self.nodes[node].target };
        let args = chain::Args { chains: vec![], stop: vec![stop] };
        call(&self.peer(node), Procedure::Chain, &args).await.unwrap()
    }

    /// Tells a data server, in an answer to its registration, that it is in no chain.
    pub fn drop_all(&self, node: usize) {
        let ds = &self.nodes[node].ds;
        ds.tell_all_chains(u64::from(self.version), &[]);
        ds.extend_lease(host::Clock::monotonic(&*self.nodes[node].clock), LEASE);
    }

    /// Removes the object at this member alone, if its target has left its chain.
    async fn remove_only(&self, node: usize, inode: u64, only: Only) -> (remove::Res, u64) {
        let object = self.object(node, inode);
        let alone = ObjectHandle { chain: object.target, ..object }.seal(&key());
        let args = remove::Args { handles: vec![alone], only };
        let removed: remove::Res = call(&self.peer(node), Procedure::Remove, &args).await.unwrap();
        (removed, self.nodes[node].ds.space()[0].objects)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_stops_before_it_is_dropped_and_serves_nothing_afterwards() {
    let mut world = World::of(2).await;
    world.make(0, 5).await.unwrap();
    world.write(0, 5, 0, &b"old"[..]).await.unwrap();
    assert_eq!(world.stop(0, 7).await, Err(Status::ChainWaits), "a version that it does not know");
    assert_eq!(world.stop(0, world.version).await, Ok(()));
    assert_eq!(world.read(0, 5, 0, 3).await, Err(Status::ChainWaits));
    // The other one is the last, and does not stop.
    world.change(&[Away, In]);
    assert_eq!(world.stop(1, world.version).await, Err(Status::ChainWaits));
    world.write(1, 5, 0, &b"new"[..]).await.unwrap();
    world.drop_all(0);
    assert_eq!(world.read(0, 5, 0, 3).await, Err(Status::StaleChain));
    assert_eq!(world.stop(0, world.version).await, Ok(()));
    // A late word of the version before takes nothing back.
    let before = world.chain(&[In, In]);
    world.nodes[0].ds.tell_chains(&[data_chain(before, 1)]);
    assert_eq!(world.read(0, 5, 0, 3).await, Err(Status::StaleChain));
}

fn data_chain(chain: wire::data::Chain, version: u32) -> wire::data::Chain {
    wire::data::Chain { version, ..chain }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_under_way_at_a_head_that_is_dropped_end() {
    let mut world = World::of(2).await;
    world.make(0, 5).await.unwrap();
    world.version += 1;
    // The other one is the head, and refuses the version before.
    world.tell(1, &[Away, In]);
    let write = world.write(0, 5, 0, &b"late"[..]);
    let dropped = async {
        let metrics = world.nodes[0].ds.chain_metrics();
        crate::until("it is refused", || metrics.forward_retries.get() > 2).await;
        world.drop_all(0);
    };
    let ended = tokio::time::timeout(Duration::from_secs(10), async { tokio::join!(write, dropped) }).await;
    let (written, ()) = ended.expect("the change ends");
    assert!(written.is_err(), "{written:?}");
    assert_eq!(world.nodes[0].ds.chain_metrics().waiting.get(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_a_target_has_left_behind_is_removed() {
    let mut world = World::of(2).await;
    world.make(0, 5).await.unwrap();
    world.write(0, 5, 0, &b"data"[..]).await.unwrap();
    let is_member = (Err(Status::ChainWaits), 1);
    assert_eq!(world.remove_only(0, 5, Only::LeftChain).await, is_member, "as far as it has heard");
    assert_eq!(world.read(0, 5, 0, 4).await.unwrap(), &b"data"[..]);
    world.change(&[Away, In]);
    world.drop_all(0);
    // Not before a file says that the target has no data of the chain.
    let mut removed = is_member;
    for _ in 0..1000 {
        if removed != is_member {
            break;
        }
        removed = world.remove_only(0, 5, Only::LeftChain).await;
    }
    assert_eq!(removed, (Ok(()), 0));
    assert_eq!(world.read(1, 5, 0, 4).await.unwrap(), &b"data"[..]);
}
