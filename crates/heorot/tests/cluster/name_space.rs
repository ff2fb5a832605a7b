//! A metaserver with a lost directory (a disk that was not mounted) begins another name space, with the same
//! secret and at the same address: it must not remove objects of the first name space as orphans.

use std::path::Path;

use bytes::Bytes;

use crate::servers::{Cluster, mount, run, until};

/// Larger than inline data.
const BYTES: usize = 200 << 10;

/// Number of objects on a target.
pub fn objects(target: &Path) -> usize {
    let folders = std::fs::read_dir(target.join("objects")).unwrap();
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap());
    // Each has its sums beside it.
    files.filter(|file| file.as_ref().unwrap().path().extension().is_some_and(|last| last != "sums")).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_metaserver_that_lost_its_directory_leaves_the_files_of_its_data_servers_alone() {
    let mut cluster = Cluster::start(1, 1);
    let (ip, own, away) = (cluster.metaservers[0].0, cluster.file("mds0"), cluster.file("mds0.away"));
    let target = cluster.file("target0");
    let client = mount(ip).await;
    let file = client.create_path("kept", Some(0o644)).await.unwrap();
    nfs_rs::write_all(&*client, file.fh.clone(), 0, Bytes::from(vec![7; BYTES])).await.unwrap();
    client.close(file.fh).await.unwrap();
    client.umount().await.unwrap();
    let before = objects(&target);
    assert!(before > 0, "it is on the data server");

    cluster.stop_metaserver(0);
    std::fs::rename(&own, &away).unwrap();
    let config = cluster.file("mds0.toml");
    let refused = run(&["mds", "--config", config.to_str().unwrap()]).unwrap_err();
    assert!(refused.contains("is its disk not mounted?"), "{refused}");
    // An operator insists; or the founding marker is lost, too.
    std::fs::remove_file(cluster.file("secret.founded")).unwrap();
    cluster.start_metaserver(0);
    let metaserver = cluster.metaservers[0].1.as_mut().unwrap();
    metaserver.wait_for_log("refused: this data server has files of another name space of this cluster");
    cluster.data_servers[0].as_mut().unwrap().wait_for_log("it keeps another name space");
    let _ = cluster.ask(0, &["clean"]);
    assert_eq!(objects(&target), before);
    assert_eq!(cluster.data_servers[0].take().unwrap().stop().code(), Some(0));

    cluster.stop_metaserver(0);
    std::fs::remove_dir_all(&own).unwrap();
    std::fs::rename(&away, &own).unwrap();
    cluster.start_metaserver(0);
    cluster.start_data_server(0);
    until("the data server is heard of", || cluster.node(0, "ds0")["seen_ms"].is_u64());
    until("what no file owns is looked for", || cluster.ask(0, &["clean"]).is_ok());
    assert_eq!(objects(&target), before);
    let client = mount(ip).await;
    let handle = client.lookup_path("kept").await.unwrap().fh;
    let read = client.read(handle, 0, 16).await.unwrap();
    assert_eq!(&read[..], [7; 16]);
    client.umount().await.unwrap();
}
