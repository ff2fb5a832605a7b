//! Exports that change under a real client: `heorot export` makes one read-only, and writable again, and nobody is dropped.

use std::time::Duration;

use tests::{Client, Cluster, Lab};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn a_mounted_client_finds_its_export_read_only_and_later_writable_again() {
    let lab = Lab::open();
    let mut cluster = Cluster::separate(&lab, 2);
    let ash = lab.client("ash");
    for version in ["vers=4.2", "vers=3"] {
        println!("--- {version}");
        cluster.mount(&ash, version);
        ash.run("mkdir /mnt/h/dir; echo before >/mnt/h/file");
        // One that has the file open, and in v4.2 a layout to write through, when the export changes.
        let writer = ash.spawn(
            r#"perl -e 'use IO::Handle; use Errno;
                open my $f, "+>", "/mnt/h/open" or die; my $x = "a" x (1 << 20);
                syswrite $f, $x or die "write: $!"; $f->sync or die "sync: $!";
                open my $go, ">", "/tmp/written" or die; close $go;
                until (-e "/tmp/read-only") { select undef, undef, undef, 0.05 }
                syswrite $f, $x; print $f->sync ? "synced" : $!{EROFS} ? "EROFS" : "$!"; close $f'"#,
        );
        ash.run("until [ -e /tmp/written ]; do sleep 0.05; done");
        cluster.set_exports(&["set / --ro"]);
        for command in [
            "touch /mnt/h/new",
            "mkdir /mnt/h/new",
            "ln /mnt/h/file /mnt/h/new",
            "ln -s file /mnt/h/new",
            "mv /mnt/h/file /mnt/h/new",
            "rm -f /mnt/h/file",
            "rmdir /mnt/h/dir",
            "chmod 600 /mnt/h/file",
            "chown 7:7 /mnt/h/file",
            "touch /mnt/h/file",
            "truncate -s 0 /mnt/h/file",
            "sh -c 'echo more >>/mnt/h/file'",
            "mkfifo /mnt/h/new",
        ] {
            refused(&ash, version, command);
        }
        assert_eq!(ash.run("cat /mnt/h/file; ls /mnt/h"), "before\ndir\nfile\nopen\n");
        ash.run("touch /tmp/read-only");
        let said = writer.wait(MINUTE).must_succeed("the writer");
        assert_eq!(said, "EROFS", "what was written after the change");

        cluster.set_exports(&["set / --rw"]);
        if version == "vers=3" {
            // The client keeps what ACCESS answered until the ctime changes, or it mounts again.
            ash.run("umount /mnt/h");
            cluster.mount(&ash, version);
        }
        ash.run("echo after >>/mnt/h/file; mv /mnt/h/file /mnt/h/new; rmdir /mnt/h/dir");
        assert_eq!(ash.run("cat /mnt/h/new; stat -c %s /mnt/h/open"), "before\nafter\n1048576\n");

        // Taken away altogether, it is there again when it comes back.
        cluster.set_exports(&["add / --network 127.0.0.1", "remove / --network *"]);
        let output = ash.try_run("ls /mnt/h/. 2>&1; cat /mnt/h/new 2>&1");
        assert!(output.status != 0, "{output:?}");
        cluster.set_exports(&["add / --network * --squash none", "remove / --network 127.0.0.1"]);
        assert_eq!(ash.run("cat /mnt/h/new"), "before\nafter\n");
        ash.run("rm /mnt/h/new /mnt/h/open; umount /mnt/h; rm /tmp/written /tmp/read-only");
    }
}

/// A client that writes straight to the data servers when its network is taken out of the exports: its writes end with an error and
/// do not hang, no data server takes another byte of it, and all is as before when its network is back.
#[test]
fn a_client_that_is_not_exported_to_any_more_writes_to_no_data_server_and_hangs_at_none() {
    let lab = Lab::open();
    let mut cluster = Cluster::separate(&lab, 2);
    let ash = lab.client("ash");
    cluster.mount(&ash, "vers=4.2");
    let write = "dd if=/dev/zero of=/mnt/h/big bs=1M count=8 conv=notrunc,fsync 2>&1";
    ash.run(write);
    let writer = ash.spawn(&format!("while {write}; do touch /tmp/writes; done"));
    ash.run("until [ -e /tmp/writes ]; do sleep 0.05; done");
    cluster.set_exports(&["add / --network 127.0.0.1", "remove / --network *"]);
    let said = writer.wait(MINUTE).must_succeed("the writer");
    assert!(said.contains("Permission denied") || said.contains("Input/output error"), "{said}");
    let before = cluster.traffic();
    let output = ash.try_run(write);
    assert!(output.status != 0, "{output:?}");
    assert_eq!(cluster.traffic().since(&before).straight().written, 0);

    cluster.set_exports(&["add / --network * --squash none", "remove / --network 127.0.0.1"]);
    // Data servers hear of it with their next heartbeat; what the client writes before that goes through the metaserver.
    let goes_straight = || {
        let before = cluster.traffic();
        ash.run(&format!("{write}; cmp -n 8388608 /mnt/h/big /dev/zero"));
        let moved = cluster.traffic().since(&before);
        (moved.straight().written, moved.metaserver.written) == (8 << 20, 0)
    };
    assert!((0..30).any(|_| goes_straight()), "all goes through the metaserver");
    ash.run("rm /mnt/h/big; umount /mnt/h");
}

/// Over v3, which has no OPEN, the client itself asks with ACCESS what it may, and says EACCES.
#[track_caller]
fn refused(client: &Client, version: &str, command: &str) {
    let said = client.run(&format!("{{ {command}; }} 2>&1 && echo DONE; true"));
    let by_the_client = version == "vers=3" && said.contains("Permission denied");
    let refused = said.contains("Read-only file system") || by_the_client;
    assert!(refused && !said.contains("DONE"), "{command}: {said}");
}
