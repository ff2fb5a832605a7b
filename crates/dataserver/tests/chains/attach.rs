//! Objects that begin as another one, at all members of a chain.

use std::path::PathBuf;

use wire::data::{ObjectEntry, Procedure, Status, attach};

use crate::{Away, In, Refilling, World, call, until};

const MIB: usize = 1 << 20;

/// Bytes that differ from place to place; never zero.
fn text(bytes: usize, seed: u64) -> Vec<u8> {
    (0..bytes as u64).map(|n| (n / 251 + n * 7 + 31 * seed) as u8 | 1).collect()
}

impl World {
    async fn attach(&self, node: usize, inode: u64, base: u64) -> attach::Res {
        let base = ObjectEntry { volume: 1, inode: base, generation: 1, column: 0 };
        let args = attach::Args { handle: self.at(node, inode), base };
        call(&self.peer(node), Procedure::Attach, &args).await.unwrap()
    }

    /// A chain whose object 6 is attached to object 5, which has these bytes.
    async fn with_attached(count: usize, bytes: &[u8]) -> Self {
        let world = Self::of(count).await;
        world.make(0, 5).await.unwrap();
        world.fill(5, bytes).await;
        world.commit(0, world.at(0, 5)).await.unwrap();
        world.make(0, 6).await.unwrap();
        world.attach(count - 1, 6, 5).await.unwrap();
        world
    }

    fn map(&self, node: usize, inode: u64) -> PathBuf {
        let mut path = self.file(node, inode).into_os_string();
        path.push(".regions");
        path.into()
    }

    /// All bytes of the object, by this member.
    async fn whole(&self, node: usize, inode: u64) -> Vec<u8> {
        let mut all = vec![];
        loop {
            let read = self.read(node, inode, all.len() as u64, 1 << 20).await.unwrap();
            if read.is_empty() {
                return all;
            }
            all.extend(read);
        }
    }

    /// All members show these bytes of the object.
    async fn show(&self, inode: u64, bytes: &[u8]) {
        for node in 0..self.nodes.len() {
            assert!(self.whole(node, inode).await == bytes, "object {inode} of member {node}");
        }
    }

    /// Waits until all members have filled the object, whose base is gone for good, and compares their files.
    async fn is_filled(&self, inode: u64, bytes: &[u8]) {
        for (node, served) in self.nodes.iter().enumerate() {
            std::fs::remove_dir_all(self.dirs[node].path().join("target/trash")).unwrap();
            served.runtime.as_ref().unwrap().spawn(std::sync::Arc::clone(&served.ds).care_for_targets());
            until("the object is filled", || !self.map(node, inode).exists()).await;
        }
        assert!(self.equal(inode).unwrap() == bytes);
    }
}

fn put(bytes: &mut [u8], offset: usize, new: &[u8]) {
    bytes[offset..offset + new.len()].copy_from_slice(new);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_begins_as_another_one_at_all_members() {
    let base = text(3 * MIB + 700, 1);
    let world = World::with_attached(3, &base).await;
    world.show(6, &base).await;
    assert!((0..3).all(|node| world.map(node, 6).exists()));
    let mut own = base.clone();
    put(&mut own, MIB - 50, &text(100, 2));
    world.write(1, 6, MIB as u64 - 50, text(100, 2)).await.unwrap();
    world.commit(0, world.at(0, 6)).await.unwrap();
    world.show(6, &own).await;
    world.show(5, &base).await;
    // The base goes with its snapshot.
    world.remove(0, 5).await.unwrap();
    world.is_filled(6, &own).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_was_away_gets_all_of_an_attached_object_and_one_that_is_refilled_attaches_none() {
    let base = text(2 * MIB + 9, 1);
    let mut world = World::with_attached(3, &base).await;
    world.make(0, 7).await.unwrap();
    world.change(&[In, In, Away]);
    world.attach(0, 7, 5).await.unwrap();
    world.write(0, 6, 5, &b"meanwhile"[..]).await.unwrap();
    world.make(0, 8).await.unwrap();
    world.change(&[In, In, Refilling]);
    // Its base may have other bytes there.
    assert_eq!(world.attach(1, 8, 5).await, Err(Status::NotSupported));
    assert_eq!(world.whole(0, 8).await, b"");
    world.refills(0);
    until("the member is refilled", || !world.nodes[0].ds.refilled().is_empty()).await;
    world.change(&[In, In, In]);
    let mut own = base.clone();
    put(&mut own, 5, b"meanwhile");
    world.attach(1, 8, 5).await.unwrap();
    world.show(6, &own).await;
    world.show(7, &base).await;
    world.show(8, &base).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn members_that_are_killed_show_the_same_again() {
    let base = text(3 * MIB, 1);
    let mut world = World::with_attached(2, &base).await;
    let mut own = base.clone();
    put(&mut own, 2 * MIB + 7, &text(3000, 2));
    world.write(0, 6, 2 * MIB as u64 + 7, text(3000, 2)).await.unwrap();
    world.commit(0, world.at(0, 6)).await.unwrap();
    world.write(0, 6, 7, text(3000, 3)).await.unwrap(); // not committed
    world.restart(1).await;
    world.change(&[In, Away]);
    world.change(&[In, Refilling]);
    world.refills(0);
    until("the member is refilled", || !world.nodes[0].ds.refilled().is_empty()).await;
    world.change(&[In, In]);
    put(&mut own, 7, &text(3000, 3));
    world.show(6, &own).await;
    world.show(5, &base).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_block_of_a_base_is_mended_in_the_object_by_another_member() {
    let base = text(2 * MIB, 1);
    let world = World::with_attached(2, &base).await;
    world.nodes[0].ds.settle(&|| false);
    world.flip(0, 5, MIB + 70_000);
    world.show(6, &base).await;
    world.show(5, &base).await;
    assert!(world.equal(5).unwrap() == base, "it was mended, too");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_with_a_damaged_map_has_lost_the_object_and_gets_it_again() {
    let base = text(2 * MIB, 1);
    let mut world = World::with_attached(2, &base).await;
    world.write(0, 6, 3, &b"own"[..]).await.unwrap();
    world.nodes[1].kill();
    std::fs::write(world.map(1, 6), [0; 600]).unwrap();
    world.restart(1).await;
    world.change(&[In, Away]);
    world.change(&[In, Refilling]);
    world.refills(0);
    until("the member is refilled", || !world.nodes[0].ds.refilled().is_empty()).await;
    world.change(&[In, In]);
    let mut own = base.clone();
    put(&mut own, 3, b"own");
    world.show(6, &own).await;
}
