//! `heorot bench` on names by a real client: its counts agree with the servers' counters, and no file
//! remains.

use std::time::Duration;

use bench::result::{Cache, Results};
use tests::{Cluster, Lab, Load, MOUNT_POINT};

const MINUTES: Duration = Duration::from_secs(300);

#[test]
fn mdtest_and_io500_through_a_real_client_count_what_was_made_and_leave_nothing() {
    let lab = Lab::open();
    let cluster = Cluster::up(&lab, 2);
    let client = lab.client("ash");
    cluster.mount(&client, "vers=4.2");
    let load = Load::new(&lab);
    let run = |run: &str| {
        let results = load.run(&client, MINUTES, run);
        assert!(!results.partial, "{:?}", results.ended_by);
        client.run(&format!("test -z \"$(ls -A {MOUNT_POINT})\""));
        results
    };

    let mdtest = run(&format!("mdtest {MOUNT_POINT} --files 100 --processes 2 --depth 1 --fan-out 2"));
    assert_eq!(mdtest.machines[0].host, "ash");
    assert_eq!(mdtest.measurements.len(), 2 * (2 * 5 + 2), "sizes and trees");
    for m in &mdtest.measurements {
        let listed = if m.name.starts_with("private") { 2 * (100 + 2) } else { 2 * (200 + 2) };
        assert_eq!(m.operations, if m.name.ends_with("list") { listed } else { 200 }, "{m:?}");
        let looks = m.name.ends_with("list") || m.name.ends_with("stat");
        assert_eq!(m.cache, if looks { Cache::Dropped } else { Cache::AsIs }, "{m:?}");
        // An answer over the network takes longer than this; one from a cache is faster.
        assert!(m.latency_us[1] > 20.0, "{m:?}");
    }

    let io500 = run(&format!("io500 {MOUNT_POINT} --time 2s --processes 2 --verify"));
    let of = |name: &str| {
        io500.measurements.iter().find(|m| m.name == name).unwrap_or_else(|| panic!("no {name}: {io500:?}"))
    };
    for name in ["ior-easy", "ior-hard"] {
        let (write, read) = (of(&format!("{name}-write")), of(&format!("{name}-read")));
        assert!(write.seconds >= 2.0 && write.bytes > 0, "{write:?}");
        assert_eq!((read.bytes, read.verified_bytes), (write.bytes, write.bytes));
    }
    let hard = of("mdtest-hard-write").operations;
    for (name, operations) in [
        ("mdtest-easy-stat", of("mdtest-easy-write").operations),
        ("mdtest-easy-delete", of("mdtest-easy-write").operations),
        ("mdtest-hard-stat", hard),
        ("mdtest-hard-read", hard),
        ("mdtest-hard-delete", hard),
        // ior-easy has a file for each worker, ior-hard one.
        ("find", of("mdtest-easy-write").operations + hard + 2 + 1),
    ] {
        assert_eq!(of(name).operations, operations, "{name}");
    }
    let has_01 = |rank: u64, i: u64| format!("file.mdtest.{rank}.{i}").contains("01");
    let matching = (0..2).flat_map(|rank| (0..hard / 2).map(move |i| has_01(rank, i))).filter(|has| *has);
    assert_eq!(of("find").found, matching.count() as u64, "of {hard} names");
    show(&io500);
    assert!(io500.scores["score"] > 0.0);
}

fn show(results: &Results) {
    for m in &results.measurements {
        println!("{}", bench::table::line(m));
    }
    println!("{}", bench::table::scores(&results.scores));
}
