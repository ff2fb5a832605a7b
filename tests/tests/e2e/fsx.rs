//! A striped file that is read, written, truncated and mapped at random through a real client, beside a copy
//! in memory: equal after each step. The program is `tests/src/bin/fsx`.
//!
//! `HEOROT_SEED=n` and `HEOROT_STEPS=n` choose other steps, and more of them.

use std::time::Duration;

use tests::{Client, Cluster, Lab, MOUNT_POINT, Running};

const STEPS: u64 = 5_000;
const DATA_SERVERS: usize = 4;
/// 20 s on a quiet machine.
const RUN_WITHIN: Duration = Duration::from_secs(600);
/// Where one shared part ends and the next begins: at a page, as maps are by pages, but within a stripe unit.
const PART_BYTES: u64 = 36 * 4096;

#[test]
fn a_file_is_as_its_copy_after_each_step_in_every_version_and_with_o_direct() {
    let lab = Lab::open();
    let cluster = Cluster::separate(&lab, DATA_SERVERS);
    let (ash, elm) = (lab.client("ash"), lab.client("elm"));
    // Small stripe units, so that most steps cross some.
    cluster.admin(&["stripe", "set", "/", "--unit", "64KiB", "--columns", "0"]);

    // Each client with a file of its own: two modes at a time.
    both(&cluster, [&ash, &elm], [("vers=4.2", "allocate"), ("vers=3", "")]);
    both(&cluster, [&ash, &elm], [("vers=4.2", "direct"), ("vers=4.1", "")]);
}

#[test]
fn a_file_that_two_clients_share_under_locks_is_as_its_copy_after_each_step() {
    let lab = Lab::open();
    let cluster = Cluster::separate(&lab, DATA_SERVERS);
    let (ash, elm) = (lab.client("ash"), lab.client("elm"));
    cluster.admin(&["stripe", "set", "/", "--unit", "64KiB", "--columns", "0"]);
    for (version, parts) in [
        ("vers=4.2", &[(0, 0)][..]), // one lock for all of it: steps that truncate and extend
        ("vers=4.1", &[(0, PART_BYTES), (PART_BYTES, PART_BYTES)]),
    ] {
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
/// lock. Both clients work in all of them. (A part up to the end and one before it would not do: a Linux
/// client that is writing does not see a file become shorter.)
fn shared(cluster: &Cluster, clients: [&Client; 2], version: &str, parts: &[(u64, u64)]) {
    for client in clients {
        cluster.mount(client, version);
    }
    let bytes: u64 = parts.iter().map(|(_, bytes)| bytes).sum();
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
