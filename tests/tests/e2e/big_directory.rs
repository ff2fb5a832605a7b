//! One very large directory, through a real client: created, looked up, listed and removed by four processes.
//!
//! 2,000 entries by default; HEOROT_DIRECTORY_ENTRIES sets the number (`make directory ENTRIES=1000000`).
//! Prints a table of the durations.

use std::time::Duration;

use tests::{Cluster, Lab, cpu_seconds, scripts};

const PROCESSES: u32 = 4;
const DIR: &str = "/mnt/h/big";

#[test]
fn one_directory_holds_very_many_entries() {
    let entries: u32 = match std::env::var("HEOROT_DIRECTORY_ENTRIES") {
        Ok(text) => text.parse().unwrap_or_else(|e| panic!("HEOROT_DIRECTORY_ENTRIES={text}: {e}")),
        Err(_) => 2000,
    };
    let slow = Duration::from_secs(120) + entries * Duration::from_millis(10);
    let lab = Lab::open();
    let mut cluster = Cluster::up(&lab, 4);
    let pid = cluster.mds().pid().expect("it runs");
    let client = lab.client("ash");
    cluster.mount(&client, "vers=4.2");

    println!(
        "| {entries} entries, {PROCESSES} processes | rate | server CPU for each | memory of the server |"
    );
    println!("| --- | --- | --- | --- |");
    for operation in ["make", "stat", "list", "remove"] {
        let before = cpu_seconds(pid);
        let output = client.run_within(slow, &scripts::in_one_directory(DIR, operation, PROCESSES, entries));
        let cpu = cpu_seconds(pid) - before;
        let numbers: Vec<f64> = output.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let &[count, seconds] = numbers.as_slice() else { panic!("{operation}: {output}") };
        let (rate, each) = (count / seconds, cpu / count * 1e6);
        println!("| {operation} | {rate:.0}/s | {each:.1} µs | {} MiB |", resident_mib(pid));
        if operation == "make" {
            let seen = client.run(&format!("stat -c %s {DIR}; rmdir {DIR} 2>&1 || true"));
            assert!(seen.contains("not empty"), "a directory with {entries} entries was removed: {seen}");
        }
    }
    client.run(&format!("[ -z \"$(ls -A {DIR})\" ] && rmdir {DIR} && umount /mnt/h"));
}

fn resident_mib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("proc(5)");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") / 1024
}
