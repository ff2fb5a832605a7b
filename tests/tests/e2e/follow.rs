//! Without service addresses: clients mount a metaserver's own address, and `docs/examples/heorot-follow`
//! next to the mount makes the kernel connect to another metaserver when that one does not answer.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use tests::stalls::{self, Work, clock};
use tests::{Client, Lab, Metaservers, Running};

const METASERVERS: usize = 3;
/// The script probes a silent server twice a second for a second, and then Linux reconnects.
const STALL_MAX: Duration = Duration::from_secs(30);
const WORTH_TELLING: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(100);

/// Starts the script next to the client's mounts.
fn follow(client: &Client, cluster: &Metaservers) -> Running {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/examples/heorot-follow");
    let all: Vec<String> = (0..METASERVERS).map(|n| cluster.own_address(n).to_string()).collect();
    client.spawn(&format!("bash {script} {} >/tmp/followed 2>&1", all.join(" ")))
}

/// Output of the script, and the kernel's state of its connections.
fn said(client: &Client) -> String {
    client.run(
        "cat /tmp/followed /sys/kernel/sunrpc/xprt-switches/*/xprt-*-tcp/{dstaddr,xprt_info} | tr -d '\\0'",
    )
}

/// Metaservers of the client's connections.
fn followed(client: &Client, cluster: &Metaservers) -> Vec<usize> {
    let addresses = client.run("cat /sys/kernel/sunrpc/xprt-switches/*/xprt-*-tcp/dstaddr");
    let places = addresses.lines().filter_map(|line| line.trim().parse::<IpAddr>().ok());
    places.filter_map(|place| (0..METASERVERS).find(|n| cluster.own_address(*n) == place)).collect()
}

/// Waits until no connection of the client goes to `lost`.
#[track_caller]
fn goes_elsewhere(client: &Client, cluster: &Metaservers, lost: usize) {
    let asked = Instant::now();
    while followed(client, cluster).contains(&lost) {
        assert!(asked.elapsed() < LONG, "it is still at mds{lost}: {}", said(client));
        std::thread::sleep(POLL);
    }
}

#[test]
fn a_client_follows_when_its_metaserver_is_killed_or_cut_off() {
    let lab = Lab::open();
    let mut cluster = Metaservers::start(&lab, METASERVERS, 2, 0);
    let ash = lab.client("ash");
    cluster.mount_from(&ash, cluster.own_address(0), "vers=4.2");
    assert_eq!(followed(&ash, &cluster), [0]);
    let script = follow(&ash, &cluster);
    let mut works = [
        Work::begin(&ash, "everything", stalls::EVERYTHING, &["/mnt/h/everything"]),
        Work::begin(&ash, "counts", stalls::COUNTS, &["/mnt/h/count"]),
        Work::begin(&ash, "data", stalls::DATA, &["/mnt/h/data", "4"]),
    ];
    let mut lost = vec![];
    for how in ["killed", "cut off"] {
        works.iter_mut().for_each(|work| work.does_more(2));
        let at = followed(&ash, &cluster)[0];
        lost.push((how, clock(&ash)));
        if how == "killed" {
            cluster.kill(at)
        } else {
            cluster.set_cut_off(at, true)
        }
        goes_elsewhere(&ash, &cluster, at);
        works.iter_mut().for_each(|work| work.does_more(2));
        if how == "killed" {
            cluster.start_again(at)
        } else {
            cluster.set_cut_off(at, false)
        }
        cluster.wait_until("it is back", |cluster| !cluster.status(at).is_null());
    }
    works.iter_mut().for_each(|work| work.does_more(2));
    let stalls: Vec<_> = works.into_iter().flat_map(|work| work.end().1).collect();
    for (how, began) in lost {
        println!("{how} at {began:.2}");
    }
    for stall in stalls.iter().filter(|stall| stall.took > WORTH_TELLING) {
        println!("    {stall}, begun at {:.2}", stall.began);
    }
    let longest = stalls.iter().max_by_key(|stall| stall.took);
    assert!(longest.is_none_or(|stall| stall.took < STALL_MAX), "{longest:?}");
    assert!(!script.is_done(), "{}", script.wait(LONG));
    script.kill();
    println!("{}", ash.run("cat /tmp/followed"));
    ash.run("umount /mnt/h");
}

/// One session over a connection to each metaserver: requests on the lost one move to another.
#[test]
#[ignore = "a minute: make failover"]
fn a_client_with_a_connection_to_each_metaserver_follows_with_each_of_them() {
    let lab = Lab::open();
    let mut cluster = Metaservers::start(&lab, METASERVERS, 2, 0);
    let ash = lab.client("ash");
    cluster.mount_from(&ash, cluster.own_address(0), "vers=4.2,trunkdiscovery,max_connect=3");
    let mut at = followed(&ash, &cluster);
    at.sort_unstable();
    assert_eq!(at, [0, 1, 2]);
    let script = follow(&ash, &cluster);
    let mut work = Work::begin(&ash, "everything", stalls::EVERYTHING, &["/mnt/h/everything"]);
    for lost in [1, 0, 2] {
        work.does_more(5);
        println!("mds{lost} is killed at {:.2}", clock(&ash));
        cluster.kill(lost);
        goes_elsewhere(&ash, &cluster, lost);
        work.does_more(5);
        cluster.start_again(lost);
    }
    work.does_more(5);
    for stall in work.end().1.iter().filter(|stall| stall.took > WORTH_TELLING) {
        println!("    {stall}, begun at {:.2}", stall.began);
    }
    script.kill();
    println!("{}", ash.run("cat /tmp/followed"));
    ash.run("umount /mnt/h");
}
