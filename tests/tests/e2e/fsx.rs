//! A striped file, read, written, truncated and mapped at random through a real client, next to a copy in
//! memory: equal after each step. The program is `tests/src/bin/fsx`.
//!
//! `HEOROT_SEED=n` and `HEOROT_STEPS=n` select other steps, and more of them.

use std::time::Duration;

use tests::{Client, Cluster, Lab, MOUNT_POINT, Running};

const STEPS: u64 = 5_000;
const DATA_SERVERS: usize = 4;
/// Time limit; 20 s on a quiet machine.
const RUN_WITHIN: Duration = Duration::from_secs(600);
/// Length of each of the two parts of a shared file.
const PART_BYTES: u64 = 36 * 4096;
/// Boundary of two shared parts. A write through a map dirties the whole folio, and Linux writes bytes next
/// to the mapped range again, with the old content of its cache. No folio crosses this boundary: folios are
/// aligned to their size, of at most 2 MiB.
const BOUNDARY: u64 = 2 << 20;

#[test]
fn a_file_is_as_its_copy_after_each_step_in_every_version_and_with_o_direct() {
    let lab = Lab::open();
    let cluster = Cluster::separate(&lab, DATA_SERVERS);
    let (ash, elm) = (lab.client("ash"), lab.client("elm"));
    // Small stripe units, so that most steps cross some.
    cluster.admin(&["stripe", "set", "/", "--unit", "64KiB", "--columns", "0"]);

    // Each client has a file of its own: two modes at a time.
    both(&cluster, [&ash, &elm], [("vers=4.2", "allocate"), ("vers=3", "")]);
    both(&cluster, [&ash, &elm], [("vers=4.2", "direct"), ("vers=4.1", "")]);
}

#[test]
fn a_file_that_two_clients_share_under_locks_is_as_its_copy_after_each_step() {
    let lab = Lab::open();
    let cluster = Cluster::separate(&lab, DATA_SERVERS);
    let (ash, elm) = (lab.client("ash"), lab.client("elm"));
    for (version, unit, parts) in [
        // One lock for the whole file: steps truncate and extend.
        ("vers=4.2", "64KiB", &[(0, 0)][..]),
        // The boundary is within a stripe unit.
        ("vers=4.1", "192KiB", &[(BOUNDARY - PART_BYTES, PART_BYTES), (BOUNDARY, PART_BYTES)]),
    ] {
        cluster.admin(&["stripe", "set", "/", "--unit", unit, "--columns", "0"]);
        shared(&cluster, [&ash, &elm], version, parts);
    }
}

fn both(cluster: &Cluster, clients: [&Client; 2], modes: [(&str, &str); 2]) {
    let running: Vec<(String, Running)> = clients
        .into_iter()
        .zip(modes)
        .map(|(client, (version, mode))| {
            cluster.mount(client, version);
            let name = format!("{version} {mode}");
            let script =
                format!("{} {MOUNT_POINT}/{} {} {} {mode}", program(), client.name(), seed(), steps());
            (name, client.spawn(&script))
        })
        .collect();
    for ((name, running), client) in running.into_iter().zip(clients) {
        must_be_equal(&name, running, client);
    }
    for client in clients {
        client.run(&format!("rm {MOUNT_POINT}/{}; umount {MOUNT_POINT}", client.name()));
    }
}

/// Parts of one file, `(first byte, bytes)`, 0 for all up to the end of the file, each with its byte-range
/// lock. Both clients work in all of them. (A part up to the end together with one before it would fail: a
/// Linux client that is writing does not notice a truncation.)
fn shared(cluster: &Cluster, clients: [&Client; 2], version: &str, parts: &[(u64, u64)]) {
    for client in clients {
        cluster.mount(client, version);
    }
    let bytes = parts.iter().map(|(base, bytes)| base + bytes).max().unwrap_or(0);
    clients[0].run(&format!("truncate -s {bytes} {MOUNT_POINT}/shared"));
    let mut running = Vec::new();
    for client in clients {
        for (base, bytes) in parts {
            let (seed, steps) = (seed() + base, steps() / 2 / parts.len() as u64);
            let script = format!("{} {MOUNT_POINT}/shared {seed} {steps} shared {base} {bytes}", program());
            running.push((client, format!("{version} {} at {base}", client.name()), client.spawn(&script)));
        }
    }
    for (client, name, running) in running {
        must_be_equal(&name, running, client);
    }
    clients[0].run(&format!("rm {MOUNT_POINT}/shared"));
    for client in clients {
        client.run(&format!("umount {MOUNT_POINT}"));
    }
}

fn must_be_equal(name: &str, running: Running, client: &Client) {
    let output = running.wait(RUN_WITHIN);
    println!("{name}: {} ({:.0?})", output.text.trim(), output.took);
    assert!(output.status == 0 && output.text.contains("equal"), "{name}: {output}{}", client.console());
}

fn program() -> &'static str {
    env!("CARGO_BIN_EXE_fsx")
}

fn seed() -> u64 {
    from_environment("HEOROT_SEED", 1)
}

fn steps() -> u64 {
    from_environment("HEOROT_STEPS", STEPS)
}

fn from_environment(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{name}: a number")))
}
