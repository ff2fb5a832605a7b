//! Zones: copies are in different ones, also of chains that are older than the zones.

use std::fs;

use bytes::Bytes;

use crate::servers::{Cluster, until};
use crate::targets::{json, mount3};

/// Starts data server `n` again with this zone.
fn move_to_zone(cluster: &mut Cluster, n: usize, zone: &str) {
    let file = cluster.file(&format!("ds{n}.toml"));
    let text = fs::read_to_string(&file).expect("the configuration");
    let rest = text.lines().filter(|line| !line.starts_with("zone = ")).map(|line| format!("{line}\n"));
    fs::write(&file, format!("{}zone = \"{zone}\"\n", rest.collect::<String>())).expect("a changed one");
    drop(cluster.data_servers[n].take());
    let _ = fs::remove_file(cluster.file(&format!("ds{n}.log")));
    cluster.start_data_server(n);
}

fn findings(cluster: &Cluster) -> String {
    json(cluster, &["status", "--json"])["health"]["findings"].to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_are_in_different_zones_and_move_when_zones_change() {
    let mut cluster = Cluster::start(1, 0);
    for (n, zone) in ["a", "a", "b"].iter().enumerate() {
        cluster.add_data_server_with(n, &format!("zone = \"rack-{zone}\"\n"));
    }
    cluster.add_data_server(3);
    until("four are there", || cluster.status()["data_servers"].as_array().map(Vec::len) == Some(4));
    let refused = cluster.ask(0, &["stripe", "set", "/", "--copies", "3"]).unwrap_err();
    assert!(refused.contains("1 data servers have no zone, and others have one"), "{refused}");
    move_to_zone(&mut cluster, 3, "rack-b");
    until("its zone is known", || cluster.status()["data_servers"][3]["zone"] == "rack-b");
    let refused = cluster.ask(0, &["stripe", "set", "/", "--copies", "3"]).unwrap_err();
    assert!(refused.contains("3 copies need 3 zones, and there are 2"), "{refused}");
    let striped = cluster.ask(0, &["stripe", "get", "/"]).unwrap();
    assert!(!striped.contains("3 copies"), "{striped}");

    let is_apart = |cluster: &Cluster| {
        let chains = &cluster.status()["chains"];
        cluster.is_whole() && chains["count"].as_u64() > Some(0) && chains["in_one_zone"] == 0
    };
    until("copies are in different zones", || is_apart(&cluster));
    let client = mount3(&cluster).await;
    let bytes = |n: u8| Bytes::from(vec![n; 4 << 20]);
    let mut files = Vec::new();
    for n in 0..8 {
        let file = client.create_path(&format!("f{n}"), Some(0o644)).await.unwrap().fh;
        nfs_rs::write_all(&*client, file.clone(), 0, bytes(n)).await.unwrap();
        client.commit(file.clone(), 0, 0).await.unwrap();
        files.push(file);
    }

    // Now each rack has one of either.
    move_to_zone(&mut cluster, 1, "rack-b");
    move_to_zone(&mut cluster, 2, "rack-a");
    until("status tells of it", || cluster.status()["chains"]["in_one_zone"].as_u64() > Some(0));
    assert!(findings(&cluster).contains("have copies that share a zone"), "{}", findings(&cluster));
    until("copies are apart again", || is_apart(&cluster));
    // What is on one rack is enough.
    cluster.data_servers[0].take();
    cluster.data_servers[2].take();
    for (n, file) in files.iter().enumerate() {
        let read = client.read(file.clone(), 1 << 20, 1 << 16).await.expect("a read");
        assert_eq!(read.as_ref(), &bytes(n as u8)[..1 << 16], "file {n}");
    }
}
