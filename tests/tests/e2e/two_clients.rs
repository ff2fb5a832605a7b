//! Two client machines on one file system: locks, listings of a changing directory, close-to-open.

use std::time::{Duration, Instant};

use tests::{Client, Cluster, Lab, Running, scripts};

/// Time limit; a listing of 10,000 entries takes a client of this kind about a second.
const SLOW: Duration = Duration::from_secs(180);
const ENTRIES: u32 = 10_000;
const DATA_SERVERS: usize = 4;

#[test]
fn locks_exclude_between_clients() {
    with_two_clients(&["vers=4.2", "vers=4.1"], |ash, elm| {
        // Both increment a number under flock: a lock held by both at once would lose an increment.
        ash.run("mkdir -p /mnt/h/locks; echo 0 >/mnt/h/locks/count");
        let each = 25; // each starts three processes, which is what a client of this kind is slow at
        let both =
            [ash, elm].map(|client| client.spawn(&scripts::count_under_lock("/mnt/h/locks/count", each)));
        for running in both {
            running.wait(SLOW).must_succeed("count_under_lock");
        }
        assert_eq!(elm.run("cat /mnt/h/locks/count").trim(), (2 * each).to_string());
    });
}

/// Linux may send LAYOUTCOMMIT for its writes with its next lock, not before its unlock: then only the data
/// servers know the size that the next appending client needs.
#[test]
fn records_that_two_clients_append_under_a_lock_are_all_there() {
    // Larger than inline data: records go to data servers.
    let (file, record_bytes, count) = ("/mnt/h/appended", 8192, 40);
    with_two_clients(&["vers=4.2", "vers=4.1"], |ash, elm| {
        let append = |(client, letter): (&Client, char)| {
            let script = scripts::append_records(file, letter, record_bytes, count);
            (client.spawn(&script), script)
        };
        for (running, script) in [(ash, 'a'), (elm, 'e')].map(append) {
            running.wait(SLOW).must_succeed(&script);
        }
        for client in [ash, elm] {
            let records = client.run(&scripts::count_records(file, record_bytes));
            assert_eq!(records, format!("{count} a\n{count} e\n"), "as {} sees them", client.name());
        }
        ash.run(&format!("rm {file}"));
    });
}

#[test]
fn byte_range_locks_are_granted_refused_and_handed_on() {
    with_two_clients(&["vers=4.2", "vers=4.1"], |ash, elm| {
        let file = "/mnt/h/ranges";
        ash.run(&format!("head -c 4096 /dev/zero >{file}"));
        let lock = |kind, start, length| scripts::fcntl_lock(file, kind, start, length, false, 0.0);

        // ash holds bytes 100..200 exclusively and 300..400 shared. It waits: elm's look may hold the lock just then.
        let held = ash.spawn(&scripts::fcntl_lock(file, "write", 100, 100, true, 600.0));
        let shared = ash.spawn(&scripts::fcntl_lock(file, "read", 300, 100, true, 600.0));
        until_refused(elm, &lock("write", 199, 1), &held);
        until_refused(elm, &lock("write", 399, 1), &shared);

        for (kind, start, length, expected) in [
            ("read", 100, 1, "refused"),
            ("write", 0, 101, "refused"),
            ("write", 0, 0, "refused"), // length 0: to the end of the file, wherever that comes to be
            ("write", 0, 100, "locked"),
            ("write", 200, 100, "locked"),
            ("read", 300, 100, "locked"),
            ("read", 250, 200, "locked"),
            ("write", 350, 1, "refused"),
            ("write", 400, 0, "locked"),
        ] {
            let answer = elm.run(&lock(kind, start, length));
            assert!(answer.starts_with(expected), "{kind} lock at {start}+{length}: {answer}");
        }

        // A waiter gets the lock when its owner ends.
        let waiting = elm.spawn(&scripts::fcntl_lock(file, "write", 150, 10, true, 0.0));
        std::thread::sleep(Duration::from_secs(2));
        assert!(!waiting.is_done(), "a waiting lock was granted while another held it");
        held.kill();
        shared.kill();
        let answer = waiting.wait(Duration::from_secs(60)).must_succeed("a waiting lock");
        assert!(answer.starts_with("locked"), "{answer}");
    });
}

#[test]
fn a_listing_is_whole_while_another_client_adds_and_removes() {
    let lab = Lab::open();
    let cluster = Cluster::separate(&lab, DATA_SERVERS);
    let (ash, elm) = (lab.client("ash"), lab.client("elm"));
    let dir = "/mnt/h/many";
    // Created once, since that takes longest: only the listings differ between the versions.
    mounted(&cluster, [&ash, &elm], "vers=4.2", || {
        ash.run_within(SLOW, &scripts::make_entries(dir, ENTRIES));
    });
    for options in ["vers=4.2", "vers=4.1", "vers=3"] {
        mounted(&cluster, [&ash, &elm], options, || {
            elm.run("rm -f /tmp/stop /tmp/churning");
            let churn = elm.spawn(&scripts::churn_entries(dir));
            elm.run_within(SLOW, "until [ -e /tmp/churning ]; do sleep 0.05; done");
            ash.run_within(SLOW, &scripts::list_entries(dir, ENTRIES, 5));
            let made = stop(&elm, churn);
            assert!(
                made.trim().parse::<u32>().is_ok_and(|made| made > 200),
                "only {made} entries came and went"
            );
            // Afterwards both see the same.
            let names = |client: &Client| {
                client.run_within(SLOW, &format!("ls -U {dir} | sort | sha256sum; ls {dir} | wc -l"))
            };
            assert_eq!(names(&ash), names(&elm));
        });
    }
    mounted(&cluster, [&ash, &elm], "vers=4.2", || {
        ash.run_within(SLOW, &format!("rm -r {dir}"));
        elm.run(&format!("[ ! -e {dir} ]"));
    });
}

#[test]
fn what_one_client_closed_the_other_opens() {
    with_two_clients(&["vers=4.2", "vers=4.1", "vers=3"], |ash, elm| {
        ash.run("mkdir -p /mnt/h/shared");
        for round in 0..10 {
            // Longer, shorter, and the same length with other bytes: the size alone must not decide.
            let bytes = [3_000_000, 10, 3_000_000, 0, 1_500_001][round % 5];
            let (writer, reader) = if round % 2 == 0 { (ash, elm) } else { (elm, ash) };
            let sum = writer.run(&format!(
                "head -c {bytes} /dev/urandom >/tmp/new
                 cat /tmp/new >/mnt/h/shared/file; sha256sum </tmp/new"
            ));
            assert_eq!(reader.run("sha256sum </mnt/h/shared/file"), sum, "round {round}");
        }
        // Renamed over while the other has it open: that client continues to read the old file.
        ash.run("echo old >/mnt/h/shared/name; echo new >/mnt/h/shared/name.new");
        let reader = elm.spawn("exec 5</mnt/h/shared/name; touch /tmp/opened; until [ -e /tmp/renamed ]; do sleep 0.1; done
                                echo 3 >/proc/sys/vm/drop_caches; cat <&5; cat /mnt/h/shared/name; rm /tmp/opened /tmp/renamed");
        elm.run("until [ -e /tmp/opened ]; do sleep 0.1; done");
        ash.run("mv /mnt/h/shared/name.new /mnt/h/shared/name");
        elm.run("touch /tmp/renamed");
        let output = reader.wait(SLOW);
        // With v3 a server cannot know the open file: RFC 1813 has no OPEN, so it may return ESTALE.
        let v3 = elm.run("grep -c ' /mnt/h .*vers=3' /proc/mounts || true").trim() == "1";
        assert!(v3 || output.text == "old\nnew\n", "{output}");
        // One appends, the other truncates, in turns.
        ash.run("printf 123456 >/mnt/h/shared/turns");
        elm.run("truncate -s 3 /mnt/h/shared/turns");
        ash.run("printf abc >>/mnt/h/shared/turns");
        assert_eq!(elm.run("cat /mnt/h/shared/turns; rm -r /mnt/h/shared"), "123abc");
    });
}

/// Boots two clients once, and runs the story with each kind of mount.
fn with_two_clients(mounts: &[&str], story: impl Fn(&Client, &Client)) {
    let lab = Lab::open();
    let cluster = Cluster::separate(&lab, DATA_SERVERS);
    let (ash, elm) = (lab.client("ash"), lab.client("elm"));
    for options in mounts {
        mounted(&cluster, [&ash, &elm], options, || story(&ash, &elm));
    }
}

fn mounted(cluster: &Cluster, clients: [&Client; 2], options: &str, story: impl FnOnce()) {
    let begun = Instant::now();
    for client in clients {
        cluster.mount(client, options);
    }
    story();
    for client in clients {
        client.run("umount /mnt/h");
    }
    println!("{options}: {:.1?}", begun.elapsed());
}

fn stop(client: &Client, storm: Running) -> String {
    client.run("touch /tmp/stop");
    storm.wait(SLOW).must_succeed("a script that was told to stop")
}

/// Waits until the other client's script has taken its lock.
#[track_caller]
fn until_refused(client: &Client, lock: &str, owner: &Running) {
    let begun = Instant::now();
    loop {
        let answer = client.try_run(lock);
        if answer.text.starts_with("refused") {
            return;
        }
        assert!(!owner.is_done(), "the lock's owner ended by itself");
        assert!(begun.elapsed() < Duration::from_secs(20), "the owner's lock is not seen: {answer}");
        std::thread::sleep(Duration::from_millis(200));
    }
}
