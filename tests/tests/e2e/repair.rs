//! A target of several is lost, and its copies come back: the time beside what the links allow, and what a client has
//! meanwhile. Figures, printed: nothing here asserts a time. `make repair`.

use std::path::Path;
use std::time::{Duration, Instant};

use tests::kills::number;
use tests::stalls::clock;
use tests::{Client, Lab, MOUNT_POINT, Metaservers};

const DATA_SERVERS: usize = 4;
const VICTIM: usize = DATA_SERVERS - 1;
/// The links of data servers: slower than all else here, so that they bind.
const LINK: lab::Link = lab::Link { mbit: 100, delay: Duration::ZERO };
/// Part of a link that carries bytes of TCP: of 1514 in a frame 1448, the others are headers of Ethernet, IP and TCP.
const PAYLOAD: f64 = 1448.0 / 1514.0;
/// Size of all files that are there before, in MiB. They are many: a file is on four chains, and all targets have parts of
/// them together.
const DATA_MIB: usize = 96;
/// Size of each file, in MiB.
const FILE_MIB: usize = 8;
/// MiB of one round of a client's work.
const ROUND_MIB: usize = 16;
/// Time over which a client's throughput is taken when nothing is repaired.
const QUIET_SECONDS: u32 = 15;
/// Limit of a repair, on a machine that does much else.
const REPAIR_TIME_MAX: Duration = Duration::from_secs(300);

/// Bytes of the files below a directory.
fn bytes_below(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let bytes = |entry: std::fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => bytes_below(&entry.path()),
        _ => entry.metadata().map_or(0, |metadata| metadata.len()),
    };
    entries.map(bytes).sum()
}

/// Number of these files.
fn files() -> usize {
    number("HEOROT_DATA_MIB", DATA_MIB) / FILE_MIB
}

/// Cluster with files of two copies, and the checksum of all.
fn prepared(lab: &Lab) -> (Metaservers, Client, String) {
    let mut cluster = Metaservers::with_data_links(lab, DATA_SERVERS, LINK);
    cluster.wait_until("new files have two copies", |cluster| {
        cluster.status(0)["chains"]["copies_of_new_files"] == 2
    });
    cluster.wait_until("all chains have all members", Metaservers::has_whole_chains);
    let client = lab.client("pnfs");
    cluster.mount(&client, 0, "vers=4.2");
    let make = format!(
        "mkdir {MOUNT_POINT}/before; cd {MOUNT_POINT}/before
         for n in $(seq {}); do head -c {FILE_MIB}M /dev/urandom >$n; done; sync; cat * | sha256sum",
        files()
    );
    let sum = client.run_within(REPAIR_TIME_MAX, &make);
    (cluster, client, sum)
}

/// A target is lost for good. Returns the bytes that its copies had, and the time until they are back.
fn lose(cluster: &mut Metaservers) -> (u64, Duration) {
    let bytes = bytes_below(&cluster.folder().join(format!("ds{VICTIM}/target")));
    cluster.data_server(VICTIM).kill();
    let began = Instant::now();
    cluster.heorot(0, &["node", "remove", &format!("ds{VICTIM}"), "--force"]);
    let mut shown = 0;
    while !cluster.has_whole_chains() {
        assert!(began.elapsed() < REPAIR_TIME_MAX, "{}", cluster.status(0)["chains"]);
        let refill = &cluster.status(0)["chains"]["refill"];
        shown += u32::from(
            refill["left_bytes"].as_u64() > Some(0) && refill["bytes_per_second"].as_u64() > Some(0),
        );
        std::thread::sleep(Duration::from_millis(200)); // between two looks
    }
    let took = began.elapsed();
    assert!(shown > 0, "the status never told how much was left, and how fast it went");
    // Each byte of the lost target goes from one of the others to another one.
    let bound = bytes as f64 / ((DATA_SERVERS - 1) as f64 * LINK.bytes_per_second() * PAYLOAD);
    println!(
        "{} MiB of a lost target: copies are back after {:.1} s; the links allow {bound:.1} s: {:.2} times",
        bytes >> 20,
        took.as_secs_f64(),
        took.as_secs_f64() / bound
    );
    (bytes, took)
}

fn check(client: &Client, sum: &str) {
    let sum_now = format!("echo 3 >/proc/sys/vm/drop_caches; cat {MOUNT_POINT}/before/* | sha256sum");
    assert_eq!(client.run_within(REPAIR_TIME_MAX, &sum_now), sum);
}

#[test]
#[ignore = "minutes: make repair"]
fn copies_of_a_lost_target_come_back() {
    let lab = Lab::open();
    let (mut cluster, client, sum) = prepared(&lab);
    lose(&mut cluster);
    check(&client, &sum);
}

/// Bytes per second of rounds that ended in a time by the client's clock.
fn throughput(rounds: &str, from: f64, to: f64) -> f64 {
    let ends = rounds.lines().filter_map(|line| line.trim().parse::<f64>().ok());
    ends.filter(|end| (from..to).contains(end)).count() as f64 * (ROUND_MIB << 20) as f64 / (to - from)
}

/// A client works while the copies come back, and afterwards. `round`: one round of its work, in shell.
fn with_foreground(what: &str, round: &str) {
    let lab = Lab::open();
    let (mut cluster, client, sum) = prepared(&lab);
    let work = client.spawn(&format!(
        "n=0; while [ ! -e /tmp/stop ]; do {round}; n=$((n + 1)); date +%s.%N >>/tmp/rounds; done 2>/dev/null"
    ));
    client.run("until [ -s /tmp/rounds ]; do sleep 0.1; done");
    let began = clock(&client);
    lose(&mut cluster);
    let repaired = clock(&client);
    client.run(&format!("sleep {QUIET_SECONDS}"));
    let ended = clock(&client);
    client.run("touch /tmp/stop");
    work.wait(REPAIR_TIME_MAX).must_succeed(what);
    let rounds = client.run("cat /tmp/rounds");
    let (during, after) = (throughput(&rounds, began, repaired), throughput(&rounds, repaired, ended));
    println!(
        "a client {what}: {:.1} MB/s while the copies come back, {:.1} MB/s afterwards: {:.0} %",
        during / 1e6,
        after / 1e6,
        100.0 * during / after
    );
    assert!(during > 0.0 && after > 0.0, "the client worked all the time: {rounds}");
    check(&client, &sum);
}

#[test]
#[ignore = "minutes: make repair"]
fn a_client_writes_while_copies_come_back() {
    with_foreground(
        "writes",
        &format!("dd if=/dev/zero of={MOUNT_POINT}/new bs=1M count={ROUND_MIB} conv=notrunc,fsync || exit 1"),
    );
}

#[test]
#[ignore = "minutes: make repair"]
fn a_client_reads_while_copies_come_back() {
    let files = files();
    with_foreground(
        "reads",
        &format!(
            "for f in $((n * 2 % {files} + 1)) $(((n * 2 + 1) % {files} + 1)); do
             dd if={MOUNT_POINT}/before/$f of=/dev/null bs=1M iflag=direct || exit 1; done"
        ),
    );
}
