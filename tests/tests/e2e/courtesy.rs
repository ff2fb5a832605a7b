//! Real clients that are late, or have many connections.

use std::time::{Duration, Instant};

use tests::{Cluster, Lab, scripts};

/// Default lease and some more seconds.
const CUT_OFF_SECONDS: u32 = 45;

/// A client increments a number in a file under a lock that it holds all the time, loses its network for
/// longer than its lease, and continues: no other client wanted the lock, so it is still there (courtesy).
/// Then it is cut off again, and another client wants the lock.
#[test]
fn a_client_that_was_cut_off_keeps_its_lock_until_somebody_wants_it() {
    let lab = Lab::open();
    let cluster = Cluster::separate(&lab, 2);
    let (ash, elm) = (lab.client("ash"), lab.client("elm"));
    cluster.mount(&ash, "vers=4.2");
    cluster.mount(&elm, "vers=4.2");
    ash.run("echo 0 >/mnt/h/f; sync");
    let holder = ash.spawn(&scripts::fcntl_lock("/mnt/h/f", "write", 0, 10, true, 600.0));
    let try_lock = scripts::fcntl_lock("/mnt/h/f", "write", 0, 10, false, 0.0);
    let refused = Instant::now();
    while !elm.run(&try_lock).contains("refused") {
        assert!(refused.elapsed() < Duration::from_secs(60), "ash does not get its lock");
    }

    let cut_off = format!("ip link set vec0 down; sleep {CUT_OFF_SECONDS}; ip link set vec0 up");
    ash.run_within(Duration::from_secs(120), &cut_off);
    ash.run_within(Duration::from_secs(120), "echo back >/mnt/h/other; sync");
    assert!(elm.run(&try_lock).contains("refused"), "ash has it still");

    let again = ash.spawn(&cut_off);
    let asked = Instant::now();
    let wait_for_lock = scripts::fcntl_lock("/mnt/h/f", "write", 0, 10, true, 0.0);
    elm.run_within(Duration::from_secs(120), &wait_for_lock);
    println!("elm has the lock after {:.1?}", asked.elapsed());
    again.wait(Duration::from_secs(120)).must_succeed("the cut");
    holder.kill();
    ash.run_within(Duration::from_secs(120), "umount -f /mnt/h || umount -l /mnt/h");
    elm.run("umount /mnt/h");
}

/// DESTROY_SESSION may use a connection that has never carried a request of the session.
#[test]
fn a_client_with_many_connections_unmounts_at_once() {
    let lab = Lab::open();
    let cluster = Cluster::separate(&lab, 1);
    let ash = lab.client("ash");
    for connections in [1, 16] {
        for round in 0..3 {
            cluster.mount(&ash, &format!("vers=4.2,nconnect={connections}"));
            if round > 0 {
                ash.run("ls /mnt/h; touch /mnt/h/f");
            }
            let began = Instant::now();
            ash.run("umount /mnt/h");
            let took = began.elapsed();
            println!("nconnect={connections}: unmounted in {took:.1?}");
            assert!(took < Duration::from_secs(8), "it waited for an answer to DESTROY_CLIENTID");
            let clients = cluster.metrics_mds().sum("heorot_clients", &[]);
            assert!(clients < 1.0, "{clients} clients are left");
        }
    }
}

/// A process that is killed during a call leaves its slot in doubt: Linux sends another request with the same
/// sequence, and must not get the reply of the first (false retry check).
#[test]
fn slots_of_interrupted_calls_are_used_again() {
    let lab = Lab::open();
    let cluster = Cluster::separate(&lab, 2);
    let ash = lab.client("ash");
    for version in ["vers=4.2", "vers=4.1"] {
        cluster.mount(&ash, version);
        let killed = "for i in $(seq 60); do
            timeout -s KILL 0.0$((i % 9 + 1)) sh -c 'while :; do echo x >/mnt/h/$$; mv /mnt/h/$$ /mnt/h/m; rm /mnt/h/m; done' || true
        done; echo alive";
        assert!(ash.run_within(Duration::from_secs(180), killed).ends_with("alive\n"));
        ash.run_within(
            Duration::from_secs(60),
            "echo end >/mnt/h/end; [ $(cat /mnt/h/end) = end ]; umount /mnt/h",
        );
    }
}
