//! Clones with a real client: each begins as its snapshot, is written alone, and can outlive it.

use std::time::Duration;

use serde_json::Value;
use tests::copies::until;
use tests::{Cluster, Lab, Metaservers};

use crate::snapshots::{kill_leader, objects, shown, until_done};

fn origin(list: &str, path: &str) -> Option<String> {
    let all: Value = serde_json::from_str(list).expect("JSON");
    let one = all.as_array().expect("an array").iter().find(|volume| volume["path"] == path).cloned();
    one.unwrap_or_else(|| panic!("{path} is not in {list}"))["clone_of"].as_str().map(str::to_owned)
}

#[test]
fn a_clone_begins_as_its_snapshot_is_written_alone_and_can_outlive_it() {
    let lab = Lab::open();
    let cluster = Cluster::separate(&lab, 2);
    let ash = lab.client("ash");
    for version in ["vers=4.2", "vers=3"] {
        println!("--- {version}");
        cluster.admin(&["volume", "create", "/v"]);
        cluster.mount(&ash, version);
        let before = objects(cluster.folder());
        ash.run(
            "cd /mnt/h/v; mkdir -p d/e; echo small >small; echo deep >d/e/deep; ln -s d/e/deep link; ln small d/hard
             head -c 5000000 /dev/urandom >big; head -c 3000000 /dev/urandom >d/cut; cp d/cut d/gone
             cp d/cut d/read; mkdir many; for n in $(seq 200); do echo $n >many/$n; done; sync",
        );
        cluster.admin(&["snapshot", "create", "/v@base"]);
        let first = shown(&ash, "/mnt/h/v");
        let made = objects(cluster.folder());
        assert!(cluster.admin(&["volume", "clone", "/v@base", "/c"]).contains("/c is a clone of /v@base"));
        assert_eq!(shown(&ash, "/mnt/h/c"), first);
        assert_eq!(objects(cluster.folder()), made, "nothing was copied");
        let device = |path: &str| ash.run(&format!("stat -c %d /mnt/h/{path}/."));
        assert_ne!(device("c"), device("v"), "a file system of its own");
        assert_eq!(origin(&cluster.admin(&["volume", "list", "--json"]), "/c").as_deref(), Some("/v@base"));

        if version != "vers=3" {
            for path in ["c/big", "v/.snapshot/base/big"] {
                let before = cluster.traffic();
                ash.run(&format!("echo 3 >/proc/sys/vm/drop_caches; md5sum /mnt/h/{path}"));
                let moved = cluster.traffic().since(&before);
                let is_straight = moved.straight().read >= 5_000_000 && moved.metaserver.read < 1_000_000;
                assert!(is_straight, "{path}: {moved:?}");
            }
        }

        // Each for itself: over data, at the end, shorter, gone, under another name; small files, too.
        ash.run(
            "cd /mnt/h/c; dd if=/dev/urandom of=big bs=4096 count=3 seek=100 conv=notrunc,fsync status=none
             echo other >d/hard; truncate -s 1000 d/cut; rm d/gone; mv d/e f; echo new >new
             rm many/*[02468]; for n in 1 3 5; do echo again >>many/$n; done; sync",
        );
        let of_clone = shown(&ash, "/mnt/h/c");
        assert_eq!(shown(&ash, "/mnt/h/v"), first);
        ash.run(
            "cd /mnt/h/v; head -c 100000 /dev/urandom >>big; rm -r d/read many; echo mine >small; chmod 600 d/cut
             head -c 2000000 /dev/urandom >made; sync",
        );
        assert_eq!(shown(&ash, "/mnt/h/c"), of_clone);
        assert_eq!(shown(&ash, "/mnt/h/v/.snapshot/base"), first);
        let said = ash.try_run("ln /mnt/h/c/new /mnt/h/v/new 2>&1");
        assert!(said.text.contains("cross-device"), "{said:?}");

        // A snapshot of the clone, and a clone of that.
        cluster.admin(&["snapshot", "create", "/c@own"]);
        cluster.admin(&["volume", "clone", "/c@own", "/c/deeper"]);
        ash.run("cd /mnt/h/c; head -c 1000 /dev/urandom >>big; head -c 1000 /dev/urandom >>d/read; sync");
        assert_eq!(shown(&ash, "/mnt/h/c/deeper"), of_clone);
        assert_eq!(shown(&ash, "/mnt/h/c/.snapshot/own"), of_clone);
        let refused = |arguments: &[&str]| cluster.try_admin(arguments).expect_err("refused");
        assert!(refused(&["volume", "clone", "/v@base", "/c"]).contains("/c exists"));
        assert!(refused(&["volume", "clone", "/v@none", "/n"]).contains("no snapshot /v@none"));
        assert!(refused(&["volume", "clone", "/v", "/n"]).contains("names no snapshot"));
        assert!(refused(&["volume", "clone", "/v@base", "/v/.snapshot/base/n"]).contains("is in a snapshot"));
        assert!(refused(&["volume", "clone", "/v@base", "/v/../.."]).contains("does not end in a name"));
        assert!(refused(&["volume", "promote", "/v"]).contains("is no clone"));
        assert!(refused(&["volume", "promote", "/c"]).contains("snapshots of /c"));
        let why = refused(&["snapshot", "remove", "/v@base", "--force"]);
        assert!(why.contains("has clones: /c;"), "{why}");
        ash.run("umount /mnt/h/c/.snapshot/own; umount /mnt/h/c/deeper");
        cluster.admin(&["volume", "remove", "/c/deeper", "--force"]);
        cluster.admin(&["snapshot", "remove", "/c@own", "--force"]);

        let live = shown(&ash, "/mnt/h/c");
        let promoted = cluster.admin(&["volume", "promote", "/c", "--wait"]);
        assert!(promoted.contains("shares with /v@base"), "{promoted}");
        assert_eq!(origin(&cluster.admin(&["volume", "list", "--json"]), "/c"), None);
        ash.run_within(Duration::from_secs(60), "umount -R /mnt/h/v");
        cluster.admin(&["snapshot", "remove", "/v@base", "--force"]);
        cluster.admin(&["volume", "remove", "/v", "--force"]);
        ash.run("echo 3 >/proc/sys/vm/drop_caches");
        assert_eq!(shown(&ash, "/mnt/h/c"), live);
        ash.run("cd /mnt/h/c; echo more >>big; rm -r *; sync");
        until("no object is left", || objects(cluster.folder()) == before);
        ash.run_within(Duration::from_secs(60), "cd /; umount -R /mnt/h");
        cluster.admin(&["volume", "remove", "/c", "--force"]);
        until("the volumes are gone", || !cluster.admin(&["volume", "list"]).contains("removed"));
    }
}

/// Clones that are made, written, promoted and removed while servers are killed: one for each order of the kills.
const ROUNDS: usize = 2;

#[test]
fn clones_are_whole_when_servers_are_killed_while_they_are_made_written_promoted_and_removed() {
    let lab = Lab::open();
    let mut cluster = Metaservers::start(&lab, 3, 2, 1);
    let ash = lab.client("ash");
    cluster.heorot(0, &["volume", "create", "/v"]);
    cluster.mount(&ash, 0, "vers=4.2");
    ash.run(
        "cd /mnt/h/v; mkdir many; for n in $(seq 200); do echo $n >many/$n; done
         for n in $(seq 12); do head -c 1500000 /dev/urandom >big$n; done; sync",
    );
    let first = shown(&ash, "/mnt/h/v");
    cluster.heorot(0, &["snapshot", "create", "/v@base"]);
    let asked = |cluster: &mut Metaservers, arguments: &[&str], is_done: &str, kills: bool| {
        let asked = cluster.begin_heorot(1, arguments);
        if kills {
            kill_leader(cluster);
        }
        drop(asked.wait_with_output());
        until_done(cluster, arguments, is_done);
    };
    for round in 0..ROUNDS {
        let (clone, root) = (format!("/c{round}"), format!("/mnt/h/c{round}"));
        asked(&mut cluster, &["volume", "clone", "/v@base", &clone], "exists", round % 2 == 0);
        assert_eq!(shown(&ash, &root), first, "in round {round}");
        // Objects are copied at these writes, and a data server or the leader goes meanwhile.
        let writes = ash.spawn(&format!(
            "cd {root}; for n in 1 3 5 7; do dd if=/dev/urandom of=big$n bs=4096 count=2 seek=50 conv=notrunc,fsync status=none
             echo more >>many/$n; rm -f many/1$n big1$n; done; mv many moved; sync"
        ));
        match round % 2 {
            0 => {
                let data_server = cluster.data_server(1);
                data_server.kill();
                data_server.start().unwrap_or_else(|error| panic!("{error}"));
            }
            _ => kill_leader(&mut cluster),
        }
        writes.wait(Duration::from_secs(120)).must_succeed("the writes");
        let live = shown(&ash, &root);
        assert_ne!(live, first);
        assert_eq!(shown(&ash, "/mnt/h/v"), first);
        drop(cluster.begin_heorot(2, &["volume", "promote", &clone]).wait_with_output());
        kill_leader(&mut cluster);
        let data_server = cluster.data_server(round % 2);
        data_server.kill();
        data_server.start().unwrap_or_else(|error| panic!("{error}"));
        // A promotion that was not begun is asked for again.
        until_done(&cluster, &["volume", "promote", &clone], "is no clone");
        ash.run("echo 3 >/proc/sys/vm/drop_caches");
        assert_eq!(shown(&ash, &root), live, "in round {round}");
    }
    asked(&mut cluster, &["snapshot", "remove", "/v@base", "--force"], "there is no snapshot", true);
    ash.run("umount -R /mnt/h/v");
    asked(&mut cluster, &["volume", "remove", "/v", "--force"], "no such directory", true);
    let live: Vec<String> = (0..ROUNDS).map(|round| shown(&ash, &format!("/mnt/h/c{round}"))).collect();
    assert!(live.iter().all(|live| live.contains("./big2") && live.contains("./moved/200")));
    ash.run("rm -r /mnt/h/c*/*; sync");
    until("no object is left", || objects(cluster.folder()) == 0);
}
