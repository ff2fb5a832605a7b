//! Files with copies under real clients: data servers are killed one after another, and all at once, while clients
//! write. Nothing is lost, the copies come back by themselves, and all copies are equal in the end.

use tests::copies::{chains, check_copies, check_file, longest, make_file, until, until_whole};
use tests::stalls::{self, Work};
use tests::{Cluster, Lab, MOUNT_POINT};

const DATA_SERVERS: usize = 4;
/// Size of the file that is written meanwhile, in MiB.
const DATA_MIB: &str = "4";

fn cluster_with_copies(lab: &Lab, copies: usize) -> Cluster {
    let cluster = Cluster::separate(lab, DATA_SERVERS);
    cluster.admin(&["stripe", "set", "/", "--copies", &copies.to_string()]);
    until_whole(&cluster);
    cluster
}

#[test]
fn copies_survive_data_servers_that_are_killed_one_after_another() {
    for copies in [2, 3] {
        let lab = Lab::open();
        let mut cluster = cluster_with_copies(&lab, copies);
        let (pnfs, v3) = (lab.client("pnfs"), lab.client("v3"));
        cluster.mount(&pnfs, "vers=4.2");
        cluster.mount(&v3, "vers=3");
        make_file(&pnfs);
        let begin = |client, name: &str| {
            Work::begin(client, "data", stalls::DATA, &[&format!("{MOUNT_POINT}/{name}"), DATA_MIB])
        };
        let mut works = [begin(&pnfs, "pnfs"), begin(&v3, "v3")];
        works.iter_mut().for_each(|work| work.does_more(1));
        for killed in 0..DATA_SERVERS {
            cluster.ds(killed).kill();
            works.iter_mut().for_each(|work| work.does_more(2));
            check_file(&pnfs);
            cluster.ds(killed).start();
            until_whole(&cluster);
        }
        for (work, version) in works.into_iter().zip(["4.2", "3"]) {
            let (said, stalls) = work.end();
            let longest = longest(&stalls);
            println!(
                "{copies} copies, vers={version}, {} rounds: longest operation {longest:.2} s",
                said.trim()
            );
        }
        pnfs.run("sync");
        v3.run("sync");
        check_copies(&cluster, 0..DATA_SERVERS, copies);
    }
}

#[test]
fn acknowledged_data_survive_all_data_servers_killed_at_once() {
    let lab = Lab::open();
    let mut cluster = cluster_with_copies(&lab, 2);
    let client = lab.client("writer");
    cluster.mount(&client, "vers=4.2");
    make_file(&client);
    let path = format!("{MOUNT_POINT}/work");
    let mut work = Work::begin(&client, "data", stalls::DATA, &[&path, DATA_MIB]);
    work.does_more(1);
    for _ in 0..2 {
        (0..DATA_SERVERS).for_each(|number| cluster.ds(number).kill());
        (0..DATA_SERVERS).for_each(|number| cluster.ds(number).start());
        work.does_more(2);
        check_file(&client);
        until_whole(&cluster);
    }
    let (said, stalls) = work.end();
    println!("all killed at once, {} rounds: longest operation {:.2} s", said.trim(), longest(&stalls));
    client.run("sync");
    check_copies(&cluster, 0..DATA_SERVERS, 2);
}

#[test]
fn copies_move_off_a_data_server_that_drains_and_replace_those_of_a_lost_one() {
    let lab = Lab::open();
    let mut cluster = cluster_with_copies(&lab, 2);
    cluster.admin(&["set", "replace_after", "10s"]);
    let client = lab.client("writer");
    cluster.mount(&client, "vers=4.2");
    make_file(&client);
    let path = format!("{MOUNT_POINT}/work");
    let mut work = Work::begin(&client, "data", stalls::DATA, &[&path, DATA_MIB]);
    work.does_more(1);
    cluster.admin(&["node", "drain", "ds0"]);
    until("the drained data server is empty", || {
        cluster.try_admin(&["node", "remove", "ds0", "--role", "ds"]).is_ok()
    });
    cluster.ds(0).stop();
    work.does_more(2);
    check_file(&client);
    until_whole(&cluster);
    cluster.ds(1).kill();
    until("a copy is missing", || chains(&cluster)["incomplete"] != 0);
    until_whole(&cluster);
    work.does_more(2);
    check_file(&client);
    let (said, stalls) = work.end();
    println!("drained, then lost, {} rounds: longest operation {:.2} s", said.trim(), longest(&stalls));
    client.run("sync");
    check_copies(&cluster, 2..DATA_SERVERS, 2);
}
