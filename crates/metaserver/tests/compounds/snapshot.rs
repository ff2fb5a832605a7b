//! What a metaserver keeps in memory, when its store was replaced by another member's.

use metaserver::upcalls;
use namespace::{Command, Proposal, SessionId, Stamp};
use replica::Observer;
use wire::nfs4::{ArgOp, Status};

use crate::raw::Client;
use crate::world::World;

#[tokio::test]
async fn after_a_snapshot_what_ended_elsewhere_is_known_here() {
    let world = World::start().await;
    let (observer, follower) = upcalls();
    world.metaserver.follow_others(follower);
    let mut client = Client::mount(&world, "a").await;
    client.ok(vec![ArgOp::PutRootFh]).await;
    // As commands do that this member was not told of one by one.
    let session = SessionId(client.session.0);
    let command = Command::DestroySession { session };
    world.replica.propose(Proposal::new(Stamp::default(), None, command)).await.unwrap();
    assert_eq!(client.status(vec![ArgOp::PutRootFh]).await, Status::Ok, "it is still served here");
    observer.replaced();
    let asked = std::time::Instant::now();
    while client.status(vec![ArgOp::PutRootFh]).await != Status::BadSession {
        assert!(asked.elapsed() < crate::world::PATIENCE, "the session is never forgotten");
    }
}
