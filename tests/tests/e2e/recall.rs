//! Truncation of a file while another client holds a layout: the metaserver recalls the layout first.

use std::time::{Duration, Instant};

use tests::{Cluster, Lab};

/// Well below the lease: a lost recall ends only at the lease expiry.
const RECALL_TIME_MAX: Duration = Duration::from_secs(15);

#[test]
fn a_truncate_recalls_the_layout_of_another_client_which_then_goes_on() {
    let lab = Lab::open();
    let cluster = Cluster::separate(&lab, 4);
    let (ash, elm) = (lab.client("ash"), lab.client("elm"));
    for version in ["vers=4.2", "vers=4.1"] {
        cluster.mount(&ash, version);
        cluster.mount(&elm, version);
        // (The lock makes ash drop its cached pages: without it a client may write whole old pages.) ash
        // writes 8 MiB, and keeps the file open, and with it the layout, until elm has truncated the file.
        let writer = ash.spawn(
            "perl -e '
                use IO::Handle;
                open my $f, \"+>\", \"/mnt/h/f\" or die; my $x = \"a\" x (1 << 20);
                for (1..8) { syswrite $f, $x or die } $f->sync or die;
                open my $go, \">\", \"/tmp/written\" or die; close $go;
                until (-e \"/tmp/cut\") { select undef, undef, undef, 0.05 }
                flock $f, 2 or die; sysseek $f, 3 << 20, 0; syswrite $f, \"end\" or die; $f->sync or die; close $f or die'",
        );
        // Signal files are outside of the file system: a client caches for a while that a name does not
        // exist.
        ash.run("until [ -e /tmp/written ]; do sleep 0.05; done");
        let before = cluster.traffic();
        let asked = Instant::now();
        elm.run_within(RECALL_TIME_MAX, "truncate -s 1000000 /mnt/h/f");
        println!("{version}: cut after {:.2?}", asked.elapsed());
        elm.run("[ $(stat -c %s /mnt/h/f) = 1000000 ]");
        ash.run("touch /tmp/cut");
        writer.wait(RECALL_TIME_MAX).must_succeed("the writer");

        // 1,000,000 bytes of `a`, zeros up to 3 MiB, and the writes of ash after its layout was returned.
        let sum = elm.run("sha256sum </mnt/h/f");
        let expected = elm.run(
            "{ head -c 1000000 /dev/zero | tr '\\0' a; head -c $((3 * 1048576 - 1000000)) /dev/zero; printf end; } | sha256sum",
        );
        assert_eq!(sum, expected);
        let after = cluster.traffic().since(&before);
        assert_eq!(after.metaserver.written, 0, "ash asked for a new layout and wrote straight again");
        elm.run("rm /mnt/h/f; umount /mnt/h");
        ash.run("rm /tmp/written /tmp/cut; umount /mnt/h");
    }
}
