//! Targets are drained, removed and replaced one by one, while their files are in use.

use crate::pools::{check, is_settled, objects, write};
use crate::servers::{Cluster, until};
use crate::targets::{json, mount3};

/// State of the target of data server `n`.
fn state(cluster: &Cluster, n: usize) -> String {
    let list = json(cluster, &["target", "list", "--json"]);
    let path = cluster.file(&format!("target{n}"));
    let its = list.as_array().unwrap().iter().find(|target| target["path"] == path.to_str().unwrap());
    its.expect("the target")["state"].as_str().unwrap().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_is_drained_of_all_data_then_removed_and_another_takes_its_place() {
    let mut cluster = Cluster::start(1, 3);
    for (key, value) in [("trash_time", "0s"), ("rebalance", "false")] {
        cluster.ask(0, &["set", key, value]).unwrap();
    }
    let place = |n: usize| format!("ds{n}:{}", cluster.file(&format!("target{n}")).display());
    let places: Vec<String> = (0..4).map(place).collect();
    let client = mount3(&cluster).await;
    client.mkdir_path("one", 0o755).await.unwrap();
    cluster.ask(0, &["stripe", "set", "/one", "--copies", "1", "--columns", "0"]).unwrap();
    until("copies can be made", || cluster.is_whole() && cluster.chains_of("ds0") > 0);
    let mut files = Vec::new();
    for n in 0..3 {
        files.push(write(&client, &format!("f{n}"), n).await);
    }
    for n in 3..6 {
        files.push(write(&client, &format!("one/f{n}"), n).await);
    }
    assert!(objects(&cluster, 0) > 0);
    let refused = |args: &[&str]| cluster.ask(0, args).unwrap_err();
    assert!(refused(&["target", "drain", "ds0:/targte"]).contains("no target is called"));
    assert!(refused(&["target", "remove", &places[0]]).contains("heorot target drain"));
    assert!(refused(&["target", "replace", &places[0], &places[0]]).contains("its own place"));

    let said = cluster.ask(0, &["target", "drain", &places[0]]).unwrap();
    assert!(said.contains("takes no new files") && state(&cluster, 0) == "draining", "{said}");
    // With two data servers left another drain has no place for copies.
    let copies = refused(&["target", "drain", &places[1]]);
    assert!(copies.contains("chains of 2 copies") && copies.contains("on 1 data servers"), "{copies}");
    assert!(refused(&["target", "found", &places[0]]).contains("heorot target undrain"));
    until("all data are elsewhere", || is_settled(&cluster) && objects(&cluster, 0) == 0);
    files.push(write(&client, "one/f6", 6).await);
    assert_eq!(objects(&cluster, 0), 0, "it takes no new files");
    until("it can be removed", || cluster.ask(0, &["target", "remove", &places[0]]).is_ok());
    assert_eq!(state(&cluster, 0), "removed");
    assert!(refused(&["target", "drain", &places[0]]).contains("nothing to move"));
    let status = cluster.status();
    assert_eq!(status["health"]["verdict"], "healthy", "{status}");
    check(&client, &files).await;

    // Another one takes the place of the second; what is lost cannot be replaced.
    assert!(refused(&["target", "replace", &places[1], &places[0]]).contains("is not in use"));
    cluster.add_data_server(3);
    let args = ["target", "replace", &places[1], &places[3]];
    until("the new target is known", || cluster.ask(0, &args).is_ok());
    until("its data are elsewhere", || {
        is_settled(&cluster) && objects(&cluster, 1) == 0 && objects(&cluster, 3) > 0
    });
    cluster.ask(0, &["target", "undrain", &places[1]]).unwrap();
    assert_eq!(state(&cluster, 1), "in use");
    check(&client, &files).await;
}
