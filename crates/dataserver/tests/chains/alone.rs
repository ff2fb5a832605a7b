//! Objects that were made without copies get a chain of their target alone, and the chain gets other members.

use bytes::Bytes;
use wire::data::{Procedure, Status, commit, make, stat, write};
use wire::handle::{Holder, ObjectHandle};

use crate::{Away, In, Refilling, World, call, key};

impl World {
    /// The object as one without copies.
    fn alone(&self, inode: u64, epoch: u32) -> ObjectHandle {
        let object = self.object(0, inode);
        ObjectHandle { chain: object.target, epoch, ..object }
    }

    async fn make_alone(&self, inode: u64, data: &'static [u8]) {
        let handle = self.alone(inode, 3).seal(&key());
        let made: make::Res =
            call(&self.peer(0), Procedure::Make, &make::Args { handles: vec![handle.clone()] })
                .await
                .unwrap();
        made.unwrap();
        self.write_by(handle, data).await.unwrap();
    }

    async fn write_by(&self, handle: Bytes, data: &'static [u8]) -> write::Res {
        let args = write::Args {
            handle,
            offset: 0,
            stable: false,
            sums: vec![],
            data: Bytes::from_static(data).into(),
        };
        call(&self.peer(0), Procedure::Write, &args).await.unwrap()
    }

    /// The chain has the first data server alone.
    fn first_alone(&mut self) {
        self.order = vec![0];
        self.change(&[In, Away]);
    }

    /// The second one becomes a member, and gets all data.
    async fn add_second(&mut self) {
        self.order = vec![0, 1];
        self.change(&[In, Refilling]);
        self.refills(0);
        crate::until("the member is refilled", || self.nodes[0].ds.refilled().len() == 1).await;
        self.change(&[In, In]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_gets_its_chain_by_the_first_call_that_names_it_and_then_copies() {
    let mut world = World::of(2).await;
    world.first_alone();
    for inode in 5..=8 {
        world.make_alone(inode, b"before").await;
    }
    // As metaservers, and as a client; 8 stays alone.
    let of_chain = |world: &World, inode, epoch| world.of_epoch(0, inode, epoch);
    let told: stat::ObjectStat = world.stat(0, of_chain(&world, 5, 4)).await.unwrap();
    assert_eq!(told.len, 6, "what was not synced is there");
    world.write_by(of_chain(&world, 6, 4), b"after!").await.unwrap();
    assert_eq!(world.read_by(0, world.of_client(0, 7), 0, 100).await.unwrap(), &b"before"[..]);
    for inode in 5..=7 {
        for epoch in [3, 4, 9] {
            let handle = world.alone(inode, epoch).seal(&key());
            assert_eq!(world.write_by(handle.clone(), b"late").await, Err(Status::StaleEpoch), "{inode}");
            assert_eq!(world.read_by(0, handle.clone(), 0, 100).await, Err(Status::StaleEpoch), "{inode}");
            let committed: commit::Res =
                call(&world.peer(0), Procedure::Commit, &commit::Args { handle }).await.unwrap();
            assert_eq!(committed, Err(Status::StaleEpoch), "{inode}");
        }
        let of_client = world.alone(inode, 4).seal_for(Holder::Writer, &key());
        assert!(world.write_by(of_client, b"late").await.is_err(), "{inode}");
    }
    world.write_by(world.alone(8, 3).seal(&key()), b"alone!").await.unwrap();

    world.add_second().await;
    for (inode, bytes) in [(5, b"before"), (6, b"after!"), (7, b"before")] {
        assert_eq!(world.equal(inode).unwrap(), bytes);
        assert_eq!(world.read(1, inode, 0, 9).await, Err(Status::StaleEpoch), "its epoch is there, too");
    }
    assert_eq!((world.bytes_at(0, 8).unwrap(), world.bytes_at(1, 8)), (b"alone!".to_vec(), None));
    assert_eq!(world.read_by(0, world.alone(8, 3).seal(&key()), 0, 100).await.unwrap(), &b"alone!"[..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_knows_its_chain_after_a_crash() {
    let mut world = World::of(2).await;
    world.first_alone();
    world.make_alone(5, b"before").await;
    world.commit(0, world.alone(5, 3).seal(&key())).await.unwrap();
    world.stat(0, world.of_epoch(0, 5, 4)).await.unwrap();
    world.restart(0).await;
    world.first_alone();
    let late = world.alone(5, 4).seal(&key());
    assert_eq!(world.write_by(late, b"late").await, Err(Status::StaleEpoch));
    assert_eq!(world.read_by(0, world.of_epoch(0, 5, 4), 0, 100).await.unwrap(), &b"before"[..]);
    world.add_second().await;
    assert_eq!(world.equal(5).unwrap(), b"before");
}
