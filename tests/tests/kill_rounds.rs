//! `kill -9` of a server in the middle of the work, and its start: the client goes on without a new mount, and
//! everything that was acknowledged as durable is there.
//!
//! Each round has a seed, which chooses the victim and the times. `HEOROT_SEED=n` repeats the rounds from seed n.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tests::{Client, Cluster, Dice, Lab, Running, scripts};

const ROUNDS: u64 = 10;
const DATA_SERVERS: usize = 4;
const STORMS: u32 = 2;
const WRITERS: u32 = 4;

/// A client that waits for a server tries the connection again every few seconds, backing off; what takes longer than
/// this after the server is back has fallen into one of its long time-outs (60 s and more), which must not happen.
const GOES_ON_WITHIN: Duration = Duration::from_secs(45);
const CHECK_WITHIN: Duration = Duration::from_secs(120);
/// Removal reaches the objects in the background.
const CLEAN_WITHIN: Duration = Duration::from_secs(60);

#[test]
fn killed_servers_lose_nothing_that_was_synced() {
    let first =
        std::env::var("HEOROT_SEED").ok().map_or(1, |seed| seed.parse().expect("HEOROT_SEED is a number"));
    rounds(first, |round| round < ROUNDS);
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
    let client = lab.client("ash");
    cluster.mount(&client, "vers=4.2");
    for round in (0..).take_while(|round| go_on(*round)) {
        let seed = first_seed + round;
        // Shown when the test fails, which it then does with this line last.
        println!("round {round}: HEOROT_SEED={seed}");
        // Both kinds of victim in every two rounds, whatever the seeds.
        let victim = if round % 2 == 0 { Victim::Metaserver } else { Victim::DataServer };
        one_round(&mut cluster, &client, victim, seed);
    }
    assert!(!objects(lab.folder()).is_empty(), "no objects where they are looked for");
    client.run_within(CHECK_WITHIN, "rm -rf /mnt/h/*; sync");
    // Removals reach the objects by themselves. What is left after them has no file, and only the clean-up finds it:
    // it must find nothing, or something leaked.
    until_no_work_is_left(&cluster);
    let said = cluster.admin(&["clean"]);
    assert!(said.starts_with("0 objects seen"), "objects without a file: {said}");
    no_object_is_left(lab.folder());
}

#[derive(Clone, Copy)]
enum Victim {
    Metaserver,
    DataServer,
}

fn one_round(cluster: &mut Cluster, client: &Client, victim: Victim, seed: u64) {
    let mut dice = Dice::new(seed);
    client.run(&format!("rm -f /tmp/stop; touch {}", note_files()));
    let mut storms: Vec<(String, Running)> = Vec::new();
    for n in 1..=STORMS {
        let script =
            scripts::create_storm("/mnt/h/storm", n, u32::try_from(seed).expect("a seed below 2^32"));
        storms.push((format!("create storm {n}"), client.spawn(&script)));
    }
    for n in 1..=WRITERS {
        storms.push((format!("writer {n}"), client.spawn(&scripts::write_storm("/mnt/h/writes", n, seed))));
    }

    sleep(ms(dice.between(500, 3000)));
    let down = ms(dice.between(0, 2000));
    match victim {
        Victim::Metaserver => {
            println!("  kill -9 of the metaserver, down for {down:?}");
            cluster.mds().kill();
            sleep(down);
            cluster.mds().start();
        }
        Victim::DataServer => {
            let number = dice.below(DATA_SERVERS as u64) as usize;
            println!("  kill -9 of data server {number}, down for {down:?}");
            cluster.ds(number).kill();
            sleep(down);
            cluster.ds(number).start();
        }
    }

    // Each storm must do something new after the server is back, not only end without an error.
    let before = notes(client);
    let back = Instant::now();
    while notes(client).iter().zip(&before).any(|(now, before)| now <= before) {
        assert!(
            storms.iter().all(|(_, storm)| !storm.is_done()),
            "ended by itself: {}",
            ended(storms, client)
        );
        let waited = back.elapsed();
        assert!(
            waited < GOES_ON_WITHIN,
            "after {waited:.0?} not all go on: {before:?}, then {:?}",
            notes(client)
        );
        sleep(Duration::from_millis(300));
    }
    println!("  all went on within {:.1?}", back.elapsed());

    client.run("touch /tmp/stop");
    for (name, storm) in storms {
        storm.wait(GOES_ON_WITHIN).must_succeed(&name);
    }
    let entries = client.run_within(CHECK_WITHIN, &scripts::check_storm());
    let blocks = client.run_within(CHECK_WITHIN, &scripts::check_writes("/mnt/h/writes"));
    println!("  {} entries and {} blocks are as they were acknowledged", entries.trim(), blocks.trim());
}

/// Where each storm notes what is done.
fn note_files() -> String {
    let acked = (1..=STORMS).map(|n| format!("/tmp/acked.{n}"));
    let synced = (1..=WRITERS).map(|n| format!("/tmp/synced.{n}"));
    acked.chain(synced).collect::<Vec<_>>().join(" ")
}

/// How many things each storm noted as done.
fn notes(client: &Client) -> Vec<u64> {
    let counts = client.run(&format!("for file in {}; do wc -l <$file; done", note_files()));
    counts.lines().map(|line| line.trim().parse().expect("a count")).collect()
}

fn ended(storms: Vec<(String, Running)>, client: &Client) -> String {
    let ended = storms.into_iter().filter(|(_, storm)| storm.is_done());
    let told: Vec<String> =
        ended.map(|(name, storm)| format!("{name}: {}", storm.wait(GOES_ON_WITHIN))).collect();
    format!("{}\n{}", told.join("\n"), client.console())
}

fn until_no_work_is_left(cluster: &Cluster) {
    let begun = Instant::now();
    while cluster.work_queue() > 0.0 {
        assert!(
            begun.elapsed() < CLEAN_WITHIN,
            "removals do not reach the objects: {}",
            cluster.status_json()
        );
        sleep(Duration::from_millis(200));
    }
}

/// Every file was removed, so every object must be: whatever was killed when.
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
        sleep(Duration::from_millis(500));
    }
}

/// The files below the `objects` folders of all targets.
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

fn sleep(time: Duration) {
    std::thread::sleep(time);
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
