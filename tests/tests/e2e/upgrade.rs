//! Rolling upgrade by docs/runbook.md: a cluster of three metaservers and two data servers is upgraded node
//! by node while a real Linux client works. No operation fails, and nothing is lost.
//!
//! `HEOROT_OLD_BIN` is the program that the cluster begins with (`make upgrade OLD=COMMIT` builds it).
//! Without it, both are this version: this tests the procedure, not the compatibility of two versions.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tests::stalls::{self, Work};
use tests::{Lab, Machine, binary};

/// Limit of a stall: a client retries a restarting data server after some seconds; a busy machine must not
/// fail the test.
const STALL_MAX: Duration = Duration::from_secs(60);

/// Waits until `asked` shows the server of `machine` as serving, with the whole log.
#[track_caller]
fn is_back(asked: &Machine, name: &str) -> Value {
    let row = |text: &str| -> Option<Value> {
        let nodes: Vec<Value> = serde_json::from_str(text).ok()?;
        nodes.into_iter().find(|node| node["name"] == name)
    };
    let serves = |text: &str| {
        row(text).is_some_and(|node| {
            let heard = node["seen_ms"].as_u64().is_some_and(|ms| ms < 2000);
            node["state"] == "serving" && heard && node["lag"].as_u64().unwrap_or(0) == 0
        })
    };
    row(&asked.until("heorot node list --json", serves)).unwrap_or_default()
}

#[test]
fn a_cluster_is_upgraded_node_by_node_while_a_client_works() {
    let old = std::env::var_os("HEOROT_OLD_BIN").map_or_else(binary, PathBuf::from);
    println!("from {} to {}", old.display(), binary().display());
    let lab = Lab::open();
    let mut all = ["ash", "elm", "oak", "fir", "yew"].map(|name| Machine::new(&lab, name));
    for machine in &all {
        machine.install(&old);
    }
    let [a, b, c, _] = all[0].address().octets();
    let (first, service) = (all[0].address(), std::net::IpAddr::from([a, b, c, 240]));
    all[0].sh(&format!("heorot init --role mds --no-root-squash --service-address {service}"));
    all[0].start();
    for n in 1..all.len() {
        let role = if n < 3 { "mds" } else { "ds" };
        let token = all[0].sh("heorot token");
        std::fs::write(all[n].file("/root/token"), token).expect("a file");
        all[n].sh(&format!("heorot join --role {role} --token-file token {first}"));
        all[n].start();
    }
    all.iter().for_each(|machine| {
        machine.says("healthy", "yew");
    });
    let pine = lab.client("pine");
    pine.run(&lab::heorot::mount_script((service, 2049).into(), "vers=4.2", "/mnt/h"));
    pine.run("head -c 8000000 /dev/urandom >/mnt/h/before; sync; sha256sum /mnt/h/before >/tmp/before");
    let mut works = [
        Work::begin(&pine, "everything", stalls::EVERYTHING, &["/mnt/h/everything"]),
        Work::begin(&pine, "data", stalls::DATA, &["/mnt/h/data", "4"]),
    ];
    works.iter_mut().for_each(|work| work.does_more(1));

    all[0].sh("heorot backup /backup/heorot");
    // Upgrade the leader as the last of the metaservers.
    for n in [1, 2, 0, 3, 4] {
        let (name, asked) = (all[n].name().to_owned(), (n + 1) % 3);
        if all[asked].sh("heorot leader").trim() == name {
            all[asked].sh("heorot leader elm");
        }
        all[n].install(&binary());
        all[n].restart();
        let node = is_back(&all[asked], &name);
        println!("{name}: {} {}, is back", node["role"], node["version"]);
        works.iter_mut().for_each(|work| work.does_more(2));
        for machine in &all {
            let status = machine.status();
            assert!(status.exit_status < 2, "{} of {}: {}", status.exit_status, machine.name(), status.text);
        }
        pine.run("echo 3 >/proc/sys/vm/drop_caches; sha256sum --quiet -c /tmp/before");
    }
    for work in works {
        let (said, stalls) = work.end();
        let longest = stalls.iter().max_by_key(|stall| stall.took);
        println!(
            "{}; the longest operation: {}",
            said.trim(),
            longest.map_or("-".into(), ToString::to_string)
        );
        assert!(longest.is_none_or(|stall| stall.took < STALL_MAX), "{longest:?}");
    }
    for machine in &all {
        machine.says("healthy", "yew");
        let log = machine.log();
        // openraft logs an error for a request while its member stops.
        let is_error = |line: &&str| line.contains(" ERROR ") && !line.contains(" ERROR openraft::");
        assert_eq!(log.lines().find(is_error), None, "{}", machine.name());
    }
}
