//! `heorot rebalance`: data move to emptier targets at once, at the order of any metaserver.

use serde_json::Value;

use crate::pools::{check, write};
use crate::servers::{Cluster, ask, until};
use crate::small_disk::SmallDisk;
use crate::targets::{json, mount3};

const FILES: usize = 30;

fn leads(cluster: &Cluster, name: &str) -> bool {
    cluster.node(0, name)["role"] == "leader"
}

/// State of the default pool, as the metaserver `n` says it.
fn balance(cluster: &Cluster, n: usize) -> Value {
    let answer = ask(cluster.metaservers[n].0, &["rebalance", "--json"]).expect("an answer");
    serde_json::from_str::<Value>(&answer).expect("JSON")[0].clone()
}

/// ```text
/// two data servers, one disk smaller, two copies  -> nothing can move: the wait ends, and says why
/// rebalance = false, two more data servers        -> refused, with the setting
/// rebalance = true, asked at a follower           -> chains move; the wait ends when all are even
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_move_when_an_operator_asks_and_the_wait_ends_even_or_with_the_reason() {
    let mut cluster = Cluster::start(2, 0);
    let sizes = ["800m", "500m", "800m", "800m"];
    let disk = |cluster: &Cluster, n: usize| SmallDisk::mount(&cluster.file(&format!("target{n}")), sizes[n]);
    let mut disks: Vec<_> = (0..2).map(|n| disk(&cluster, n)).collect();
    (0..2).for_each(|n| cluster.add_data_server(n));
    until("two are there", || cluster.status()["data_servers"].as_array().map(Vec::len) == Some(2));
    cluster.ask(0, &["stripe", "set", "/", "--copies", "2"]).unwrap();
    cluster.ask(0, &["set", "trash_time", "0s"]).unwrap();
    let client = mount3(&cluster).await;
    let mut files = Vec::new();
    for n in 0..FILES {
        files.push(write(&client, &format!("f{n}"), n).await);
    }
    until("chains are whole", || cluster.is_whole());
    let follower = usize::from(leads(&cluster, "mds0"));
    assert!(!leads(&cluster, &format!("mds{follower}")) && leads(&cluster, &format!("mds{}", 1 - follower)));

    // Twice: the second request makes the leader count again.
    for n in [follower, 1 - follower] {
        let said = cluster.ask(n, &["rebalance", "--wait"]).unwrap_err();
        assert!(said.contains("not all pools are even: pool default: no chain can move"), "{said}");
    }
    let state = balance(&cluster, follower);
    assert_eq!((&state["pool"], &state["state"]), (&"default".into(), &"in vain".into()), "{state}");
    assert!(state["fullest"].as_str().unwrap().starts_with("ds1:/"), "{state}");
    assert!(state["fullest_percent"].as_f64() > state["emptiest_percent"].as_f64(), "{state}");

    cluster.ask(0, &["set", "rebalance", "false"]).unwrap();
    disks.extend((2..4).map(|n| disk(&cluster, n)));
    (2..4).for_each(|n| cluster.add_data_server(n));
    until("four are there", || cluster.status()["data_servers"].as_array().map(Vec::len) == Some(4));
    for args in [["rebalance", "--wait"], ["rebalance", "--json"]] {
        let said = cluster.ask(follower, &args).unwrap_err();
        assert!(said.contains("heorot set rebalance true comes first"), "{said}");
    }
    cluster.ask(0, &["set", "rebalance", "true"]).unwrap();
    let said = cluster.ask(follower, &["rebalance", "--wait"]).unwrap();
    assert!(said.contains("the targets of each pool are equally full") && said.contains("default"), "{said}");
    let state = balance(&cluster, 1 - follower);
    assert_eq!((&state["state"], &state["reason"]), (&"even".into(), &Value::Null), "{state}");
    let spread = state["fullest_percent"].as_f64().unwrap() - state["emptiest_percent"].as_f64().unwrap();
    assert!(spread <= 5.1, "{state}");
    assert!(
        json(&cluster, &["target", "list", "--json"]).as_array().unwrap().iter().all(|t| t["chains"] != 0)
    );
    check(&client, &files).await;
}
