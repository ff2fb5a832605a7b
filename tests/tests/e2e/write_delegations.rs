//! Write delegations with real clients: one that makes a file, or is the only one to write it, opens, locks and closes it
//! without a call to the server, and others see all that it wrote. Calls are counted at the server.

use std::time::Duration;

use tests::{Cluster, Lab};

/// Time limit for a busy machine; well above a lease.
const SLOW: Duration = Duration::from_secs(180);

/// ```text
/// ash  make 60 files, close       elm  read each at once, list them with their sizes     what ash wrote
/// ash  append to one, 30 times    no OPEN, no CLOSE                                       elm sees all
/// ash  lock a part, by itself     elm  wait for the lock: ash's is told to the server
/// ```
#[test]
fn an_only_writer_asks_nobody_and_others_see_what_it_wrote() {
    let lab = Lab::open();
    let mut cluster = Cluster::separate(&lab, 2);
    let (ash, elm) = (lab.client("ash"), lab.client("elm"));
    for (version, of_elm) in [("vers=4.2", "vers=4.2"), ("vers=4.1", "vers=3")] {
        cluster.mount(&ash, version);
        cluster.mount(&elm, of_elm);
        // What was closed is seen, also its size in a listing, and by a look at its attributes alone.
        ash.run("cd /mnt/h; mkdir d; for i in $(seq 60); do head -c $((i * 100)) /dev/zero | tr '\\0' x >d/$i; done");
        let sizes = elm
            .run_within(SLOW, "cd /mnt/h/d; stat -c %s 1; ls -l | awk 'NR > 1 {sum += $5} END {print sum}'");
        assert_eq!(sizes, "100\n183000\n", "{version}");
        let bytes = elm.run_within(SLOW, "cd /mnt/h/d; for i in $(seq 60); do cat $i; done | wc -c");
        assert_eq!(bytes, "183000\n", "{version}");
        ash.run_within(SLOW, "rm -r /mnt/h/d");
        elm.run_within(SLOW, "umount /mnt/h");
        ash.run_within(SLOW, "umount /mnt/h");

        // A mount of its own: others have used ash's files a moment ago.
        let oak = lab.client(if version == "vers=4.2" { "oak" } else { "fir" });
        cluster.mount(&oak, version);
        oak.run("cd /mnt/h; echo 0 >log");
        let before = Counts::of(&cluster);
        oak.run("cd /mnt/h; for i in $(seq 30); do echo $i >>log; done; [ $(wc -l <log) = 31 ]");
        let after = Counts::of(&cluster);
        assert_eq!(after.opens, before.opens, "{version}: appended");
        // The CLOSE of the first one comes after its data.
        assert!(after.closes <= before.closes + 1, "{version}: {before:?}, {after:?}");

        // Locks of one that is alone are its own; they are told when another one comes.
        let locker = oak.spawn(
            "exec 5<>/mnt/h/log; flock -x 5; echo locked >/tmp/locked; until [ -e /tmp/go ]; do sleep 0.05; done
             echo last >>/mnt/h/log; flock -u 5; rm /tmp/locked /tmp/go",
        );
        oak.run("until [ -e /tmp/locked ]; do sleep 0.05; done");
        assert_eq!(Counts::of(&cluster).locks, before.locks, "{version}: the server was not asked");
        cluster.mount(&elm, "vers=4.2");
        elm.run_within(SLOW, "! flock -n -x /mnt/h/log true");
        let waiter = elm.spawn("flock -x /mnt/h/log tail -n 1 /mnt/h/log");
        oak.run("touch /tmp/go");
        assert_eq!(waiter.wait(SLOW).must_succeed("the other"), "last\n", "{version}");
        locker.wait(SLOW).must_succeed("the first");
        assert!(Counts::of(&cluster).locks > before.locks, "{version}: both locks are the server's");
        elm.run_within(SLOW, "umount /mnt/h");

        // A crash of all servers: the delegation is there, and what was written under it.
        oak.run("cd /mnt/h; rm log; echo made >kept");
        cluster.kill_all();
        cluster.start_all();
        oak.run_within(SLOW, "cd /mnt/h; echo more >>kept; echo new >after");
        cluster.mount(&elm, "vers=4.2");
        assert_eq!(elm.run_within(SLOW, "cd /mnt/h; cat kept after"), "made\nmore\nnew\n", "{version}");
        for client in [&oak, &elm] {
            client.run_within(SLOW, "rm -f /mnt/h/*; umount /mnt/h");
        }
    }
}

/// ```text
/// ash  make 300 files, die        elm  read each: it waits for a lease at most, once
/// ```
#[test]
fn a_dead_writer_holds_others_up_once() {
    let lab = Lab::open();
    let cluster = Cluster::separate(&lab, 1);
    let (ash, elm) = (lab.client("ash"), lab.client("elm"));
    cluster.mount(&ash, "vers=4.2");
    ash.run_within(SLOW, "cd /mnt/h; for i in $(seq 300); do echo $i >$i; done; sync");
    let held = Counts::of(&cluster);
    assert!(held.returns < 10, "{held:?}: it has nearly all of them");
    let clients: serde_json::Value =
        serde_json::from_str(&cluster.admin(&["client", "list", "--json"])).expect("JSON");
    let has = clients[0]["write_delegations"].as_u64();
    assert!(
        has.is_some_and(|has| has > 290) && clients.as_array().is_some_and(|all| all.len() == 1),
        "{clients}"
    );
    assert!(cluster.admin(&["client", "list"]).contains("ash"));
    drop(ash);
    cluster.mount(&elm, "vers=4.2");
    // A wait of a recall for each would take ten minutes.
    let read =
        elm.run_within(SLOW, "cd /mnt/h; for i in $(seq 300); do cat $i; done | sort -n | uniq | wc -l");
    assert_eq!(read, "300\n");
    elm.run_within(SLOW, "umount /mnt/h");
}

/// Counters of the metaserver since its start.
#[derive(Debug, Clone, Copy)]
struct Counts {
    opens: i64,
    closes: i64,
    locks: i64,
    returns: i64,
}

impl Counts {
    #[expect(clippy::cast_possible_truncation, reason = "small counts")]
    fn of(cluster: &Cluster) -> Counts {
        let metrics = cluster.metrics_mds();
        let sum = |operation| {
            let labels = [("protocol", "nfs4"), ("operation", operation)];
            metrics.sum("heorot_operation_latency_seconds_count", &labels) as i64
        };
        Counts { opens: sum("OPEN"), closes: sum("CLOSE"), locks: sum("LOCK"), returns: sum("DELEGRETURN") }
    }
}
