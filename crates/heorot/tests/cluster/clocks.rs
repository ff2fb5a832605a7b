//! Clock check: `heorot status` and the leader's log report a clock that goes wrong at run time.

use std::path::Path;

use crate::servers::{Cluster, Process, ask, until};

/// Path of libfaketime in Debian, for any architecture.
fn libfaketime() -> String {
    let libs = std::fs::read_dir("/usr/lib").unwrap().map(|entry| entry.unwrap().path());
    let found = libs.map(|lib| lib.join("faketime/libfaketime.so.1")).find(|path| path.exists());
    found.expect("libfaketime: scripts/setup.sh installs it").display().to_string()
}

/// Output of `heorot status` at the first metaserver, for any verdict.
fn status(cluster: &Cluster) -> String {
    match ask(cluster.metaservers[0].0, &["status"]) {
        Ok(said) | Err(said) => said,
    }
}

#[test]
fn a_clock_that_goes_wrong_while_its_server_runs_is_said_until_it_is_right() {
    let mut cluster = Cluster::start(3, 1);
    cluster.ask(0, &["leader", "mds0"]).unwrap();
    let offset = cluster.file("offset");
    let set = |text: &str| std::fs::write(&offset, text).unwrap();
    set("+0");
    cluster.stop_metaserver(1);
    let (config, log) = (cluster.file("mds1.toml"), cluster.file("mds1.log"));
    let (library, file) = (libfaketime(), offset.display().to_string());
    // Fake only the time of day, and read the file again each time.
    let environment = [
        ("LD_PRELOAD", library.as_str()),
        ("FAKETIME_TIMESTAMP_FILE", &file),
        ("FAKETIME_NO_CACHE", "1"),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
    ];
    let args = ["mds", "--config", config.to_str().unwrap()];
    let mut process = Process::start_with(&args, &log, &environment);
    process.wait_for_log("ready");
    cluster.metaservers[1].1 = Some(process);
    until("all is well", || status(&cluster).starts_with("healthy"));

    set("-1h");
    let said = "the clock of mds1 is 1 h 0 min behind the cluster's";
    until("the clock is said", || {
        status(&cluster).contains(said) && status(&cluster).starts_with("degraded")
    });
    let leaders_log = || std::fs::read_to_string(Path::new(&cluster.file("mds0.log"))).unwrap();
    until("the leader logs it", || leaders_log().contains("clock of a server differs"));
    let page = cluster.ask(0, &["status", "--json"]).unwrap_or_default();
    assert!(!page.contains("\"clock_ahead_ms\": null"), "{page}");

    set("+0");
    until("all is well again", || status(&cluster).starts_with("healthy"));
    until("the leader logs that, too", || leaders_log().contains("agrees with the others' again"));
}
