//! Data acknowledged by fdatasync are there: after the client's death, for other clients, and for a second
//! process of the same client. Each story runs with the kernel in `HEOROT_KERNEL`.

use std::time::{Duration, Instant};

use tests::{Cluster, Lab, cpu_seconds, scripts, stat_cost};

/// Default lease and some more seconds.
const A_LEASE: &str = "sleep 40";

/// 40 records of 256 KiB, each followed by fdatasync, all acknowledged: then the client's kernel dies.
#[test]
fn what_fdatasync_acknowledged_is_there_when_the_client_has_died() {
    let lab = Lab::open();
    let mut cluster = Cluster::separate(&lab, 4);
    let elm = lab.client("elm");
    cluster.mount(&elm, "vers=4.2");
    let is_whole = "[ $(stat -c %s /mnt/h/log) = $((40 * 262144)) ]; \
                    [ \"$(sha256sum </mnt/h/log)\" = \"$(head -c $((40 * 262144)) /dev/zero | tr '\\0' x | sha256sum)\" ]";
    {
        let ash = lab.client("ash");
        cluster.mount(&ash, "vers=4.2");
        let before = cluster.traffic();
        let writer = ash.spawn(&scripts::append_with_fdatasync("/mnt/h/log", 40, 262_144));
        ash.run("until [ -e /tmp/written ]; do sleep 0.05; done");
        let written = cluster.traffic().since(&before);
        let straight: u64 = written.data_servers.iter().map(|server| server.written).sum();
        assert!(straight >= 30 * 262_144, "it went to the data servers: {written:?}");
        elm.run(is_whole);
        drop(ash); // its kernel, with everything that it had not told anybody
        drop(writer);
    }
    elm.run(is_whole);
    elm.run_within(Duration::from_secs(120), &format!("{A_LEASE}; {is_whole}"));
    cluster.mds().kill();
    cluster.mds().start();
    elm.run(is_whole);
    elm.run("umount /mnt/h");
    // A third client with empty caches.
    let oak = lab.client("oak");
    cluster.mount(&oak, "vers=3");
    oak.run(is_whole);
    oak.run("umount /mnt/h");
}

/// Step at which the client dies: its script up to there, and the records that fdatasync acknowledged by
/// then.
type Step = (&'static str, u64, &'static str);

const RECORD_BYTES: u64 = 262_144;

/// ```text
/// open ─▶ write ─▶ fdatasync ─▶ write ─▶ fdatasync ─▶ … ─▶ stat ─▶ close ─▶ another client opens it
///      ▲        ▲            ▲        ▲                 ▲       ▲        ▲
/// ```
const STEPS: [Step; 7] = [
    ("after the open", 0, ""),
    ("after a write", 0, "write()"),
    ("after the first fdatasync", 1, "write(); os.fdatasync(f)"),
    ("after a write more", 1, "write(); os.fdatasync(f); write()"),
    ("after the second fdatasync", 2, "write(); os.fdatasync(f); write(); os.fdatasync(f)"),
    ("after its own stat", 2, "write(); os.fdatasync(f); write(); os.fdatasync(f); os.fstat(f)"),
    ("after the close", 2, "write(); os.fdatasync(f); write(); os.fdatasync(f); os.close(f)"),
];

/// The client's kernel dies at each of the steps. What was acknowledged is there at once, and all that is
/// there is what was written.
#[test]
fn what_fdatasync_acknowledged_is_there_at_whatever_step_the_client_dies() {
    let lab = Lab::open();
    let cluster = Cluster::separate(&lab, 4);
    let elm = lab.client("elm");
    cluster.mount(&elm, "vers=4.2");
    for (n, (step, acknowledged, script)) in STEPS.into_iter().enumerate() {
        let file = format!("/mnt/h/log{n}");
        let ash = lab.client(&format!("ash{n}"));
        cluster.mount(&ash, "vers=4.2");
        let writer = ash.spawn(&scripts::append_until(&file, RECORD_BYTES, script));
        ash.run("until [ -e /tmp/there ]; do sleep 0.05; done");
        drop(ash); // its kernel, with everything that it had not told anybody
        drop(writer);
        let out = elm.run(&scripts::has_only(&file, acknowledged * RECORD_BYTES));
        println!("{step}: {out}");
    }
    elm.run("umount /mnt/h");
}

/// Two processes of one client append and stat: neither ever sees a file that is shorter than its own writes.
#[test]
fn a_process_never_sees_less_than_was_acknowledged() {
    let lab = Lab::open();
    let cluster = Cluster::separate(&lab, 2);
    let ash = lab.client("ash");
    for version in ["vers=4.2", "vers=4.1"] {
        cluster.mount(&ash, version);
        let out = ash.run(&scripts::append_and_look("/mnt/h/f", 300));
        println!("{version}: {out}");
        ash.run("rm /mnt/h/f; umount /mnt/h");
    }
}

/// SQLite in WAL mode with two processes on one client: each committed row is there.
#[test]
fn sqlite_in_wal_mode_by_two_processes_loses_no_row() {
    let lab = Lab::open();
    let cluster = Cluster::separate(&lab, 2);
    let ash = lab.client("ash");
    cluster.mount(&ash, "vers=4.2");
    for round in 0..3 {
        let out = ash.run(&scripts::sqlite_by_two("/mnt/h/db", 150));
        println!("round {round}: {out}");
        ash.run("rm -f /mnt/h/db*");
    }
    ash.run("umount /mnt/h");
}

/// Prints the cost of a GETATTR: of a settled file, of one with an idle holder, and of one with a writing
/// holder.
#[test]
#[ignore = "a measurement: make stat-cost"]
fn what_a_look_at_a_file_costs() {
    const LOOKS: u32 = 4000;
    let lab = Lab::open();
    let mut cluster = Cluster::separate(&lab, 4);
    let (ash, elm) = (lab.client("ash"), lab.client("elm"));
    cluster.mount(&ash, "vers=4.2");
    cluster.mount(&elm, "vers=4.2,noac");
    let pids: Vec<u32> = {
        let mds = cluster.mds().pid();
        (0..4).map(|n| cluster.ds(n).pid()).chain([mds]).map(|pid| pid.expect("it runs")).collect()
    };
    let cpu = || pids.iter().map(|pid| cpu_seconds(*pid)).sum::<f64>();
    println!("| file of 8 MiB on 4 data servers | a look, µs | CPU of all servers for a look, µs |");
    println!("| --- | --- | --- |");
    for (row, every_ms) in
        [("closed", None), ("held by an idle client", None), ("held, written each 5 ms", Some(5))]
    {
        let holder = ash.spawn(&stat_cost::hold("/mnt/h/f", 8 << 20, every_ms));
        ash.run("until [ -e /tmp/holds ]; do sleep 0.05; done; rm /tmp/holds");
        let holder = if row == "closed" {
            holder.kill();
            holder.wait(Duration::from_secs(60));
            elm.run("sleep 2"); // the servers settle it
            None
        } else {
            Some(holder)
        };
        // Subtract the cost of the holder's own writes during the same time.
        let (before, began) = (cpu(), Instant::now());
        std::thread::sleep(Duration::from_secs(5));
        let idle = (cpu() - before) / began.elapsed().as_secs_f64();
        let (before, began) = (cpu(), Instant::now());
        let took: f64 = elm.run(&stat_cost::look("/mnt/h/f", LOOKS)).trim().parse().expect("seconds");
        let used = cpu() - before - idle * began.elapsed().as_secs_f64();
        let each = |seconds: f64| seconds / f64::from(LOOKS) * 1e6;
        println!("| {row} | {:.0} | {:.0} |", each(took), each(used));
        if let Some(holder) = holder {
            holder.kill();
            holder.wait(Duration::from_secs(60));
        }
        ash.run("rm /mnt/h/f");
    }
}
