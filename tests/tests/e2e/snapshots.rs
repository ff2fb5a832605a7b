//! Snapshots with a real client: what they show stays as it was, whatever is written since, and nothing is left of them.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tests::copies::until;
use tests::{Client, Cluster, Lab};

/// What each file of /mnt/h/v, or of a snapshot of it, has: path, mode, size and a sum of its data.
fn shown(client: &Client, dir: &str) -> String {
    client.run(&format!(
        "cd {dir}; find . -type f -o -type l | sort | while read -r f; do \
           echo \"$f $(stat -c '%a %s %h' \"$f\") $(cat \"$f\" | md5sum)\"; done"
    ))
}

/// Number of objects below a folder of data servers.
fn objects(folder: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let of = |entry: std::fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && name != "trash" => objects(&entry.path()),
            // volume, inode, generation and column
            Ok(kind) if kind.is_file() => usize::from(name.split('.').count() == 4 && name.len() == 43),
            _ => 0,
        }
    };
    entries.flatten().map(of).sum()
}

fn refused(client: &Client, script: &str, why: &str) {
    let said = client.try_run(&format!("cd /mnt/h/v; {script} 2>&1"));
    assert!(said.status != 0 && said.text.contains(why), "{script}: {said:?}");
}

fn snapshots(cluster: &Cluster) -> usize {
    let all: Value = serde_json::from_str(&cluster.admin(&["snapshot", "list", "--json"])).expect("JSON");
    all.as_array().expect("an array").len()
}

#[test]
fn a_snapshot_shows_what_the_volume_had_and_goes_without_a_trace() {
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
             head -c 5000000 /dev/urandom >big; head -c 3000000 /dev/urandom >d/cut; cp d/cut d/gone; sync",
        );
        let first = shown(&ash, "/mnt/h/v");
        assert!(cluster.admin(&["snapshot", "create", "/v@one"]).contains("/v/.snapshot/one"));
        assert_eq!(shown(&ash, "/mnt/h/v/.snapshot/one"), first);
        assert_eq!(ash.run("cd /mnt/h/v; ls -a | grep -c snapshot || true").trim(), "0", "hidden");
        assert_eq!(ash.run("ls /mnt/h/v/.snapshot").trim(), "one");
        let device = |path: &str| ash.run(&format!("stat -c %d /mnt/h/v/{path}/."));
        assert_ne!(device(".snapshot/one"), device("."), "a file system of its own");

        // Over data, at the end, shorter, gone, under another name; small files, too.
        ash.run(
            "cd /mnt/h/v; dd if=/dev/urandom of=big bs=4096 count=3 seek=100 conv=notrunc,fsync status=none
             head -c 100000 /dev/urandom >>big; truncate -s 1000 d/cut; rm d/gone small; echo other >d/hard
             mv d/e f; echo new >new; head -c 2000000 /dev/urandom >made; chmod 600 f/deep; sync",
        );
        let second = shown(&ash, "/mnt/h/v");
        assert_ne!(first, second);
        assert_eq!(shown(&ash, "/mnt/h/v/.snapshot/one"), first);
        cluster.admin(&["snapshot", "create", "/v@two"]);
        ash.run("cd /mnt/h/v; dd if=/dev/urandom of=big bs=4096 count=1 conv=notrunc,fsync status=none; rm made f/deep");
        for (name, then) in [("one", &first), ("two", &second)] {
            assert_eq!(&shown(&ash, &format!("/mnt/h/v/.snapshot/{name}")), then, "{name}");
        }
        // A file comes back.
        ash.run("cd /mnt/h/v; cp -p .snapshot/one/d/gone d/gone; cmp .snapshot/one/d/gone d/gone");

        for script in [
            "echo x >.snapshot/one/small",
            "rm .snapshot/one/small",
            "mkdir .snapshot/x",
            "rmdir .snapshot/two",
            "mv .snapshot/one .snapshot/x",
            "touch .snapshot/one/d/cut",
            "chmod 777 .snapshot/one/link",
        ] {
            let said = ash.try_run(&format!("cd /mnt/h/v; {script} 2>&1"));
            assert!(said.status != 0, "{script}: {said:?}");
        }
        refused(&ash, "echo x >.snapshot/one/d/new", "Read-only file system");
        refused(&ash, "ls .snapshot/none", "No such file");
        let try_admin = |arguments: &[&str]| cluster.try_admin(arguments).expect_err("refused");
        assert!(try_admin(&["snapshot", "create", "/v@one"]).contains("/v@one exists"));
        assert!(try_admin(&["snapshot", "create", "/v/d@one"]).contains("and no volume"));
        assert!(try_admin(&["snapshot", "create", "/v/.snapshot/one@x"]).contains("is in a snapshot"));
        assert!(try_admin(&["snapshot", "create", "/v"]).contains("names no snapshot"));
        assert!(try_admin(&["snapshot", "remove", "/v@three"]).contains("no snapshot /v@three"));
        assert!(try_admin(&["volume", "remove", "/v", "--force"]).contains("snapshots of /v"));
        assert_eq!(snapshots(&cluster), 2);

        // An NFSv3 client opens nothing at the server.
        let reader = ash.spawn("exec 3</mnt/h/v/.snapshot/one/big; touch /tmp/is-open; exec sleep 1000");
        until("the reader has the file open", || ash.try_run("test -e /tmp/is-open").status == 0);
        if version != "vers=3" {
            assert!(try_admin(&["snapshot", "remove", "/v@one"]).contains("open"));
        }
        reader.kill();
        ash.run("rm /tmp/is-open");
        cluster.admin(&["snapshot", "remove", "/v@one", "--force"]);
        assert_eq!(shown(&ash, "/mnt/h/v/.snapshot/two"), second);
        cluster.admin(&["snapshot", "remove", "/v@two", "--force"]);
        until("the removals are done", || snapshots(&cluster) == 0);
        let live = shown(&ash, "/mnt/h/v");
        assert!(live.contains("./big") && live.contains("./d/gone"), "{live}");
        ash.run("cd /mnt/h/v; rm -r *; sync");
        until("no object is left", || objects(cluster.folder()) == before);
        ash.run_within(Duration::from_secs(60), "cd /; umount -R /mnt/h");
        cluster.admin(&["volume", "remove", "/v", "--force"]);
        until("the volume is gone", || !cluster.admin(&["volume", "list"]).contains("removed"));
    }
}
