//! Common commands of a real Linux client on each protocol version, compared with the same commands in
//! memory. The servers' counters show the path of the data.

use std::time::{Duration, Instant};

use tests::{Client, Cluster, FileBytes, Lab, Traffic, scripts};

const DATA_SERVERS: usize = 4;
const MINUTES: Duration = Duration::from_secs(180);

#[test]
fn a_client_of_4_2_does_everyday_work_and_moves_data_straight_to_and_from_the_data_servers() {
    everyday("vers=4.2");
}

/// The commands are for `make clients`: they differ from those of 4.2 in nothing but what 4.1 has not got.
#[test]
fn a_client_of_4_1_moves_data_straight_to_and_from_the_data_servers() {
    everyday("vers=4.1");
}

#[test]
fn a_client_of_v3_does_everyday_work_through_the_metaserver() {
    everyday("vers=3");
}

fn everyday(version: &str) {
    let lab = Lab::open();
    let cluster = Cluster::separate(&lab, DATA_SERVERS);
    let client = lab.client("ash");
    cluster.mount(&client, version);
    let straight = version != "vers=3";

    let writing = traffic(&cluster, "four writers", || work(&client, &scripts::write_by_four("/mnt/h/four")));
    let reading = traffic(&cluster, "four readers", || work(&client, &scripts::read_by_four("/mnt/h/four")));
    let (written, read) = if straight {
        assert_spread(&writing, |bytes| bytes.written);
        assert_spread(&reading, |bytes| bytes.read);
        (writing.straight().written, reading.straight().read)
    } else {
        assert_eq!(writing.straight(), FileBytes::default(), "a v3 client knows no data servers");
        (writing.metaserver.written, reading.metaserver.read)
    };
    // Every byte went over the network once: two clients taken for one, or a lost reply, would double it.
    let once = scripts::FOUR_FILES_BYTES..=scripts::FOUR_FILES_BYTES + scripts::FOUR_FILES_BYTES / 50;
    assert!(once.contains(&written), "{written} bytes were sent to write {}", scripts::FOUR_FILES_BYTES);
    assert!(once.contains(&read), "{read} bytes were sent to read {}", scripts::FOUR_FILES_BYTES);

    // Files of one version are readable with the others.
    let other = if version == "vers=3" { "vers=4.2" } else { "vers=3" };
    cluster.mount_at(&client, other, "/mnt/other");
    work(&client, &scripts::read_by_four("/mnt/other/four"));
    work(&client, "umount /mnt/other; rm -r /mnt/h/four");

    if straight {
        for (what, traffic) in [("writing", &writing), ("reading", &reading)] {
            let fall_back = traffic.metaserver;
            assert_eq!(fall_back, FileBytes::default(), "{what}: the client fell back to the metaserver");
        }
    }
    if version == "vers=4.1" && std::env::var_os("HEOROT_KERNEL").is_none() {
        return;
    }
    let rest = traffic(&cluster, "source tree and commands", || {
        work(&client, &scripts::source_tree("/mnt/h/tree"));
        work(&client, &scripts::same_as_local("/mnt/h/same"));
    });
    if straight {
        // Small files are inline data at the metaserver; most bytes of the commands are in large files.
        assert!(rest.metaserver.written > 0 && rest.straight().written > rest.metaserver.written, "{rest:?}");
    }
    work(&client, "umount /mnt/h");
}

fn work(client: &Client, script: &str) {
    client.run_within(MINUTES, script);
}

/// Traffic of `work`; prints it with the duration.
fn traffic(cluster: &Cluster, what: &str, work: impl FnOnce()) -> Traffic {
    let (before, began) = (cluster.traffic(), Instant::now());
    work();
    let took = began.elapsed();
    let traffic = cluster.traffic().since(&before);
    println!("{what}: {took:.1?}, {traffic:?}");
    traffic
}

/// Checks that each data server moved at least half of an even share.
fn assert_spread(traffic: &Traffic, bytes: impl Fn(&FileBytes) -> u64) {
    let share = scripts::FOUR_FILES_BYTES / DATA_SERVERS as u64;
    for (number, server) in traffic.data_servers.iter().enumerate() {
        let moved = bytes(server);
        assert!(moved >= share / 2, "data server {number} moved {moved} of {} bytes", share);
    }
}
