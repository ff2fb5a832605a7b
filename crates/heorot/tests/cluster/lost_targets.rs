//! A target that is not there any more, or has lost objects: what was on it is an error, and never zeros.

use std::path::Path;

use bytes::Bytes;
use serde_json::Value;

use crate::servers::{Client, Cluster, mount, until};

/// More than a file has with its inode.
const BYTES: usize = 200 << 10;

async fn write(client: &Client, name: &str, byte: u8) {
    let file = client.create_path(name, Some(0o644)).await.unwrap();
    nfs_rs::write_all(&**client, file.fh.clone(), 0, Bytes::from(vec![byte; BYTES])).await.unwrap();
    client.close(file.fh).await.unwrap();
}

/// The first bytes of a file, read by a client that has nothing of it in memory.
async fn read(cluster: &Cluster, name: &str) -> Result<Vec<u8>, String> {
    let client = mount(cluster.metaservers[0].0).await;
    let file = client.open_path(name, nfs_rs::OPEN_READ).await.map_err(|e| e.to_string())?.fh;
    let data = client.read(file, 100, 16).await.map_err(|e| e.to_string());
    let _ = client.umount().await;
    data.map(|data| data.to_vec())
}

fn state(cluster: &Cluster) -> String {
    let status = cluster.ask(0, &["status", "--json"]).unwrap_or_default();
    let status: Value = serde_json::from_str(&status).unwrap_or_default();
    status["data_servers"][0]["targets"][0]["state"].as_str().unwrap_or_default().to_owned()
}

fn remove_objects(target: &Path) -> usize {
    let folders = std::fs::read_dir(target.join("objects")).unwrap();
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap());
    files.map(|file| std::fs::remove_file(file.unwrap().path()).unwrap()).count()
}

/// ```text
/// another directory at the target's path (its disk unmounted)   -> "missing", said once; reads fail
/// the disk is there again, the data server is started again     -> what was there
/// objects are removed below it                                  -> reads fail, the log names the object
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_target_and_a_lost_object_are_errors_and_never_zeros() {
    let mut cluster = Cluster::start(1, 1);
    let (target, away) = (cluster.file("target0"), cluster.file("away"));
    let client = mount(cluster.metaservers[0].0).await;
    write(&client, "kept", 7).await;
    client.umount().await.unwrap();
    assert_eq!(read(&cluster, "kept").await, Ok(vec![7; 16]));

    std::fs::rename(&target, &away).unwrap();
    std::fs::create_dir(&target).unwrap();
    cluster.data_servers[0].as_mut().unwrap().wait_for_log("the storage target is not there any more");
    until("the metaserver names its state", || state(&cluster) == "missing");
    let lost = read(&cluster, "kept").await;
    assert!(lost.is_err(), "{lost:?}");
    let log = cluster.data_servers[0].as_ref().unwrap().log();
    assert_eq!(log.matches("the storage target is not there any more").count(), 1, "said once");
    assert_eq!(std::fs::read_dir(&target).unwrap().count(), 0, "nothing was written below the mount point");

    std::fs::remove_dir(&target).unwrap();
    std::fs::rename(&away, &target).unwrap();
    assert_eq!(cluster.data_servers[0].take().unwrap().stop().code(), Some(0));
    cluster.start_data_server(0);
    until("it is in service", || state(&cluster) == "ok");
    assert_eq!(read(&cluster, "kept").await, Ok(vec![7; 16]));

    assert_eq!(cluster.data_servers[0].take().unwrap().stop().code(), Some(0));
    assert!(remove_objects(&target) > 0);
    cluster.start_data_server(0);
    until("it is in service", || state(&cluster) == "ok");
    let lost = read(&cluster, "kept").await;
    assert!(lost.is_err(), "{lost:?}");
    cluster.data_servers[0].as_mut().unwrap().wait_for_log("an object is missing from the storage target");
}
