//! Objects without copies that a target has left behind: their columns are elsewhere, as far as the orphan scan knows.
//! A column may be about to come, or to come back.

use bytes::Bytes;
use nfs::Peer;
use wire::data::remove::Only;
use wire::data::{Procedure, Status, remove};

use crate::data::{call, get, make, peer, put};
use crate::{Served, key, peer_key};

const INODE: u64 = 5;

/// The object, in calls of an epoch.
fn at(served: &Served, epoch: u32) -> Bytes {
    wire::handle::ObjectHandle { epoch, ..served.object(INODE) }.seal(&key())
}

/// What an orphan scan asks for that has seen the file with this epoch, and its column elsewhere. Returns the number of
/// objects that are left.
async fn scan(served: &Served, peer: &Peer, epoch: u32, only: Only) -> u64 {
    let args = remove::Args { handles: vec![at(served, epoch)], only };
    let removed: remove::Res = call(peer, Procedure::Remove, &args).await;
    removed.unwrap();
    served.ds.space()[0].objects
}

#[tokio::test]
async fn an_object_of_a_placement_that_the_scan_does_not_know_stays() {
    let served = Served::start().await;
    let peer = peer(&served, peer_key());
    make(&peer, &[at(&served, 4)]).await.unwrap();
    for epoch in [1, 3, 4] {
        assert_eq!(scan(&served, &peer, epoch, Only::LeftBehind).await, 1, "{epoch}");
    }
    assert_eq!(scan(&served, &peer, 5, Only::LeftChain).await, 1, "its file may be about to name it");
    put(&peer, &at(&served, 4), 0, true, b"data").await.unwrap();
    assert_eq!(scan(&served, &peer, 5, Only::LeftBehind).await, 0);
    assert_eq!(put(&peer, &at(&served, 4), 0, true, b"late").await, Err(Status::Stale));
}

#[tokio::test]
async fn a_column_comes_back_by_the_make_of_its_placement_alone() {
    let served = Served::start().await;
    let peer = peer(&served, peer_key());
    make(&peer, &[at(&served, 3)]).await.unwrap();
    put(&peer, &at(&served, 3), 0, true, b"of the first placement").await.unwrap();
    assert_eq!(scan(&served, &peer, 5, Only::LeftBehind).await, 0);
    assert_eq!(make(&peer, &[at(&served, 4)]).await, Err(Status::StaleEpoch), "it is late");
    make(&peer, &[at(&served, 5)]).await.unwrap();
    assert_eq!(get(&peer, &at(&served, 5), 0, 100).await, Ok((Bytes::new(), true)));
    put(&peer, &at(&served, 5), 0, true, b"second").await.unwrap();
    // The file is removed: it comes back no more.
    assert_eq!(crate::data::remove(&peer, &[at(&served, 5)]).await, Ok(()));
    assert_eq!(make(&peer, &[at(&served, 6)]).await, Err(Status::Stale));
}

#[tokio::test]
async fn a_later_placement_finds_an_empty_object_also_where_no_scan_has_passed() {
    let served = Served::start().await;
    let peer = peer(&served, peer_key());
    make(&peer, &[at(&served, 3)]).await.unwrap();
    put(&peer, &at(&served, 3), 0, true, b"of the first placement").await.unwrap();
    make(&peer, &[at(&served, 4)]).await.unwrap();
    assert_eq!(get(&peer, &at(&served, 4), 0, 100).await, Ok((Bytes::new(), true)));
    put(&peer, &at(&served, 4), 0, true, b"second").await.unwrap();
    // They come again.
    for epoch in [3, 4] {
        make(&peer, &[at(&served, epoch)]).await.unwrap();
    }
    assert_eq!(get(&peer, &at(&served, 4), 0, 100).await, Ok((Bytes::from_static(b"second"), true)));
}

/// The scan looks at the object before the MAKE, and removes it afterwards: not between the MAKE and its answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_make_that_is_answered_while_a_scan_passes_leaves_an_object() {
    let served = Served::start().await;
    let peer = peer(&served, peer_key());
    make(&peer, &[at(&served, 1)]).await.unwrap();
    for epoch in 2..400 {
        let new = [at(&served, epoch)];
        let comes = async {
            loop {
                match make(&peer, &new).await {
                    Err(Status::Delay) => {}
                    made => return made,
                }
            }
        };
        let (made, _) = tokio::join!(comes, scan(&served, &peer, epoch, Only::LeftBehind));
        assert_eq!(made, Ok(()), "{epoch}");
        put(&peer, &new[0], 0, false, b"data").await.unwrap_or_else(|status| panic!("{epoch}: {status:?}"));
    }
}
