//! Files with copies: data servers are killed many times while real clients write, and while the members that
//! came back are refilled. Nothing is lost, and the stalls are printed. `make copies` runs it; data servers that hang, or are
//! cut off, are in `data_addresses`.

use std::time::Duration;

use tests::copies::{chains, check_copies, until, until_whole};
use tests::kills::{Kills, number};
use tests::stalls::{self, Work, clock};
use tests::{Client, Cluster, Lab, MOUNT_POINT};

const DATA_SERVERS: usize = 4;
/// Kills with each number of copies.
const KILLS: usize = 4;
/// Size of the file that is there before, in MiB.
const DATA_MIB: usize = 256;
/// Limit of a stall. The goal is 5 s, the median at most 2 s.
const STALL_MAX: Duration = Duration::from_secs(12);
/// Makes the file that is there before; returns its checksum.
fn make(client: &Client) -> String {
    let mib = number("HEOROT_DATA_MIB", DATA_MIB);
    client.run(&format!(
        "head -c {mib}M /dev/urandom | tee {MOUNT_POINT}/before | sha256sum; sync {MOUNT_POINT}/before"
    ))
}

/// Reads the file at the data servers.
fn sum(client: &Client) -> String {
    client.run(&format!("echo 3 >/proc/sys/vm/drop_caches; sha256sum <{MOUNT_POINT}/before"))
}

/// Waits until the next fault may come: with two copies, until all are there again; with three, as soon as the members
/// that came back are refilled.
fn until_next(cluster: &Cluster, copies: usize) {
    match copies {
        2 => until_whole(cluster),
        _ => until("members are refilled", || {
            let chains = chains(cluster);
            chains["incomplete"].as_u64() <= chains["refilling"].as_u64() && chains["waiting"] == 0
        }),
    }
}

#[test]
#[ignore = "many minutes: make copies"]
fn copies_survive_many_data_servers_that_are_killed() {
    for copies in [2, 3] {
        let lab = Lab::open();
        let mut cluster = Cluster::separate(&lab, DATA_SERVERS);
        cluster.admin(&["stripe", "set", "/", "--copies", &copies.to_string()]);
        until_whole(&cluster);
        let (pnfs, v3) = (lab.client("pnfs"), lab.client("v3"));
        cluster.mount(&pnfs, "vers=4.2");
        cluster.mount(&v3, "vers=3");
        let wanted = make(&pnfs);
        let begin = |client, name: &str| {
            Work::begin(client, "data", stalls::DATA, &[&format!("{MOUNT_POINT}/{name}"), "16"])
        };
        let mut works = [begin(&pnfs, "pnfs"), begin(&v3, "v3")];
        works.iter_mut().for_each(|work| work.does_more(1));
        let mut kills = Kills::default();
        for round in 0..number("HEOROT_KILLS", KILLS) {
            let victim = round % DATA_SERVERS;
            kills.0.push(clock(&pnfs));
            cluster.ds(victim).kill();
            works.iter_mut().for_each(|work| work.does_more(1));
            cluster.ds(victim).start();
            works.iter_mut().for_each(|work| work.does_more(1));
            if round % 5 == 4 {
                assert_eq!(sum(&pnfs), wanted, "{copies} copies, after round {round}");
            }
            until_next(&cluster, copies);
        }
        for (work, version) in works.into_iter().zip(["4.2", "3"]) {
            let (said, stalls) = work.end();
            let what = format!("{copies} copies, killed, vers={version}, {} rounds", said.trim());
            kills.tell(&what, &stalls, STALL_MAX);
        }
        until_whole(&cluster);
        assert_eq!(sum(&pnfs), wanted, "{copies} copies");
        pnfs.run("sync");
        v3.run("sync");
        check_copies(&cluster, 0..DATA_SERVERS, copies);
    }
}
