//! Exports with a real client: `heorot export` makes one read-only, and writable again, and no client is
//! dropped; a client of an exported directory works in it and cannot leave it.

use std::time::Duration;

use tests::{Client, Cluster, Lab};

const MINUTE: Duration = Duration::from_secs(60);
/// Well below the lease: a lost recall ends only at the lease expiry.
const RECALL_TIME_MAX: Duration = Duration::from_secs(15);

#[test]
fn a_mounted_client_finds_its_export_read_only_and_later_writable_again() {
    let lab = Lab::open();
    let mut cluster = Cluster::separate(&lab, 2);
    let ash = lab.client("ash");
    for version in ["vers=4.2", "vers=3"] {
        println!("--- {version}");
        cluster.mount(&ash, version);
        ash.run("mkdir /mnt/h/dir; echo before >/mnt/h/file");
        // A client that has the file open, and in v4.2 a layout for writes, when the export changes.
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
            // The client caches ACCESS until the ctime changes, or a new mount.
            ash.run("umount /mnt/h");
            cluster.mount(&ash, version);
        }
        ash.run("echo after >>/mnt/h/file; mv /mnt/h/file /mnt/h/new; rmdir /mnt/h/dir");
        assert_eq!(ash.run("cat /mnt/h/new; stat -c %s /mnt/h/open"), "before\nafter\n1048576\n");

        // A removed export is there again after it is added.
        cluster.set_exports(&["add / --network 127.0.0.1", "remove / --network *"]);
        let output = ash.try_run("ls /mnt/h/. 2>&1; cat /mnt/h/new 2>&1");
        assert!(output.status != 0, "{output:?}");
        cluster.set_exports(&["add / --network * --squash none", "remove / --network 127.0.0.1"]);
        assert_eq!(ash.run("cat /mnt/h/new"), "before\nafter\n");
        ash.run("rm /mnt/h/new /mnt/h/open; umount /mnt/h; rm /tmp/written /tmp/read-only");
    }
}

/// A client writes directly to the data servers when its network is removed from the exports: its writes end
/// with an error and do not hang, no data server accepts another byte of it, and everything works again when
/// its network is back.
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
    // Data servers apply the change at their next heartbeat; earlier writes of the client go through the
    // metaserver.
    let goes_straight = || {
        let before = cluster.traffic();
        // The first fsync may tell the error of a write that was refused.
        let output = ash.try_run(&format!("set -e; {write}; cmp -n 8388608 /mnt/h/big /dev/zero"));
        let moved = cluster.traffic().since(&before);
        output.status == 0 && (moved.straight().written, moved.metaserver.written) == (8 << 20, 0)
    };
    assert!((0..30).any(|_| goes_straight()), "all goes through the metaserver");
    ash.run("rm /mnt/h/big; umount /mnt/h");
}

/// With v3, which has no OPEN, the client itself checks ACCESS, and returns EACCES.
#[track_caller]
fn refused(client: &Client, version: &str, command: &str) {
    let said = client.run(&format!("{{ {command}; }} 2>&1 && echo DONE; true"));
    let by_the_client = version == "vers=3" && said.contains("Permission denied");
    let refused = said.contains("Read-only file system") || by_the_client;
    assert!(refused && !said.contains("DONE"), "{command}: {said}");
}

/// Opens a file by a handle of the client's kernel, which contains the server's: prints the error, or the
/// content.
const BY_HANDLE: &str = r#"perl -e '
    my ($name_to_handle_at, $open_by_handle_at, $at_fdcwd) = (303, 304, -100);
    my ($what, $mount, $arg) = @ARGV;
    if ($what eq "show") {
        my $handle = pack("Ll", 128, 0) . "\0" x 128; my $id = pack("l", 0);
        syscall($name_to_handle_at, $at_fdcwd, $arg, $handle, $id, 0) == 0 or die "name_to_handle_at: $!";
        print unpack("H*", $handle);
    } else {
        my $handle = pack("H*", $arg);
        open my $dir, "<", $mount or opendir $dir, $mount or die "open: $!";
        my $fd = syscall($open_by_handle_at, fileno $dir, $handle, 0);
        if ($fd < 0) { print $!{ESTALE} ? "ESTALE" : "$!"; exit }
        open my $file, "<&=", $fd or die; print <$file>;
    }' "#;

/// ```text
/// ash  mounts the volume    /projects/a/{f,sub}  /projects/secret  /other
/// elm  mounts /projects/a, and /other read-only
/// ```
#[test]
fn a_client_of_a_directory_works_in_it_and_does_not_leave_it() {
    let lab = Lab::open();
    let mut cluster = Cluster::separate(&lab, 2);
    let (ash, elm) = (lab.client("ash"), lab.client("elm"));
    cluster.mount(&ash, "vers=4.2");
    ash.run("cd /mnt/h; mkdir -p projects/a/sub projects/secret other; echo text >projects/a/f; echo hidden >projects/secret/f");
    let (to_ash, to_elm) = (ash.address(), elm.address());
    cluster.set_exports(&[
        &format!("add / --network {to_ash} --squash none"),
        &format!("add /projects/a --network {to_elm} --squash none"),
        &format!("add /other --network {to_elm} --ro"),
        "remove / --network *",
    ]);
    for version in ["vers=4.2", "vers=4.1", "vers=3"] {
        println!("--- {version}");
        cluster.mount_path_at(&elm, version, "/projects/a", "/mnt/a");
        assert_eq!(
            elm.run("ls /mnt/a; cat /mnt/a/f; cd /mnt/a/sub && cd ../.. && pwd"),
            "f\nsub\ntext\n/mnt\n"
        );
        let refused = elm.try_run(&cluster.mount_path_script(version, "/projects/secret", "/mnt/secret"));
        assert_ne!(refused.status, 0, "{refused:?}");

        // Data go to the data servers, and recalled state is returned.
        let before = cluster.traffic();
        let writer = elm.spawn(
            r#"perl -e 'use IO::Handle;
                open my $f, "+>", "/mnt/a/big" or die; my $x = "a" x (1 << 20);
                for (1..4) { syswrite $f, $x or die } $f->sync or die;
                open my $go, ">", "/tmp/written" or die; close $go;
                until (-e "/tmp/cut") { select undef, undef, undef, 0.05 }
                sysseek $f, 0, 0; syswrite $f, "end" or die; $f->sync or die; close $f or die'"#,
        );
        elm.run("until [ -e /tmp/written ]; do sleep 0.05; done");
        if version != "vers=3" {
            assert_eq!(cluster.traffic().since(&before).metaserver.written, 0, "through the metaserver");
        }
        ash.run_within(RECALL_TIME_MAX, "truncate -s 1000000 /mnt/h/projects/a/big");
        elm.run("touch /tmp/cut");
        writer.wait(MINUTE).must_succeed("the writer");
        // elm has a delegation of a file that it reads (in NFSv4), and ash wants to write it.
        let reader = elm.spawn("exec 3</mnt/a/f; cat <&3 >/dev/null; touch /tmp/open; until [ -e /tmp/changed ]; do sleep 0.05; done");
        elm.run("until [ -e /tmp/open ]; do sleep 0.05; done");
        ash.run_within(RECALL_TIME_MAX, "echo more >>/mnt/h/projects/a/f");
        elm.run("touch /tmp/changed");
        reader.wait(MINUTE).must_succeed("the reader");
        assert_eq!(elm.run("cat /mnt/a/f"), "text\nmore\n");
        ash.run("echo text >/mnt/h/projects/a/f; rm /mnt/h/projects/a/big");

        // Handles of files without an export for elm, and with one.
        let shown = |client: &Client, path: &str| client.run(&format!("{BY_HANDLE} show - {path}"));
        let opened = |handle: &str| elm.run(&format!("{BY_HANDLE} open /mnt/a {handle}"));
        assert_eq!(opened(&shown(&elm, "/mnt/a/f")), "text\n");
        for path in ["/mnt/h/projects/secret/f", "/mnt/h/projects/a/f"] {
            assert_eq!(opened(&shown(&ash, path)), "ESTALE", "{path}");
        }

        // After a rename above the mount the old mount continues; the new path can be mounted, too.
        ash.run("mv /mnt/h/projects /mnt/h/work");
        assert_eq!(elm.run("ls /mnt/a/; cat /mnt/a/f"), "f\nsub\ntext\n");
        cluster.mount_path_at(&elm, version, "/work/a/sub", "/mnt/again");
        elm.run("umount /mnt/again");
        ash.run("mv /mnt/h/work /mnt/h/projects");
        elm.run("umount /mnt/a; rm /tmp/written /tmp/cut /tmp/open /tmp/changed");
    }

    println!("--- the pseudo file system");
    cluster.mount_path_at(&elm, "vers=4.2", "/", "/mnt/root");
    assert_eq!(
        elm.run("cd /mnt/root; ls; ls projects; cat projects/a/f; ls -d projects/../other"),
        "other\nprojects\na\ntext\nprojects/../other\n"
    );
    for command in [
        "touch /mnt/root/new",
        "mkdir /mnt/root/projects/new",
        "rmdir /mnt/root/projects",
        "touch /mnt/root/other/new",
    ] {
        refused(&elm, "vers=4.2", command);
    }
    assert_ne!(elm.try_run("ls /mnt/root/projects/secret").status, 0);
    let across = r#"perl -e 'rename "/mnt/root/projects/a/f", "/mnt/root/other/f" and die; print $!{EXDEV} ? "EXDEV" : "$!"'"#;
    assert_eq!(elm.run(across), "EXDEV");
    elm.run("echo new >/mnt/root/projects/a/new");
    assert_eq!(ash.run("cat /mnt/h/projects/a/new"), "new\n");
    elm.run("umount -R /mnt/root");

    // The log has the reason of elm's refusal once.
    let log = cluster.mds().log_ends();
    assert!(log.contains("client refused") && log.contains("/projects/secret"), "{log}");
}
