//! Registrations that arrive after their process has ended.

use dataserver::Reached;

use crate::{Scene, dataserver, peer_of, register, tell};

/// `ended` registers with a metaserver that stands still, and ends; `lives` registers; then that metaserver goes on.
///
/// ```text
/// ended  -- REGISTER ------------------------------------> taken in last
/// lives          -- REGISTER, REGISTER --> taken in
/// ```
#[tokio::test]
async fn a_process_that_no_metaserver_knew_does_not_take_the_place_of_the_one_that_lives() {
    let scene = Scene::start().await;
    let home = tempfile::tempdir().unwrap();
    let peer = peer_of(&scene.server);
    let reached = Reached {
        advertise: "127.0.0.1:2".parse().unwrap(),
        service_address: None,
        zone: bytes::Bytes::new(),
    };
    let first = dataserver(home.path(), 3);
    register(&peer, &first, &reached).await;
    let known = first.registration(&reached, |_| 0).await.unwrap().args.process;
    drop(first);

    let ended = dataserver(home.path(), 4);
    let late = ended.registration(&reached, |_| 0).await.unwrap();
    drop(ended);
    let lives = dataserver(home.path(), 5);
    register(&peer, &lives, &reached).await;
    let process = lives.registration(&reached, |_| 0).await.unwrap().args.process;

    // It was told of the first one, or of none.
    for known in [known, 0] {
        let mut late = late.clone();
        late.args.known = known;
        assert_eq!(tell(&peer, &late).await.process, process);
        let map = scene.metaserver.cluster().map();
        let in_map = map.data_servers.iter().find(|server| server.id.0 == late.args.server).unwrap();
        assert_eq!(in_map.process, process);
        register(&peer, &lives, &reached).await;
    }
}
