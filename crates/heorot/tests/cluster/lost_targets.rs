//! Missing targets and lost objects: a read is an error, and never returns zeros.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use crate::servers::{Client, Cluster, metric, mount, until};

/// Larger than inline data.
const BYTES: usize = 200 << 10;

async fn write(client: &Client, name: &str, byte: u8) {
    let file = client.create_path(name, Some(0o644)).await.unwrap();
    nfs_rs::write_all(&**client, file.fh.clone(), 0, Bytes::from(vec![byte; BYTES])).await.unwrap();
    client.close(file.fh).await.unwrap();
}

/// Reads the first bytes of a file by a client with an empty cache.
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
/// the disk is there again, the data server is started again     -> the old contents
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
    assert!(metric(cluster.data_server_ips[0], "heorot_target_lost_object_calls") > 0.0);
}

fn files_on(cluster: &Cluster, target: &str) -> Vec<String> {
    cluster.ask(0, &["files", "--on", target]).unwrap().lines().map(String::from).collect()
}

/// Id and state of the target in this directory.
fn listed(cluster: &Cluster, path: &Path) -> (String, String) {
    let list = cluster.ask(0, &["target", "list", "--json"]).unwrap_or_default();
    let list: Value = serde_json::from_str(&list).unwrap_or_default();
    let all = list.as_array().cloned().unwrap_or_default();
    let found = all.into_iter().find(|target| target["path"] == path.to_str().unwrap()).unwrap_or_default();
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    (text("id"), text("state"))
}

/// ```text
/// two targets, a file on each
/// started with one disk not mounted -> the other's file is read, new files go there; status names it
/// its disk is there, started again  -> both are read
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_is_not_there_at_the_start_keeps_no_other_one_out() {
    let mut cluster = Cluster::start(1, 1);
    let [first, second, away] = ["target0", "second", "away"].map(|name| cluster.file(name));
    let toml = cluster.file("ds0.toml");
    let text = std::fs::read_to_string(&toml).unwrap();
    std::fs::write(&toml, text.replace(&format!("[{first:?}]"), &format!("[{first:?}, {second:?}]")))
        .unwrap();
    let restart = |cluster: &mut Cluster| {
        assert_eq!(cluster.data_servers[0].take().unwrap().stop().code(), Some(0));
        let _ = std::fs::remove_file(cluster.file("ds0.log"));
        cluster.start_data_server(0);
    };
    restart(&mut cluster);
    until("the second one is in service", || listed(&cluster, &second).1 == "in use");
    cluster.ask(0, &["set", "stripe_columns", "1"]).unwrap();
    let client = mount(cluster.metaservers[0].0).await;
    let mut names = Vec::new();
    let (one, other) = (listed(&cluster, &first).0, listed(&cluster, &second).0);
    while [&one, &other].iter().any(|target| files_on(&cluster, target).is_empty()) {
        names.push(format!("f{}", names.len()));
        assert!(names.len() < 100, "all files go to one target");
        write(&client, names.last().unwrap(), 7).await;
    }

    std::fs::rename(&second, &away).unwrap();
    restart(&mut cluster);
    let log = cluster.data_servers[0].as_ref().unwrap().log();
    assert!(
        log.contains("a storage target is not there: the data server starts with its other targets"),
        "{log}"
    );
    until("it is said to be missing", || listed(&cluster, &second) == (other.clone(), "missing".into()));
    let status = cluster.ask(0, &["status"]).unwrap();
    let said = format!("target {} of ds0 is not there", second.display());
    assert!(status.contains(&said) && status.contains("mount its disk again, and restart"), "{status}");
    let there = files_on(&cluster, &one);
    let of_missing = files_on(&cluster, &other);
    assert_eq!(read(&cluster, &there[0]).await, Ok(vec![7; 16]));
    write(&client, "new", 8).await;
    assert_eq!(read(&cluster, "new").await, Ok(vec![8; 16]));
    assert!(files_on(&cluster, &one).contains(&"/new".to_owned()));
    // Files of the missing target wait, as when the whole data server is down.
    let waiting = tokio::time::timeout(Duration::from_secs(2), read(&cluster, &of_missing[0])).await;
    assert!(!matches!(waiting, Ok(Ok(_))), "{waiting:?}");
    assert!(!second.exists(), "nothing was made in its place");
    // The next start still knows the target.
    restart(&mut cluster);
    assert!(!second.exists());

    std::fs::rename(&away, &second).unwrap();
    restart(&mut cluster);
    until("it is in service", || listed(&cluster, &second) == (other.clone(), "in use".into()));
    assert_eq!(read(&cluster, &of_missing[0]).await, Ok(vec![7; 16]));
}
