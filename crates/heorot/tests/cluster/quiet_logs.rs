//! Quiet logs: normal operation logs no warning, since an operator looks at each WARN and ERROR.

use crate::servers::{Cluster, until};

/// Warnings and errors in all servers' logs.
fn warnings(cluster: &Cluster) -> Vec<String> {
    let names = (0..3).map(|n| format!("mds{n}.log")).chain((0..2).map(|n| format!("ds{n}.log")));
    let mut found = Vec::new();
    for name in names {
        let log = std::fs::read_to_string(cluster.file(&name)).unwrap();
        assert!(log.contains(" INFO "), "{name} has a level in each line: {log}");
        let lines = log.lines().filter(|line| line.contains(" WARN ") || line.contains(" ERROR "));
        found.extend(lines.map(|line| format!("{name}: {line}")));
    }
    found
}

#[test]
fn a_start_a_join_and_a_stop_that_go_well_have_no_warning_in_any_log() {
    let mut cluster = Cluster::start(3, 2);
    until("healthy", || cluster.ask(1, &["status"]).is_ok_and(|said| said.starts_with("healthy")));
    assert_eq!(warnings(&cluster), [""; 0], "after start and joins");

    // Stop the leader in order.
    cluster.stop_metaserver(0);
    until("another one leads", || {
        cluster.ask(1, &["leader"]).is_ok_and(|said| said.contains("mds1") || said.contains("mds2"))
    });
    // By then the data servers have missed it, too: their heartbeats go to each metaserver.
    until("it is missed", || cluster.ask(1, &["status"]).is_ok_and(|said| said.contains("mds0")));
    assert_eq!(warnings(&cluster), [""; 0], "after the stop of the leader");
}
