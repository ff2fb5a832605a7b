//! Volumes with a real client: it walks into them, and each is a file system of its own to it.

use std::time::Duration;

use tests::copies::until;
use tests::{Client, Cluster, Lab, MOUNT_POINT};

const MINUTE: Duration = Duration::from_secs(60);

/// Device numbers of these paths, in a row.
fn devices(client: &Client, paths: &[&str]) -> Vec<String> {
    let said = client.run(&format!("cd {MOUNT_POINT}; stat -c %d {}", paths.join(" ")));
    said.lines().map(str::to_owned).collect()
}

/// Number of volumes, and of inodes of those that are being removed.
fn volumes(cluster: &Cluster) -> (usize, u64) {
    let all: serde_json::Value =
        serde_json::from_str(&cluster.admin(&["volume", "list", "--json"])).expect("JSON");
    let all = all.as_array().expect("an array");
    let going = all.iter().filter(|volume| volume["path"].is_null());
    let left = going.map(|volume| volume["inodes"].as_u64().expect("a number")).sum();
    (all.iter().filter(|volume| volume["path"].is_string()).count(), left)
}

fn deferred_ops(cluster: &Cluster) -> u64 {
    let status: serde_json::Value = serde_json::from_str(&cluster.status_json()).expect("JSON");
    status["deferred_ops"].as_u64().expect("a number")
}

#[test]
fn a_client_walks_into_volumes_and_no_name_leads_from_one_to_another() {
    let lab = Lab::open();
    let cluster = Cluster::separate(&lab, 2);
    let ash = lab.client("ash");
    for version in ["vers=4.2", "vers=4.1", "vers=3"] {
        println!("--- {version}");
        cluster.mount(&ash, version);
        ash.run("mkdir /mnt/h/dir");
        assert_eq!(cluster.admin(&["volume", "create", "/dir/a"]), "/dir/a is a volume\n");
        cluster.admin(&["volume", "create", "/dir/a/within", "--columns", "1", "--unit", "1MiB"]);
        let of = devices(&ash, &[".", "dir", "dir/a/.", "dir/a/within/."]);
        assert!(of[0] == of[1] && of[1] != of[2] && of[2] != of[3] && of[3] != of[0], "{of:?}");

        ash.run(
            "cd /mnt/h/dir; echo one >one; cd a; echo two >two; mkdir d; head -c 3000000 /dev/urandom >d/big
             cp d/big within/big; cmp d/big within/big; cd d/..; test \"$(pwd)\" = /mnt/h/dir/a
             test \"$(cat ../one)\" = one; test \"$(ls -d within/.. | wc -l)\" = 1",
        );
        for refused in [
            r#"perl -e 'rename "dir/a/d", "dir/d" or die $!'"#,
            r#"perl -e 'rename "dir/one", "dir/a/one" or die $!'"#,
            "ln dir/one dir/a/one",
            "ln dir/a/two dir/two",
        ] {
            let said = ash.try_run(&format!("cd /mnt/h; {refused} 2>&1"));
            assert!(said.status != 0 && said.text.contains("cross-device link"), "{refused}: {said:?}");
        }
        // find and du see each volume once.
        assert_eq!(
            ash.run("cd /mnt/h/dir; find . | sort | tr '\\n' ' '").trim(),
            ". ./a ./a/d ./a/d/big ./a/two ./a/within ./a/within/big ./one"
        );
        assert_eq!(ash.run("cd /mnt/h/dir; find . -xdev -name two"), "", "it stays in its file system");
        // In use as a mount point here; without that it is an administrator's.
        ash.run("umount /mnt/h/dir/a/within /mnt/h/dir/a");
        let said = ash.try_run("rmdir /mnt/h/dir/a 2>&1");
        assert!(said.status != 0 && said.text.contains("not permitted"), "{said:?}");
        ash.run("cd /mnt/h/dir; mv a b; test \"$(cat b/two)\" = two");

        // What an operator may try.
        let refused = |arguments: &[&str]| cluster.try_admin(arguments).expect_err("refused");
        assert!(refused(&["volume", "create", "/dir/b"]).contains("/dir/b exists"));
        assert!(refused(&["volume", "create", "/nowhere/b"]).contains("/nowhere: no such directory"));
        assert!(refused(&["volume", "create", "/"]).contains("does not end in a name"));
        assert!(refused(&["volume", "remove", "/"]).contains("the first volume, which is always there"));
        assert!(refused(&["volume", "remove", "/dir"]).contains("a directory, and no volume"));
        assert!(refused(&["volume", "remove", "/dir/b", "--force"]).contains("other volumes are in /dir/b"));
        assert!(refused(&["volume", "rename", "/dir/b/within", "/dir/c"]).contains("in another volume"));
        assert!(refused(&["volume", "remove", "/dir/b/within"]).contains("has 1 files and directories"));
        cluster.admin(&["volume", "rename", "/dir/b", "/dir/c"]);
        assert!(cluster.admin(&["volume", "show", "/dir/c"]).contains("/dir/c"));
        assert!(cluster.admin(&["volume", "set", "/dir/c", "--columns", "2"]).contains("2 targets"));

        cluster.admin(&["volume", "remove", "/dir/c/within", "--force"]);
        cluster.admin(&["volume", "remove", "/dir/c", "--force"]);
        until("the files of removed volumes are deleted", || volumes(&cluster) == (1, 0));
        until("their objects are removed", || deferred_ops(&cluster) == 0);
        assert_eq!(ash.run("ls /mnt/h/dir"), "one\n");
        ash.run("rm -r /mnt/h/dir; umount -R /mnt/h || umount /mnt/h");
    }
}

/// A client holds files of a volume open, with layouts and locks, when it is removed by force.
#[test]
fn a_client_of_a_removed_volume_gets_errors_and_goes_on_elsewhere() {
    let lab = Lab::open();
    let cluster = Cluster::separate(&lab, 2);
    let ash = lab.client("ash");
    for version in ["vers=4.2", "vers=3"] {
        println!("--- {version}");
        cluster.mount(&ash, version);
        cluster.admin(&["volume", "create", "/v"]);
        ash.run("mkdir /mnt/h/v/d; for n in $(seq 200); do echo $n >/mnt/h/v/d/$n; done");
        let writer = ash.spawn(
            r#"perl -e 'use IO::Handle; use Errno; use Fcntl qw(:flock);
                open my $f, "+>", "/mnt/h/v/open" or die; my $x = "a" x (1 << 20);
                syswrite $f, $x or die "write: $!"; $f->sync or die "sync: $!";
                open my $go, ">", "/tmp/written" or die; close $go;
                until (-e "/tmp/removed") { select undef, undef, undef, 0.05 }
                my $ended = 0;
                for (1 .. 200) {
                    unless (defined syswrite($f, $x) and $f->sync) { $ended = $!{ESTALE} || $!{EIO}; last }
                    select undef, undef, undef, 0.05
                }
                print $ended ? "ended" : "wrote on: $!"'"#,
        );
        ash.run("until [ -e /tmp/written ]; do sleep 0.05; done");
        if version == "vers=4.2" {
            let refused = cluster.try_admin(&["volume", "remove", "/v"]).expect_err("refused");
            assert!(refused.contains("clients have files of /v open"), "{refused}");
        }
        let said = cluster.admin(&["volume", "remove", "/v", "--force"]);
        assert!(said.contains("its 202 files and directories are being deleted"), "{said}");
        ash.run("touch /tmp/removed");
        let said = writer.wait(MINUTE).must_succeed("the writer");
        assert_eq!(said, "ended");
        until("its files are deleted", || volumes(&cluster) == (1, 0));
        until("their objects are removed", || deferred_ops(&cluster) == 0);
        let said = ash.try_run("ls /mnt/h/v 2>&1");
        assert!(said.status != 0, "{said:?}");
        ash.run("echo here >/mnt/h/file; test \"$(cat /mnt/h/file)\" = here; rm /mnt/h/file");
        // The same name again: another volume.
        cluster.admin(&["volume", "create", "/v"]);
        ash.run("until ls /mnt/h/v; do sleep 0.2; done; echo new >/mnt/h/v/f; test \"$(ls /mnt/h/v)\" = f");
        ash.run("umount -R /mnt/h || umount /mnt/h; rm /tmp/written /tmp/removed");
        cluster.admin(&["volume", "remove", "/v", "--force"]);
    }
}
