//! Reads beside writes.

use crate::{Away, In, World, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_read_waits_for_the_write_of_its_range() {
    let mut world = World::of(3).await;
    world.make(0, 5).await.unwrap();
    world.write(0, 5, 0, &b"abcdef"[..]).await.unwrap();
    world.nodes[2].kill();
    let write = world.begin_write(0, 5, 0, &b"ABC"[..]);
    until("the middle has written", || world.bytes_at(1, 5).unwrap() == b"ABCdef").await;
    for node in 0..2 {
        assert_eq!(world.read(node, 5, 3, 3).await.unwrap(), &b"def"[..], "another range");
    }
    let world = std::sync::Arc::new(tokio::sync::Mutex::new(world));
    let peers = {
        let world = world.lock().await;
        [0, 1].map(|node| (world.peer(node), world.at(node, 5)))
    };
    let reads = peers.map(|(peer, handle)| {
        tokio::spawn(async move {
            let args = wire::data::read::Args { handle, offset: 0, count: 4 };
            let read: wire::data::read::Res =
                crate::call(&peer, wire::data::Procedure::Read, &args).await.unwrap();
            read.unwrap().payload.to_bytes()
        })
    });
    let mut world = world.lock().await;
    until("both wait", || (0..2).all(|node| world.nodes[node].ds.chain_metrics().waiting.get() == 1)).await;
    assert!(reads.iter().all(|read| !read.is_finished()));
    world.change(&[In, In, Away]);
    for read in reads {
        assert_eq!(read.await.unwrap(), &b"ABCd"[..]);
    }
    write.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_that_was_told_is_not_told_again_after_a_write_at_another_head() {
    let mut world = World::of(2).await;
    world.make(0, 5).await.unwrap();
    world.write(0, 5, 0, &b"abc"[..]).await.unwrap();
    // The clock of the first is an hour ahead.
    let ahead = std::time::SystemTime::now() + std::time::Duration::from_secs(3600);
    let path = world.dirs[0].path().join("target/objects/05/00000001.0000000000000005.00000001.00000000");
    std::fs::File::options().write(true).open(path).unwrap().set_modified(ahead).unwrap();
    let told = world.stat(1, world.at(1, 5)).await.unwrap();
    assert_eq!(told.len, 3);
    assert_eq!(world.stat(0, world.at(0, 5)).await.unwrap(), told);
    world.change(&[Away, In]);
    world.nodes[0].kill();
    assert_eq!(world.stat(1, world.at(1, 5)).await.unwrap().modified_ns, told.modified_ns);
    world.write(1, 5, 0, &b"A"[..]).await.unwrap();
    assert!(world.stat(1, world.at(1, 5)).await.unwrap().modified_ns > told.modified_ns);
}
