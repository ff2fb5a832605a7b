//! `kill -9` of a server under load, and its restart: two clients continue without a new mount, all
//! acknowledged durable data are there, and locks and open files are unchanged at once: there is no grace
//! period.
//!
//! Each round has a seed, which selects the victim and the times: 1 to 5, each victim once. `HEOROT_SEED=n` and
//! `HEOROT_ROUNDS=n` set the first seed and the number of rounds; `make soak` goes on with others.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tests::{Client, Cluster, Dice, Lab, Running, scripts};

const ROUNDS: u64 = 5;
/// Number of rounds after which the storms stop, and their notes are compared with the files.
const ROUNDS_BETWEEN_CHECKS: u64 = 5;
const DATA_SERVERS: usize = 4;
/// Storms of each of the two clients: one makes and removes files, two write.
const WRITERS: [&str; 2] = ["1 2", "3 4"];

/// Time limit for clients to continue. A client that waits for a server reconnects every few seconds with
/// backoff; after more than this time since the restart it is in one of its long timeouts (60 s and more),
/// which must not happen.
const GOES_ON_WITHIN: Duration = Duration::from_secs(45);
/// Time limit of a lock. A client that waits for a lock retries after 1, 2, 4, ... 30 s, unless a callback
/// arrives, which a killed metaserver does not send. So not every round waits for a lock.
const LOCKED_WITHIN: Duration = Duration::from_secs(60);
const CHECK_WITHIN: Duration = Duration::from_secs(120);
/// Time limit of background removals of objects.
const CLEAN_WITHIN: Duration = Duration::from_secs(60);

#[test]
fn killed_servers_lose_nothing_that_was_synced_and_no_lock_and_no_open_file() {
    let rounds_max = from_environment("HEOROT_ROUNDS", ROUNDS);
    rounds(from_environment("HEOROT_SEED", 1), |round| round < rounds_max);
}

fn from_environment(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{name}: a number")))
}

#[test]
#[ignore = "make soak: runs for hours"]
fn soak() {
    let hours =
        std::env::var("HEOROT_SOAK_HOURS").ok().map_or(8.0, |h| h.parse().expect("a number of hours"));
    let first = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_secs();
    let end = Instant::now() + Duration::from_secs_f64(hours * 3600.0);
    rounds(first, |_| Instant::now() < end);
}

fn rounds(first_seed: u64, go_on: impl Fn(u64) -> bool) {
    let lab = Lab::open();
    let mut cluster = Cluster::separate(&lab, DATA_SERVERS);
    let clients = [lab.client("ash"), lab.client("elm")];
    for client in &clients {
        cluster.mount(client, "vers=4.2");
    }
    clients[0].run("mkdir /mnt/h/locks");
    let mut storms = Vec::new();
    let mut waiting = Vec::new();
    for round in (0..).take_while(|round| go_on(*round)) {
        let seed = first_seed + round;
        // Output of a failed test ends with this line.
        println!("round {round}: HEOROT_SEED={seed}");
        if storms.is_empty() {
            storms = start_storms(&clients, seed);
        }
        let holder = (round % 2) as usize;
        let pair = [&clients[holder], &clients[1 - holder]];
        waiting.push(one_round(&mut cluster, pair, &storms, round, seed));
        if (round + 1) % ROUNDS_BETWEEN_CHECKS == 0 {
            check_storms(&clients, std::mem::take(&mut storms));
            waiting.drain(..).for_each(|waiter| must_have_locked(waiter, &clients));
        }
    }
    if !storms.is_empty() {
        check_storms(&clients, storms);
    }
    waiting.into_iter().for_each(|waiter| must_have_locked(waiter, &clients));
    assert!(!objects(lab.folder()).is_empty(), "no objects where they are looked for");
    clients[0].run_within(CHECK_WITHIN, "rm -rf /mnt/h/*; sync");
    // Removals of objects finish by themselves. An object left after them has no file, and only the orphan
    // scan finds it: it must find nothing, or there is a leak.
    until_no_op_is_deferred(&cluster);
    let said = cluster.admin(&["clean"]);
    assert!(said.starts_with("0 objects seen"), "objects without a file: {said}");
    no_object_is_left(lab.folder());
}

#[derive(Debug, Clone, Copy)]
enum Victim {
    Metaserver,
    DataServer(usize),
    All,
}

/// One client holds locks and a removed file, the other waits for a lock; a server dies and restarts. Returns
/// the waiter, which has got its lock.
fn one_round(
    cluster: &mut Cluster,
    [holds, waits]: [&Client; 2],
    storms: &[Storm<'_>],
    round: u64,
    seed: u64,
) -> Waiter {
    let mut dice = Dice::new(seed);
    let begun = Instant::now();
    let (keeper, file, signs) =
        (env!("CARGO_BIN_EXE_keeper"), format!("/mnt/h/locks/{seed}"), format!("/tmp/{seed}"));
    let holder = holds.spawn(&format!("{keeper} hold {file} {signs}"));
    until_sign(holds, &format!("{signs}.holding"), &holder);
    let waiter = waits.spawn(&format!("{keeper} wait {file} {signs}"));
    until_sign(waits, &format!("{signs}.waiting"), &waiter);

    std::thread::sleep(ms(dice.below(400)));
    let down = ms(dice.below(500));
    // All kinds of victims in each series, for any seeds.
    let victim = match round % ROUNDS {
        last if last == ROUNDS - 1 => Victim::All,
        even if even % 2 == 0 => Victim::Metaserver,
        _ => Victim::DataServer(dice.below(DATA_SERVERS as u64) as usize),
    };
    let prepared = begun.elapsed();
    match victim {
        Victim::Metaserver => cluster.mds().kill(),
        Victim::DataServer(number) => cluster.ds(number).kill(),
        Victim::All => cluster.kill_all(),
    }
    std::thread::sleep(down);
    cluster.start_all();
    let back = Instant::now();
    let before = notes(storms);

    // A third process is denied all locks, as soon as it gets an answer.
    waits.run_within(GOES_ON_WITHIN, &format!("{keeper} try {file}"));
    assert!(!waiter.is_done(), "a lock was granted while another held it: {}", waiter.wait(LOCKED_WITHIN));
    holds.run(&format!("touch {signs}.go"));
    holder.wait(GOES_ON_WITHIN).must_succeed("the holder of the locks");
    let kept = back.elapsed();

    // Each storm must make progress after the restart, not only end without an error.
    while notes(storms).iter().zip(&before).any(|(now, before)| now <= before) {
        for storm in storms {
            assert!(!storm.running.is_done(), "{} ended by itself\n{}", storm.name, storm.client.console());
        }
        let waited = back.elapsed();
        assert!(
            waited < GOES_ON_WITHIN,
            "after {waited:.0?} not all go on: {before:?}, then {:?}",
            notes(storms)
        );
        std::thread::sleep(ms(100));
    }
    println!(
        "  {prepared:.1?} to begin; kill -9 of {victim:?}, down for {down:.1?}; locks and removed file kept: {kept:.1?}, \
         all went on within {:.1?}",
        back.elapsed()
    );
    Waiter { running: waiter, file }
}

/// Process that waits for a released lock.
struct Waiter {
    running: Running,
    file: String,
}

fn must_have_locked(waiter: Waiter, clients: &[Client; 2]) {
    let begun = Instant::now();
    while !waiter.running.is_done() && begun.elapsed() < LOCKED_WITHIN {
        std::thread::sleep(ms(20));
    }
    if !waiter.running.is_done() {
        for client in clients {
            let said = client.run(&format!("{} ask {}", env!("CARGO_BIN_EXE_keeper"), waiter.file));
            println!("{}, of {}: {said}", client.name(), waiter.file);
        }
    }
    waiter.running.wait(ms(20)).must_succeed("the one that waited for a lock");
}

fn until_sign(client: &Client, sign: &str, running: &Running) {
    let output = client
        .try_run(&format!("for i in $(seq 600); do [ ! -e {sign} ] || exit 0; sleep 0.05; done; exit 1"));
    assert!(output.status == 0 || !running.is_done(), "no {sign}: it ended");
    assert!(output.status == 0, "no {sign}: {output}");
}

/// Script that works until a stop, and notes acknowledged operations.
struct Storm<'a> {
    name: String,
    client: &'a Client,
    notes: String,
    running: Running,
}

fn start_storms(clients: &[Client; 2], seed: u64) -> Vec<Storm<'_>> {
    let mut storms = Vec::new();
    for (client, writers) in clients.iter().zip(WRITERS) {
        client.run("rm -f /tmp/stop");
        let seed32 = u32::try_from(seed).expect("a seed below 2^32");
        let dir = format!("/mnt/h/storm-{}", client.name());
        let mut start = |name: String, notes: String, script: String| {
            client.run(&format!("touch {notes}"));
            storms.push(Storm { name, client, notes, running: client.spawn(&script) });
        };
        start("create storm".into(), "/tmp/acked.1".into(), scripts::create_storm(&dir, 1, seed32));
        for n in writers.split(' ') {
            let script = scripts::write_storm("/mnt/h/writes", n.parse().expect("a number"), seed);
            start(format!("writer {n}"), format!("/tmp/synced.{n}"), script);
        }
    }
    storms
}

fn check_storms(clients: &[Client; 2], storms: Vec<Storm<'_>>) {
    for client in clients {
        client.run("touch /tmp/stop");
    }
    for storm in storms {
        storm.running.wait(GOES_ON_WITHIN).must_succeed(&storm.name);
    }
    for (client, writers) in clients.iter().zip(WRITERS) {
        let entries = client.run_within(CHECK_WITHIN, &scripts::check_storm());
        let blocks = client.run_within(CHECK_WITHIN, &scripts::check_writes("/mnt/h/writes", writers));
        println!("  {} entries and {} blocks are as they were acknowledged", entries.trim(), blocks.trim());
    }
}

/// Number of operations that each storm has noted.
fn notes(storms: &[Storm<'_>]) -> Vec<u64> {
    let mut counts = Vec::new();
    for client in [storms[0].client, storms[storms.len() - 1].client] {
        let files: Vec<&str> = storms
            .iter()
            .filter(|storm| std::ptr::eq(storm.client, client))
            .map(|storm| storm.notes.as_str())
            .collect();
        let text = client.run(&format!("for file in {}; do wc -l <$file; done", files.join(" ")));
        counts.extend(text.lines().map(|line| line.trim().parse::<u64>().expect("a count")));
    }
    counts
}

fn until_no_op_is_deferred(cluster: &Cluster) {
    let begun = Instant::now();
    while cluster.deferred_ops() > 0.0 {
        assert!(
            begun.elapsed() < CLEAN_WITHIN,
            "removals do not reach the objects: {}",
            cluster.status_json()
        );
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Checks that no object is left, since every file was removed, for any kills.
fn no_object_is_left(folder: &Path) {
    let begun = Instant::now();
    loop {
        let left = objects(folder);
        if left.is_empty() {
            return;
        }
        let waited = begun.elapsed();
        assert!(
            waited < CLEAN_WITHIN,
            "{} objects are left after {waited:.0?}: {:?}",
            left.len(),
            &left[..left.len().min(10)]
        );
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// Files below the `objects` folders of all targets.
fn objects(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            } else if path.components().any(|part| part.as_os_str() == "objects") {
                found.push(path);
            }
        }
    }
    found
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
