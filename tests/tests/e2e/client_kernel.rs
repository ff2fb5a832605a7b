//! Operations that a client's kernel uses, by the servers' counters: the rows of docs/clients.md.

use tests::{Client, Cluster, Lab, Metrics};

const DONE: &str = "heorot_operation_latency_seconds_count";
const REFUSED: &str = "heorot_operation_errors_total";

/// Operations that a kernel may or may not use; docs/clients.md has a column for each.
const CHOICES: [&str; 19] = [
    "OPEN",
    "CLOSE",
    "LAYOUTGET",
    "LAYOUTCOMMIT",
    "LAYOUTSTATS",
    "LAYOUTERROR",
    "DELEGRETURN",
    "GET_DIR_DELEGATION",
    "READ",
    "READ_PLUS",
    "SEEK",
    "ALLOCATE",
    "DEALLOCATE",
    "COPY",
    "CLONE",
    "GETXATTR",
    "SETXATTR",
    "TEST_STATEID",
    "ILLEGAL",
];

/// Common actions, once each: the kernel chooses the operations.
const WORK: &str = r#"cd /mnt/h; mkdir d; echo small >d/small; head -c 8M /dev/urandom >d/large
ls -la d >/dev/null; ls d >/dev/null; cat d/small d/small >/dev/null; sync; echo 3 >/proc/sys/vm/drop_caches
ls -la d >/dev/null; cat d/small d/small d/large >/dev/null; stat d/large >/dev/null
mv d/small d/renamed; ln d/renamed d/linked; ln -s small d/symbolic; cat d/renamed >/dev/null; chmod 600 d/renamed"#;

const WORK_42: &str = r#"cd /mnt/h/d; setfattr -n user.color -v blue large; getfattr -d large >/dev/null
fallocate -l 16M allocated; fallocate -p -o 1M -l 2M large; cp large copied; cmp large copied
cp --sparse=auto large sparse; head -c 8M /dev/urandom >many; cp --reflink=auto many other; cmp many other"#;

#[test]
fn a_kernel_mounts_every_version_and_writes_straight_to_the_data_servers() {
    let lab = Lab::open();
    let cluster = Cluster::separate(&lab, 4);
    let ash = lab.client("ash");
    println!("Linux {}", ash.kernel());
    for version in ["vers=4.2", "vers=4.1", "vers=3"] {
        let (before, moved) = (cluster.metrics_mds(), cluster.traffic());
        cluster.mount(&ash, version);
        println!("{}", ash.run("grep ' /mnt/h ' /proc/mounts").trim());
        ash.run(WORK);
        if version == "vers=4.2" {
            ash.run(WORK_42);
        }
        let after = cluster.metrics_mds();
        println!("{version}: {}", used(&before, &after));
        let straight = cluster.traffic().since(&moved).straight();
        assert_eq!(version != "vers=3", straight.written >= 8 << 20, "{version}: {straight:?}");
        assert_eq!(version != "vers=3", straight.read >= 8 << 20, "{version}: {straight:?}");
        if version != "vers=3" {
            must_not_be_broken(&before, &after, &ash);
            let made = cluster.metrics_mds();
            ash.run("cd /mnt/h/d; for i in $(seq 20); do echo $i >new$i; done; sync");
            let closed = count(&made, &cluster.metrics_mds(), DONE, "CLOSE");
            println!("{version}: 20 files are made with {closed} CLOSE");
            let has_no_open = version == "vers=4.2" && takes_delegations_for_opens(ash.kernel());
            assert_eq!(closed == 0, has_no_open, "{version}: {closed} CLOSE");
        }
        ash.run("cd /; rm -r /mnt/h/d; umount /mnt/h");
    }
}

/// True for kernels from 6.11 on, which ask for a delegation in the place of an open (RFC 9754), with 4.2.
fn takes_delegations_for_opens(kernel: &str) -> bool {
    let mut numbers = kernel.split(['.', '-']).map(|number| number.parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(6), Some(11))
}

/// A kernel takes OP_ILLEGAL for an operation of its minor version as a broken server; and it retries a
/// refused operation without end, unless the error is permanent.
fn must_not_be_broken(before: &Metrics, after: &Metrics, client: &Client) {
    assert_eq!(count(before, after, DONE, "ILLEGAL"), 0, "an operation that the server does not know");
    let probes = count(before, after, REFUSED, "GET_DIR_DELEGATION");
    assert!(probes <= 2, "asked {probes} times for what is not there\n{}", client.console());
}

fn used(before: &Metrics, after: &Metrics) -> String {
    let line = |operation: &&str| {
        let done = count(before, after, DONE, operation);
        let refused = count(before, after, REFUSED, operation);
        let refused = if refused > 0 { format!(" ({refused} refused)") } else { String::new() };
        (done > 0).then(|| format!("{operation} {done}{refused}"))
    };
    CHOICES.iter().filter_map(line).collect::<Vec<_>>().join(", ")
}

#[expect(clippy::cast_possible_truncation, reason = "small counts")]
fn count(before: &Metrics, after: &Metrics, name: &str, operation: &str) -> i64 {
    let sum = |metrics: &Metrics| metrics.sum(name, &[("operation", operation)]) as i64;
    sum(after) - sum(before)
}
