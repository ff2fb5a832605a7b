//! Quotas with a real client: it is refused in time, `df` shows the limit, and what is used is what `du` shows.

use serde_json::Value;
use tests::copies::until;
use tests::{Client, Cluster, Lab};

/// What the disks of data servers may add to the bytes of a few files: they allocate in advance, and `du` shows it.
const DISK_BLOCKS_MAX: u64 = 1 << 20;

/// Usage of `/v`: of all of it, or of a user in it.
fn usage(cluster: &Cluster, user: Option<&str>) -> (u64, u64) {
    let all: Value =
        serde_json::from_str(&cluster.admin(&["quota", "report", "/v", "--json"])).expect("JSON");
    let all = all.as_array().expect("an array");
    let of = |quota: &&Value| quota["user"].as_str() == user && quota["group"].is_null();
    let found = all.iter().find(of).unwrap_or_else(|| panic!("no usage of {user:?}: {all:?}"));
    (found["bytes"].as_u64().expect("a number"), found["files"].as_u64().expect("a number"))
}

/// Bytes in /mnt/h/v as `du` shows them, and its files.
fn shown(client: &Client) -> (u64, u64) {
    let said = client.run("cd /mnt/h/v; sync; du -s -B1 . | cut -f1; find . | wc -l");
    let mut numbers = said.lines().map(|line| line.trim().parse().expect("a number"));
    (numbers.next().expect("bytes"), numbers.next().expect("files"))
}

fn refused(client: &Client, script: &str) {
    let said = client.try_run(&format!("cd /mnt/h/v; {script} 2>&1"));
    assert!(said.status != 0 && said.text.contains("Disk quota exceeded"), "{script}: {said:?}");
}

#[test]
fn a_client_is_refused_at_the_limits_of_a_volume_and_of_a_user() {
    let lab = Lab::open();
    let cluster = Cluster::separate(&lab, 2);
    let ash = lab.client("ash");
    cluster.admin(&["volume", "create", "/v"]);
    for version in ["vers=4.2", "vers=3"] {
        println!("--- {version}");
        cluster.mount(&ash, version);
        cluster.admin(&["quota", "set", "/v", "--bytes", "64MiB", "--files", "100"]);
        let df = ash.run("df -B1 --output=size,itotal /mnt/h/v/. | tail -1");
        assert_eq!(df.split_whitespace().collect::<Vec<_>>(), ["67108864", "100"]);

        // Data of a file on the data servers, small files, and files.
        ash.run("cd /mnt/h/v; head -c 40000000 /dev/zero >a; rm a; head -c 40000000 /dev/zero >a; sync a");
        refused(&ash, "head -c 60000000 /dev/zero >b && sync b");
        let (bytes, _) = usage(&cluster, None);
        assert!(bytes <= (64 << 20) + DISK_BLOCKS_MAX, "{bytes}");
        ash.run("cd /mnt/h/v; rm b; echo small >s; head -c 1000 a | cmp - <(head -c 1000 /dev/zero)");
        // Over data that are there, at the limit.
        refused(&ash, "head -c 60000000 /dev/zero >b && sync b");
        ash.run("cd /mnt/h/v; dd if=/dev/urandom of=a bs=1M count=20 conv=notrunc,fsync status=none; rm b");
        refused(&ash, "for n in $(seq 200); do echo $n >f$n || exit 1; done");
        refused(&ash, "mkdir d");
        ash.run("cd /mnt/h/v; rm f*");
        until("the usage is as du shows it", || usage(&cluster, None) == shown(&ash));

        // A user, from the first limit on.
        ash.run("cd /mnt/h/v; mkdir u; chown 1000 u");
        cluster.admin(&["quota", "set", "/v", "--user", "1000", "--bytes", "10MiB", "--files", "20"]);
        assert_eq!(usage(&cluster, Some("1000")), (4096, 1));
        let as_user = |script: &str| format!("setpriv --reuid 1000 --clear-groups sh -c 'cd u; {script}'");
        refused(&ash, &as_user("head -c 20000000 /dev/zero >x && sync x"));
        assert!(usage(&cluster, Some("1000")).0 <= (10 << 20) + DISK_BLOCKS_MAX);
        ash.run(&format!("cd /mnt/h/v; {}", as_user("rm x; echo x >x")));
        refused(&ash, &as_user("for n in $(seq 30); do echo >f$n || exit 1; done"));
        refused(&ash, "chown 1000 a");
        ash.run("cd /mnt/h/v; rm -r u a s");
        until("nothing is left", || usage(&cluster, None) == (4096, 1));

        let report = cluster.admin(&["quota", "report"]);
        assert!(report.contains("user 1000") && report.contains("64 MiB"), "{report}");
        cluster.admin(&["quota", "set", "/v", "--user", "1000", "--bytes", "0", "--files", "0"]);
        cluster.admin(&["quota", "set", "/v", "--bytes", "0", "--files", "0"]);
        ash.run("head -c 100000000 /dev/zero >/mnt/h/v/big; sync; rm /mnt/h/v/big; umount -R /mnt/h");
    }
    // What an operator may try.
    let refused = |arguments: &[&str]| cluster.try_admin(arguments).expect_err("refused");
    assert!(
        refused(&["quota", "set", "/v", "--soft-bytes", "2MiB", "--bytes", "1MiB"]).contains("not above")
    );
    assert!(
        refused(&["quota", "set", "/v", "--user", "nobody-here", "--files", "1"]).contains("knows no user")
    );
    assert!(refused(&["quota", "set", "/nothing", "--files", "1"]).contains("no such directory"));
    assert!(cluster.admin(&["quota", "set", "/", "--bytes", "1KiB"]).contains("more is used"));
    cluster.admin(&["quota", "set", "/", "--bytes", "0"]);
}
