//! A data server that is stopped for a while, with its address, under real clients: by NFSv3, by NFSv4.1
//! without and by NFSv4.2 with layouts. Metaservers hold the requests that need it, and all clients go on right
//! after its return, however long it was away.

use std::time::Duration;

use tests::stalls::{self, Work, clock};
use tests::{Cluster, Lab};

/// Absences of the data server. After the longer one, Linux waits 15 s before it tries again after DELAY.
const ABSENCES: [Duration; 2] = [Duration::from_secs(4), Duration::from_secs(40)];
const VERSIONS: [&str; 3] = ["3", "4.1", "4.2"];
const DATA_MIB: &str = "4";
/// Time limit of an operation after the return, for a busy machine.
const AFTER_RETURN_MAX: f64 = 5.0;

#[test]
fn clients_go_on_right_after_the_return_of_a_data_server_that_was_away() {
    let lab = Lab::open();
    let mut cluster = Cluster::separate(&lab, 1);
    let clients = VERSIONS.map(|version| {
        let client = lab.client(&format!("v{}", version.replace('.', "")));
        cluster.mount_at(&client, &format!("vers={version}"), "/mnt/h");
        client
    });
    let mut works: Vec<Work> = clients
        .iter()
        .zip(VERSIONS)
        .map(|(client, version)| {
            Work::begin(client, "data", stalls::DATA, &[&format!("/mnt/h/{version}"), DATA_MIB])
        })
        .collect();
    works.iter_mut().for_each(|work| work.does_more(1));
    let mut returns = Vec::new();
    for absence in ABSENCES {
        cluster.ds(0).stop();
        std::thread::sleep(absence); // the absence itself
        let before = clients.each_ref().map(clock);
        cluster.ds(0).start();
        returns.push(before);
        works.iter_mut().for_each(|work| work.does_more(2));
    }
    let mut late = Vec::new();
    for (at, work) in works.into_iter().enumerate() {
        let (said, stalls) = work.end();
        for (absence, returned) in ABSENCES.iter().zip(&returns) {
            let after = |stall: &stalls::Stall| stall.began + stall.took.as_secs_f64() - returned[at];
            let across = stalls.iter().filter(|stall| stall.began < returned[at] && after(stall) > 0.0);
            let longest = across.map(after).fold(0.0, f64::max);
            println!(
                "vers={}, {} rounds, away for {absence:?}: goes on {longest:.2} s after the start of the data server",
                VERSIONS[at],
                said.trim()
            );
            if longest == 0.0 || longest > AFTER_RETURN_MAX {
                late.push((VERSIONS[at], *absence, longest));
            }
        }
    }
    assert!(late.is_empty(), "{late:?}");
}
