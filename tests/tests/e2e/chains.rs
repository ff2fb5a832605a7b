//! Files with copies under a real client: data servers are killed one after another while it writes, nothing is
//! lost, and the copies come back by themselves.

use std::time::{Duration, Instant};

use tests::stalls::{self, Work};
use tests::{Cluster, Lab, MOUNT_POINT};

const DATA_SERVERS: usize = 4;
/// Longest wait until all chains have all members again, on a busy machine.
const WHOLE_TIME_MAX: Duration = Duration::from_secs(120);
/// Bytes of the file that is there before the first kill.
const FILE_MIB: u32 = 48;
const DATA_MIB: &str = "4";

/// Waits until all chains have all their members.
fn until_whole(cluster: &Cluster) {
    let began = Instant::now();
    loop {
        let status: serde_json::Value =
            serde_json::from_str(&cluster.status_json()).expect("the status is JSON");
        let chains = &status["chains"];
        let is_whole = chains["count"].as_u64() > Some(0)
            && ["refilling", "incomplete", "waiting"].iter().all(|state| chains[*state] == 0);
        if is_whole {
            return;
        }
        assert!(began.elapsed() < WHOLE_TIME_MAX, "the chains are not whole: {chains}");
        std::thread::sleep(Duration::from_millis(200)); // between two looks
    }
}

#[test]
fn copies_survive_data_servers_that_are_killed_one_after_another() {
    for copies in [2, 3] {
        let lab = Lab::open();
        let mut cluster = Cluster::separate(&lab, DATA_SERVERS);
        cluster.admin(&["stripe", "set", "/", "--copies", &copies.to_string()]);
        until_whole(&cluster);
        let client = lab.client("writer");
        cluster.mount(&client, "vers=4.2");
        client.run(&format!(
            "head -c {FILE_MIB}M /dev/urandom >/mnt/before; cp /mnt/before {MOUNT_POINT}/before; sync {MOUNT_POINT}/before"
        ));
        let mut work =
            Work::begin(&client, "data", stalls::DATA, &[&format!("{MOUNT_POINT}/work"), DATA_MIB]);
        work.does_more(1);
        for killed in 0..DATA_SERVERS {
            cluster.ds(killed).kill();
            work.does_more(2);
            client.run(&format!("echo 3 >/proc/sys/vm/drop_caches; cmp /mnt/before {MOUNT_POINT}/before"));
            cluster.ds(killed).start();
            until_whole(&cluster);
        }
        let (said, stalls) = work.end();
        let longest = stalls.iter().map(|stall| stall.took.as_secs_f64()).fold(0.0, f64::max);
        println!("{copies} copies, {} rounds: the longest operation took {longest:.2} s", said.trim());
    }
}
