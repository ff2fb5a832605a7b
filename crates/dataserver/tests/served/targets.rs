//! Targets that go and come between two starts.

use std::sync::Arc;

use bytes::Bytes;
use dataserver::{Incarnation, Obeyed, TargetError};
use wire::data::{Status, TargetCondition};

use crate::data::{get, make, peer, put};
use crate::{INCARNATION, NAME_SPACE, Served, open, peer_key};

#[test]
fn a_target_that_is_gone_is_asked_for_and_not_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let (target, aside) = (dir.path().join("target"), dir.path().join("aside"));
    let start = |seed| open(dir.path(), &Arc::default(), &Arc::default(), seed);
    let id = |server: &dataserver::DataServer| server.space()[0].target;
    let first = id(&start(1).unwrap());

    // As when its disk is not mounted: nothing is there, or an empty directory.
    std::fs::rename(&target, &aside).unwrap();
    for mount_point_is_there in [false, true] {
        if mount_point_is_there {
            std::fs::create_dir(&target).unwrap();
        }
        let refused = start(2).err().expect("refused");
        assert!(matches!(refused, TargetError::Gone { id, .. } if id == first), "{refused}");
        assert!(refused.to_string().contains("is its disk mounted?"), "{refused}");
        assert_eq!(target.exists(), mount_point_is_there, "nothing was made in its place");
    }
    std::fs::remove_dir(&target).unwrap();
    std::fs::rename(&aside, &target).unwrap();
    assert_eq!(id(&start(3).unwrap()), first);

    // Who does not want it back takes its line away.
    std::fs::rename(&target, &aside).unwrap();
    let note = dir.path().join("server.targets");
    assert_eq!(std::fs::read_to_string(&note).unwrap(), format!("{first:016x} {}\n", target.display()));
    std::fs::write(&note, "").unwrap();
    assert_ne!(id(&start(4).unwrap()), first);
}

/// ```text
/// the disk is unmounted: another directory is at the path  -> what is held open is still right
/// the next heartbeat looks                                 -> missing: nothing is served, nothing is made below
/// ```
#[tokio::test]
async fn a_target_is_served_only_while_it_is_the_one_that_was_opened() {
    let served = Served::start().await;
    let peer = peer(&served, peer_key());
    let handle = served.made_for_calls(1).await;
    put(&peer, &handle, 0, true, b"kept").await.unwrap();
    let (target, away) = (served.dir.path().join("target"), served.dir.path().join("away"));
    std::fs::rename(&target, &away).unwrap();
    std::fs::create_dir(&target).unwrap();
    assert_eq!(get(&peer, &handle, 0, 9).await, Ok((Bytes::from_static(b"kept"), true)), "never zeros");

    assert_eq!(served.ds.space()[0].condition, TargetCondition::Missing);
    assert_eq!(get(&peer, &handle, 0, 9).await, Err(Status::TargetLost));
    assert_eq!(put(&peer, &handle, 0, true, b"late").await, Err(Status::TargetLost));
    assert_eq!(make(&peer, &[served.server_handle(2)]).await, Err(Status::TargetLost));
    assert_eq!(std::fs::read_dir(&target).unwrap().count(), 0);
    // It may have been away for long, and others may have written to it: only a start looks at all of it.
    std::fs::remove_dir(&target).unwrap();
    std::fs::rename(&away, &target).unwrap();
    assert_eq!(served.ds.space()[0].condition, TargetCondition::Missing);
    drop(peer);
    let served = served.restart().await;
    let peer = crate::data::peer(&served, peer_key());
    assert_eq!(get(&peer, &handle, 0, 9).await, Ok((Bytes::from_static(b"kept"), true)));

    std::fs::remove_file(target.join("target.toml")).unwrap();
    assert_eq!(served.ds.space()[0].condition, TargetCondition::Missing, "its marker is gone");
}

#[tokio::test]
async fn one_incarnation_is_obeyed_until_the_operator_adopts_another() {
    let served = Served::start().await;
    let peer = peer(&served, peer_key());
    let handle = served.made_for_calls(1).await;
    put(&peer, &handle, 0, true, b"kept").await.unwrap();
    let restored = Incarnation { id: INCARNATION.id + 1, epoch: 2 };
    let other = wire::handle::ObjectHandle { incarnation: restored.id, ..served.object(1) };
    let other = other.seal(&crate::key());
    assert_eq!(served.ds.adopt().unwrap(), None, "there is nothing to adopt");
    assert_eq!(served.ds.belong_to(NAME_SPACE, restored).unwrap(), Obeyed::Not);
    assert_eq!(served.ds.belong_to(NAME_SPACE, INCARNATION).unwrap(), Obeyed::AsBefore);
    assert_eq!(get(&peer, &other, 0, 9).await, Err(Status::OtherIncarnation));
    assert_eq!(crate::data::remove(&peer, std::slice::from_ref(&other)).await, Err(Status::OtherIncarnation));
    assert_eq!(get(&peer, &handle, 0, 9).await, Ok((Bytes::from_static(b"kept"), true)));

    // Also after a restart: it is noted with the target.
    drop(peer);
    let served = served.restart().await;
    let peer = crate::data::peer(&served, peer_key());
    assert_eq!(served.ds.belong_to(NAME_SPACE + 1, restored).unwrap(), Obeyed::Not);
    assert_eq!(served.ds.adopt().unwrap(), None, "other metadata than those of its objects");
    assert_eq!(served.ds.belong_to(NAME_SPACE, restored).unwrap(), Obeyed::Not);
    assert_eq!(served.ds.adopt().unwrap(), Some(restored));
    assert_eq!(get(&peer, &other, 0, 9).await, Ok((Bytes::from_static(b"kept"), true)));
    assert_eq!(get(&peer, &handle, 0, 9).await, Err(Status::OtherIncarnation), "the group of before");
    assert_eq!(served.ds.belong_to(NAME_SPACE, INCARNATION).unwrap(), Obeyed::Not);
}
