//! Read delegations with real clients: a reader opens a file again without a call to the server, until
//! another client changes it. OPENs and callbacks are counted at the server.

use std::time::Duration;

use tests::{Client, Cluster, Lab};

/// Time limit for a busy machine; well above a lease.
const SLOW: Duration = Duration::from_secs(180);

#[test]
fn a_reader_opens_again_without_asking_until_somebody_writes() {
    let lab = Lab::open();
    let mut cluster = Cluster::separate(&lab, 2);
    let (ash, elm) = (lab.client("ash"), lab.client("elm"));
    for version in ["vers=4.2", "vers=4.1"] {
        cluster.mount(&ash, version);
        cluster.mount(&elm, version);
        elm.run("cd /mnt/h; for f in read open removed renamed mode v3 kept; do echo first >$f; done");

        // The second open gets the delegation, and all later ones are local to the client.
        assert_eq!(ash.run("cat /mnt/h/read /mnt/h/read"), "first\nfirst\n");
        let before = Counts::of(&cluster);
        ash.run("for i in $(seq 5); do [ $(cat /mnt/h/read) = first ] || exit 1; done");
        let after = Counts::of(&cluster);
        assert_eq!((after.opens, after.recalls), (before.opens, before.recalls), "{version}: opened again");

        // A writer causes a recall first; the reader sees the new data, and calls the server from then on.
        elm.run_within(SLOW, "echo second >/mnt/h/read");
        assert_eq!(ash.run("cat /mnt/h/read"), "second\n");
        let recalled = Counts::of(&cluster);
        assert_eq!((recalled.recalls - after.recalls, recalled.returns - after.returns), (1, 1), "{version}");
        ash.run("for i in 1 2; do [ $(cat /mnt/h/read) = second ] || exit 1; done");
        assert_eq!(
            Counts::of(&cluster).opens - recalled.opens,
            2,
            "{version}: nobody delegates what is written"
        );

        // A file that stays open: the client sends its open to the server, and then returns the delegation.
        // (Reads through it may return old data: a client checks its pages when it opens.)
        ash.run("cat /mnt/h/open /mnt/h/open");
        let reader = ash.spawn(
            "exec 5</mnt/h/open; echo >/tmp/opened; until [ -e /tmp/changed ]; do sleep 0.05; done
             cat <&5 >/dev/null; cat /mnt/h/open; rm /tmp/opened /tmp/changed",
        );
        ash.run("until [ -e /tmp/opened ]; do sleep 0.05; done");
        elm.run_within(SLOW, "echo changed >/mnt/h/open");
        ash.run("touch /tmp/changed");
        assert_eq!(reader.wait(SLOW).must_succeed("the reader"), "changed\n");

        // Names and attributes cause a recall, too, since a reader caches them.
        ash.run("cd /mnt/h; for i in 1 2; do cat removed renamed mode v3; done >/dev/null");
        let before = Counts::of(&cluster);
        elm.run_within(SLOW, "cd /mnt/h; rm removed; mv renamed moved; chmod 640 mode");
        assert_eq!(Counts::of(&cluster).recalls - before.recalls, 3, "{version}");
        ash.run(
            "cd /mnt/h; ! cat removed 2>/dev/null; [ $(cat moved) = first ]; cat mode >/dev/null; [ $(stat -c %a mode) = 640 ]",
        );

        // A client of v3 has no delegations, and waits for recalls all the same.
        cluster.mount_at(&elm, "vers=3", "/mnt/three");
        elm.run_within(SLOW, "echo third >/mnt/three/v3; umount /mnt/three");
        assert_eq!(ash.run("cat /mnt/h/v3"), "third\n");

        // A client's own changes conflict with nothing, and cause no callback.
        let before = Counts::of(&cluster);
        ash.run(
            "cd /mnt/h; [ $(cat moved) = first ]; echo mine >>moved; [ $(tail -n 1 moved) = mine ]; rm moved",
        );
        assert_eq!(Counts::of(&cluster).recalls, before.recalls, "{version}: its own");

        // After a crash of all servers the delegation still exists, and must still be recalled.
        ash.run("cat /mnt/h/kept /mnt/h/kept");
        cluster.kill_all();
        cluster.start_all();
        // A new file makes both clients reconnect.
        ash.run_within(SLOW, "touch /mnt/h/ash");
        elm.run_within(SLOW, "touch /mnt/h/elm");
        let before = Counts::of(&cluster);
        assert_eq!(ash.run("cat /mnt/h/kept"), "first\n");
        assert_eq!(Counts::of(&cluster).opens, before.opens, "{version}: after the crash");
        elm.run_within(SLOW, "echo later >/mnt/h/kept");
        assert_eq!(ash.run("cat /mnt/h/kept"), "later\n");
        elm.run_within(SLOW, "rm /mnt/h/*");
        unmount(&[&ash, &elm]);
    }

    // A dead reader returns nothing: its delegation conflicts only until its lease expires.
    for client in [&ash, &elm] {
        cluster.mount(client, "vers=4.2");
    }
    elm.run("echo first >/mnt/h/orphaned");
    ash.run("cat /mnt/h/orphaned /mnt/h/orphaned");
    drop(ash);
    elm.run_within(SLOW, "echo second >/mnt/h/orphaned; umount /mnt/h");
}

fn unmount(clients: &[&Client]) {
    for client in clients {
        client.run_within(SLOW, "umount /mnt/h");
    }
}

/// Counters of the metaserver since its start.
#[derive(Debug, Clone, Copy)]
struct Counts {
    opens: i64,
    returns: i64,
    recalls: i64,
}

impl Counts {
    #[expect(clippy::cast_possible_truncation, reason = "small counts")]
    fn of(cluster: &Cluster) -> Counts {
        let metrics = cluster.metrics_mds();
        let sum = |protocol, operation| {
            let labels = [("protocol", protocol), ("operation", operation)];
            metrics.sum("heorot_operation_latency_seconds_count", &labels) as i64
        };
        Counts {
            opens: sum("nfs4", "OPEN"),
            returns: sum("nfs4", "DELEGRETURN"),
            recalls: sum("nfs4_cb", "CB_RECALL"),
        }
    }
}
