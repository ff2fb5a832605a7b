//! A client machine that loses its power: its synced data are there, its state is freed after its lease, and
//! the machine comes back under its name.

use std::time::Duration;

use tests::{Cluster, Lab, scripts};

/// Time limit for a busy machine; well above a lease.
const SLOW: Duration = Duration::from_secs(180);
const MIB: u64 = 8;

#[test]
fn a_killed_client_loses_nothing_that_it_synced_and_keeps_nothing_locked() {
    let lab = Lab::open();
    let cluster = Cluster::separate(&lab, 4);
    let (ash, elm) = (lab.client("ash"), lab.client("elm"));
    cluster.mount(&ash, "vers=4.2");
    cluster.mount(&elm, "vers=4.2");

    // A lock, a delegation, and an open file with a layout for writes.
    elm.run("echo first >/mnt/h/read; echo 0 >/mnt/h/locked");
    ash.run("cat /mnt/h/read");
    ash.spawn(&scripts::fcntl_lock("/mnt/h/locked", "write", 0, 10, true, 600.0));
    let sum = ash.run(&format!("head -c {MIB}M /dev/urandom >/tmp/new; sha256sum </tmp/new"));
    ash.spawn("exec 5>/mnt/h/data; cat /tmp/new >&5; sync -f /mnt/h/data; touch /tmp/synced; sleep 600");
    ash.run("until [ -e /tmp/synced ]; do sleep 0.05; done");
    let try_lock = scripts::fcntl_lock("/mnt/h/locked", "write", 0, 10, false, 0.0);
    elm.run_within(SLOW, &format!("until {{ {try_lock}; }} | grep refused; do sleep 0.1; done"));

    drop(ash);
    // The dead client returns nothing: each of these waits for its lease.
    assert_eq!(elm.run_within(SLOW, "sha256sum </mnt/h/data"), sum);
    let wait_for_lock = scripts::fcntl_lock("/mnt/h/locked", "write", 0, 10, true, 0.0);
    assert!(elm.run_within(SLOW, &wait_for_lock).starts_with("locked"));
    elm.run_within(SLOW, "echo second >/mnt/h/read; truncate -s 1000 /mnt/h/data");

    let ash = lab.client("ash");
    cluster.mount(&ash, "vers=4.2");
    ash.run("[ $(cat /mnt/h/read) = second ]; [ $(stat -c %s /mnt/h/data) = 1000 ]");
    assert!(ash.run(&wait_for_lock).starts_with("locked"));
    for client in [&ash, &elm] {
        client.run_within(SLOW, "umount /mnt/h");
    }
}
