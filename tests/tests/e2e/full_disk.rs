//! A full disk under all servers: clients get an error, acknowledged data stay, and removals free space.

use std::time::Duration;

use tests::stalls::{self, Work};
use tests::{Cluster, Lab, Metaservers, SmallDisk};

const MINUTES: Duration = Duration::from_secs(120);

#[test]
fn a_full_disk_is_said_and_nothing_acknowledged_is_lost() {
    let lab = Lab::open();
    let _disk = SmallDisk::mount(&lab.folder().join("data"), "320m");
    let mut cluster = Cluster::up(&lab, 2);
    let client = lab.client("ash");
    for version in ["vers=4.2", "vers=3"] {
        cluster.mount(&client, version);
        client.run("mkdir /mnt/h/d; head -c 20000000 /dev/urandom >/mnt/h/d/kept; sync; sha256sum /mnt/h/d/kept >/tmp/kept");

        let full = client.run_within(
            MINUTES,
            "dd if=/dev/zero of=/mnt/h/d/big bs=1M count=1000 conv=fsync 2>/tmp/said && exit 1
             cat /tmp/said
             # A data server reports its room once a second.
             for i in $(seq 50); do A=$(df --output=avail /mnt/h | tail -1); [ $A -lt 2048 ] && break; sleep 0.1; done; echo $A",
        );
        assert!(full.contains("No space left on device"), "{full}");
        // The file can go nowhere else: its writer does not lose its layout again and again while it writes.
        let recalls = cluster
            .metrics_mds()
            .sum("heorot_operation_latency_seconds_count", &[("operation", "CB_LAYOUTRECALL")]);
        assert_eq!(recalls, 0.0, "recalled layouts\n{full}");
        let available_kib = full.lines().last().and_then(|kib| kib.trim().parse::<u64>().ok());
        assert!(available_kib.is_some_and(|kib| kib < 2048), "df agrees: {full}");
        client.run("sha256sum -c /tmp/kept");

        // Removals work on a full disk, and free space.
        client.run_within(
            MINUTES,
            "rm /mnt/h/d/big
             for i in $(seq 100); do dd if=/dev/zero of=/mnt/h/d/again bs=1M count=10 conv=fsync 2>/tmp/said && exit 0; sleep 0.1; done
             cat /tmp/said; exit 1",
        );
        cluster.kill_all();
        cluster.start_all();
        client.run("sha256sum -c /tmp/kept; [ $(stat -c %s /mnt/h/d/again) = 10485760 ]; rm -r /mnt/h/d; umount /mnt/h");
    }
}

#[test]
fn a_full_disk_under_one_of_three_metaservers_is_noticed_by_no_client() {
    let lab = Lab::open();
    let disk = |n: usize| SmallDisk::mount(&lab.folder().join(format!("group/mds{n}")), "400m");
    let disks = [0, 1, 2].map(disk);
    let mut cluster = Metaservers::start(&lab, 3, 2, 1);
    let ash = lab.client("ash");
    cluster.mount(&ash, 0, "vers=4.2");
    let mut work = Work::begin(&ash, "everything", stalls::EVERYTHING, &["/mnt/h/everything"]);
    work.does_more(10);
    let leader = cluster.leader().expect("somebody leads");
    let follower = (leader + 1) % 3;

    let filler = disks[follower].fill();
    work.does_more(100);
    assert_eq!(cluster.leader(), Some(leader));
    std::fs::remove_file(filler).expect("the file of somebody else");

    let filler = disks[leader].fill();
    cluster
        .wait_until("one leads that has room", |cluster| cluster.leader().is_some_and(|now| now != leader));
    work.does_more(100);
    let said = cluster.log(leader);
    assert!(said.contains("little space for metadata"), "{said}");
    std::fs::remove_file(filler).expect("the file of somebody else");

    // The first full metaserver has caught up: otherwise there would be no quorum without the other one.
    let third = 3 - leader - follower;
    cluster.kill(third);
    work.does_more(100);
    cluster.start_again(third);
    let (rounds, stalls) = work.end();
    let longest = stalls.iter().map(|stall| stall.took).max().unwrap_or_default();
    println!("{} rounds; the longest operation took {longest:?}", rounds.trim());
}
