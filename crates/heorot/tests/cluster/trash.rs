//! Trash of the targets: its time is a cluster setting, and its size is shown.

use std::path::Path;

use bytes::Bytes;
use serde_json::Value;

use crate::name_space::objects;
use crate::servers::{Client, Cluster, metric, mount, until};

/// Larger than inline data.
const BYTES: usize = 200 << 10;

async fn write_and_remove(client: &Client, name: &str) {
    let file = client.create_path(name, Some(0o644)).await.unwrap();
    nfs_rs::write_all(&**client, file.fh.clone(), 0, Bytes::from(vec![1; BYTES])).await.unwrap();
    client.close(file.fh).await.unwrap();
    client.remove_path(name).await.unwrap();
}

/// Number of objects in a target's trash. The data server may remove a period's folder meanwhile.
pub fn in_trash(target: &Path) -> usize {
    let periods = std::fs::read_dir(target.join("trash")).unwrap();
    let entries = periods.flat_map(|period| std::fs::read_dir(period.unwrap().path()).into_iter().flatten());
    let is_object = |entry: &std::fs::DirEntry| !entry.file_name().to_string_lossy().ends_with(".sums");
    entries.flatten().filter(is_object).count()
}

/// Entry of the only target in `heorot target list --json`.
fn shown(cluster: &Cluster) -> Value {
    let list: Value = serde_json::from_str(&cluster.ask(0, &["target", "list", "--json"]).unwrap()).unwrap();
    list[0].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removed_objects_are_shown_and_kept_for_as_long_as_the_cluster_is_set_to() {
    let cluster = Cluster::start(1, 1);
    let mds = cluster.metaservers[0].0;
    let target = cluster.file("target0");
    let client = mount(mds).await;
    write_and_remove(&client, "kept").await;
    until("its objects are in the trash", || objects(&target) == 0 && in_trash(&target) > 0);
    until("that is shown", || shown(&cluster)["trash_bytes"].as_u64().unwrap() >= BYTES as u64);
    assert_eq!(shown(&cluster)["reserve_bytes"], 128 << 20);
    assert!(metric(mds, "heorot_target_trash_bytes") >= BYTES as f64);
    assert_eq!(metric(mds, "heorot_target_reserve_bytes"), f64::from(128 << 20));

    let refused = cluster.ask(0, &["set", "trash_time", "2w"]).unwrap_err();
    assert!(refused.contains("trash_time"), "{refused}");
    cluster.ask(0, &["set", "trash_time", "0s"]).unwrap();
    // Data servers receive the setting in the answer to their next heartbeat.
    let mut before = in_trash(&target);
    for n in 0.. {
        assert!(n < 1000, "objects go to the trash after all");
        write_and_remove(&client, "not-kept").await;
        until("its objects are gone", || objects(&target) == 0);
        if in_trash(&target) == before {
            break;
        }
        before = in_trash(&target);
    }
    client.umount().await.unwrap();
}
