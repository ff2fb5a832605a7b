//! Files that were made with one copy get copies, or move off a data server that drains, while clients use them.

use tests::copies::{check_copies, check_file, longest, make_file, until, until_whole};
use tests::stalls::{self, Work};
use tests::{Client, Cluster, Lab, MOUNT_POINT};

const DATA_SERVERS: usize = 4;
/// Size of the files that are written meanwhile, in MiB.
const DATA_MIB: &str = "4";

/// A cluster whose files have one copy.
fn cluster_with_one_copy(lab: &Lab) -> Cluster {
    let cluster = Cluster::separate(lab, DATA_SERVERS);
    cluster.admin(&["stripe", "set", "/", "--copies", "1"]);
    cluster
}

/// Makes files, and has two clients write others.
fn begin<'a>(cluster: &Cluster, pnfs: &'a Client, v3: &'a Client) -> [Work<'a>; 2] {
    cluster.mount(pnfs, "vers=4.2");
    cluster.mount(v3, "vers=3");
    make_file(pnfs);
    pnfs.run(&format!("echo small > {MOUNT_POINT}/small"));
    let mut works = [(pnfs, "pnfs"), (v3, "v3")].map(|(client, name)| {
        Work::begin(client, "data", stalls::DATA, &[&format!("{MOUNT_POINT}/{name}"), DATA_MIB])
    });
    works.iter_mut().for_each(|work| work.does_more(1));
    works
}

fn end(works: [Work<'_>; 2], what: &str) {
    for (work, version) in works.into_iter().zip(["4.2", "3"]) {
        let (said, stalls) = work.end();
        println!(
            "{what}, vers={version}, {} rounds: longest operation {:.2} s",
            said.trim(),
            longest(&stalls)
        );
    }
}

#[test]
fn files_with_one_copy_get_copies_while_they_are_written_and_survive_each_data_server() {
    let lab = Lab::open();
    let mut cluster = cluster_with_one_copy(&lab);
    let (client, v3) = (lab.client("pnfs"), lab.client("v3"));
    let mut works = begin(&cluster, &client, &v3);
    let said = cluster.admin(&["stripe", "apply", "/"]);
    assert!(said.contains("comes first"), "{said}");
    cluster.admin(&["stripe", "set", "/", "--copies", "2"]);
    // Files in use may need a second run.
    until("all files get copies", || cluster.try_admin(&["stripe", "apply", "/"]).is_ok());
    works.iter_mut().for_each(|work| work.does_more(1));
    until_whole(&cluster);
    for killed in 0..DATA_SERVERS {
        cluster.ds(killed).kill();
        works.iter_mut().for_each(|work| work.does_more(1));
        check_file(&client);
        cluster.ds(killed).start();
        until_whole(&cluster);
    }
    // A file whose data were with its inode grows.
    client.run(&format!("head -c 1000000 /dev/zero >> {MOUNT_POINT}/small"));
    end(works, "copies for old files");
    client.run("sync");
    check_copies(&cluster, 0..DATA_SERVERS, 2);
    let again = cluster.admin(&["stripe", "apply", "/"]);
    assert!(again.contains(" 0 get copies"), "{again}");
}

#[test]
fn files_with_one_copy_move_off_a_data_server_that_drains() {
    let lab = Lab::open();
    let mut cluster = cluster_with_one_copy(&lab);
    let (client, v3) = (lab.client("pnfs"), lab.client("v3"));
    let mut works = begin(&cluster, &client, &v3);
    cluster.admin(&["node", "drain", "ds0"]);
    until("the drained data server is empty", || {
        cluster.try_admin(&["node", "remove", "ds0", "--role", "ds"]).is_ok()
    });
    cluster.ds(0).stop();
    works.iter_mut().for_each(|work| work.does_more(2));
    check_file(&client);
    until_whole(&cluster);
    // Its chains have one copy, and move again.
    cluster.admin(&["node", "drain", "ds1"]);
    until("the second is empty", || cluster.try_admin(&["node", "remove", "ds1", "--role", "ds"]).is_ok());
    cluster.ds(1).stop();
    works.iter_mut().for_each(|work| work.does_more(2));
    check_file(&client);
    end(works, "one copy, drained");
    client.run("sync");
    check_copies(&cluster, 2..DATA_SERVERS, 1);
}
