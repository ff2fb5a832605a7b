//! `heorot status`: the first line is the verdict, on every node, and the exit status agrees.

use std::net::Ipv4Addr;
use std::process::{Command, Output};

use serde_json::Value;

use crate::servers::{Cluster, places, until};

/// Output and exit status of `heorot status` at the server `ip`.
fn status(ip: Ipv4Addr, args: &[&str]) -> (String, i32) {
    let Output { status, stdout, .. } = Command::new(env!("CARGO_BIN_EXE_heorot"))
        .args(["status", "--admin", &places::of(ip)])
        .args(args)
        .env("HEOROT_LOG", "off")
        .output()
        .unwrap();
    (String::from_utf8(stdout).unwrap(), status.code().unwrap())
}

/// Waits for this verdict in the first line; returns the rest.
fn wait_for(ip: Ipv4Addr, verdict: &str, exit_status: i32, text: &str) -> String {
    let mut said = (String::new(), 0);
    until(&format!("{verdict}: {text}"), || {
        said = status(ip, &[]);
        said.0.lines().next() == Some(verdict) && said.0.contains(text)
    });
    assert_eq!(said.1, exit_status, "{}", said.0);
    said.0
}

/// Verdict of `heorot status --json`, under the same key on every node.
fn verdict(ip: Ipv4Addr) -> String {
    let json: Value = serde_json::from_str(&status(ip, &["--json"]).0).unwrap();
    json["health"]["verdict"].as_str().unwrap_or_default().to_owned()
}

fn log(cluster: &Cluster) -> String {
    let logs = (0..cluster.metaservers.len())
        .map(|n| std::fs::read_to_string(cluster.file(&format!("mds{n}.log"))).unwrap_or_default());
    logs.collect()
}

#[test]
fn the_verdict_follows_what_dies_and_comes_back_on_every_node() {
    let mut cluster = Cluster::start(3, 2);
    let ips: Vec<Ipv4Addr> = cluster.metaservers.iter().map(|(ip, _)| *ip).collect();
    for ip in ips.iter().chain(&cluster.data_server_ips) {
        wait_for(*ip, "healthy", 0, "mds2");
        assert_eq!(verdict(*ip), "healthy");
    }

    // A data server without objects dies and comes back.
    cluster.data_servers[1] = None;
    let said = wait_for(ips[0], "degraded", 1, "data server ds1 is silent");
    assert!(said.contains("start it; if its data are gone for good: heorot node remove ds1"), "{said}");
    let list = cluster.ask(2, &["node", "list"]).unwrap();
    let row = list.lines().find(|line| line.starts_with("ds1")).unwrap();
    assert!(row.contains(" silent "), "{list}");
    until("the leader logs it", || log(&cluster).contains("server is silent"));
    cluster.start_data_server(1);
    wait_for(cluster.data_server_ips[1], "healthy", 0, "mds2");
    until("the leader logs that it is back", || log(&cluster).contains("server is heard of again"));

    // Two metaservers die, one after the other: the third one cannot reach the others.
    cluster.ask(0, &["leader", "mds0"]).unwrap();
    cluster.metaservers[1].1 = None;
    wait_for(ips[2], "degraded", 1, "metaserver mds1 is silent");
    cluster.metaservers[0].1 = None;
    wait_for(ips[2], "failed", 2, "mds2 cannot reach enough metaservers with a vote");
    let (json, exit_status) = status(ips[2], &["--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((json["health"]["verdict"].as_str(), exit_status), (Some("failed"), 2));
    assert_eq!((&json["leader"], &json["service_addresses"]), (&Value::Null, &Value::Null));
    let roles: Vec<&Value> = json["metaservers"].as_array().unwrap().iter().map(|m| &m["role"]).collect();
    assert_eq!(roles, ["voter"; 3]);
    wait_for(cluster.data_server_ips[0], "failed", 2, "mds2 cannot reach");
    cluster.metaservers[2].1 = None;
    wait_for(
        cluster.data_server_ips[0],
        "failed: no metaserver answers this data server (ds0)",
        2,
        "target0",
    );
    assert_eq!(verdict(cluster.data_server_ips[0]), "failed");
    let (said, exit_status) = status(ips[2], &[]);
    assert_eq!((said.as_str(), exit_status), ("", 3), "nothing answers");
}
