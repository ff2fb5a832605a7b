//! A lost data server: processes wait for it until it is removed, and then get EIO. None hangs.

use std::time::Duration;

use tests::{Cluster, Lab};

/// Time limit of EIO: a refused connection is retried for a few seconds; a recall without an answer waits for
/// a lease at most.
const TOLD_TIME_MAX: Duration = Duration::from_secs(90);

#[test]
fn processes_that_wait_for_a_data_server_get_eio_when_it_is_removed() {
    let lab = Lab::open();
    let mut cluster = Cluster::separate(&lab, 2);
    let ash = lab.client("ash");
    for (number, version) in [(0, "vers=4.2"), (1, "vers=3")] {
        cluster.mount(&ash, version);
        ash.run(
            "cd /mnt/h; for f in read cut written; do head -c 8000000 /dev/urandom >$f; done; echo small >small
             sync; echo 3 >/proc/sys/vm/drop_caches",
        );
        // The layout exists when the server goes away.
        let writer = "exec 3<>/mnt/h/written; head -c 65536 <&3 >/dev/null; touch /tmp/open
                      until [ -e /tmp/gone ]; do sleep 0.05; done
                      head -c 4000000 /dev/zero >&3 && sync -d /mnt/h/written";
        let writer = ash.spawn(writer);
        ash.run("until [ -e /tmp/open ]; do sleep 0.05; done");
        cluster.ds(number).kill();
        ash.run("touch /tmp/gone");
        let reader = ash.spawn("cat /mnt/h/read >/dev/null");
        let cutter = ash.spawn("truncate -s 1000000 /mnt/h/cut");
        // The processes wait, since the server may come back.
        ash.run("sleep 3");
        assert!(!reader.is_done() && !writer.is_done() && !cutter.is_done(), "{version}: they wait");

        let name = format!("ds{number}");
        cluster.admin(&["node", "remove", &name, "--force"]);
        for (what, process) in [("reader", reader), ("writer", writer), ("cutter", cutter)] {
            let output = process.wait(TOLD_TIME_MAX);
            println!("{version}: {what}: {}", output.text.trim());
            assert!(output.status != 0 && output.text.contains("Input/output error"), "{what}: {output}");
        }
        let files = cluster.admin(&["files", "--on", &name]);
        assert!(files.contains("/read\n") && !files.contains("/small"), "{files}");
        // Other files stay available.
        ash.run_within(
            TOLD_TIME_MAX,
            "cd /mnt/h; [ $(cat small) = small ]; stat read cut written >/dev/null
             head -c 3000000 /dev/zero >new; sync new; [ $(stat -c %s new) = 3000000 ]
             rm read cut written new small",
        );
        // The server is taken back for the next round. Linux ends its session with a data server at the
        // unmount, and waits for an answer at that address.
        cluster.admin(&["node", "undrain", &name]);
        cluster.start_all();
        ash.run("umount /mnt/h; rm /tmp/open /tmp/gone");
    }
}
