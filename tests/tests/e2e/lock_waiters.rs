//! CB_NOTIFY_LOCK: a client that waits for a lock gets a callback when it is free, and need not poll. The
//! test counts callbacks and LOCKs, not seconds.

use std::time::{Duration, Instant};

use tests::{Client, Cluster, Lab, Metrics};

/// Time limit for a busy machine. Linux itself retries after 30 s, which must not end a wait here.
const SLOW: Duration = Duration::from_secs(120);

/// Takes an exclusive lock of /mnt/h/f, creates /tmp/NAME.held, and releases the lock when /tmp/NAME.go
/// exists.
fn hold(name: &str, how: &str) -> String {
    format!(
        r#"perl -e '
use Fcntl qw(:DEFAULT :flock);
my ($name, $how) = @ARGV;
open my $f, "+<", "/mnt/h/f" or die "open: $!";
sub ask {{ my ($kind, $flock) = @_;
    if ($how eq "flock") {{ flock $f, $flock or die "flock: $!" }}
    else {{ fcntl $f, F_SETLKW, pack "s s x4 q q l x4", $kind, 0, 0, 100, 0 or die "fcntl: $!" }} }}
ask(F_WRLCK, LOCK_EX);
open my $held, ">", "/tmp/$name.held" or die; close $held;
until (-e "/tmp/$name.go") {{ select undef, undef, undef, 0.05 }}
if ($how eq "close") {{ close $f or die "close: $!" }} else {{ ask(F_UNLCK, LOCK_UN) }}
print "done\n";
' {name} {how}"#
    )
}

#[test]
fn a_waiting_lock_is_told_that_it_is_free() {
    let lab = Lab::open();
    let cluster = Cluster::up(&lab, 2);
    let (ash, elm) = (lab.client("ash"), lab.client("elm"));
    for version in ["vers=4.2", "vers=4.1"] {
        for client in [&ash, &elm] {
            cluster.mount(client, version);
        }
        ash.run("head -c 100 /dev/zero >/mnt/h/f");
        // By LOCKU of a byte range and of a whole file, and by the CLOSE that releases the lock.
        for how in ["fcntl", "flock", "close"] {
            let before = Counts::of(&cluster);
            let holder = ash.spawn(&hold("first", how));
            ash.run("until [ -e /tmp/first.held ]; do sleep 0.05; done");
            let waiters = ["second", "third"].map(|name| {
                let waiter = elm.spawn(&hold(name, how));
                until(&format!("{name} is denied"), || {
                    Counts::of(&cluster).denied - before.denied >= if name == "second" { 1 } else { 2 }
                });
                waiter
            });
            let waiting = Counts::of(&cluster);
            ash.run("touch /tmp/first.go");
            holder.wait(SLOW).must_succeed("the holder");
            // In the order of their requests, one at a time.
            for (name, waiter) in ["second", "third"].into_iter().zip(waiters) {
                elm.run_within(SLOW, &format!("until [ -e /tmp/{name}.held ]; do sleep 0.05; done"));
                assert!(
                    name == "third" || elm.run("ls /tmp").lines().all(|file| file != "third.held"),
                    "{how}"
                );
                elm.run(&format!("touch /tmp/{name}.go"));
                waiter.wait(SLOW).must_succeed(name);
            }
            let after = Counts::of(&cluster);
            println!("{version} {how}: {before:?}, {waiting:?}, {after:?}");
            assert_eq!(after.told - waiting.told, 2, "{how}: a call-back for each");
            assert_eq!(after.failed, 0, "{how}: call-backs failed");
            assert_eq!(after.asked - waiting.asked, 2, "{how}: each asked once more, and got it");
            assert_eq!(after.denied - before.denied, 2, "{how}: each was denied once");
            clean(&[&ash, &elm]);
        }
        ash.run("rm /mnt/h/f");
        for client in [&ash, &elm] {
            client.run("umount /mnt/h");
        }
    }
}

fn clean(clients: &[&Client]) {
    for client in clients {
        client.run("rm -f /tmp/*.held /tmp/*.go");
    }
}

/// Counters of the metaserver.
#[derive(Debug, Clone, Copy)]
struct Counts {
    asked: i64,
    denied: i64,
    told: i64,
    failed: i64,
}

impl Counts {
    #[expect(clippy::cast_possible_truncation, reason = "small counts")]
    fn of(cluster: &Cluster) -> Counts {
        let metrics: Metrics = cluster.metrics_mds();
        let sum = |name: &str, protocol, operation| {
            metrics.sum(name, &[("protocol", protocol), ("operation", operation)]) as i64
        };
        let done = "heorot_operation_latency_seconds_count";
        Counts {
            asked: sum(done, "nfs4", "LOCK"),
            denied: sum("heorot_operation_errors_total", "nfs4", "LOCK"),
            told: sum(done, "nfs4_cb", "CB_NOTIFY_LOCK"),
            failed: sum("heorot_operation_errors_total", "nfs4_cb", "CB_NOTIFY_LOCK"),
        }
    }
}

fn until(what: &str, is: impl Fn() -> bool) {
    let asked = Instant::now();
    while !is() {
        assert!(asked.elapsed() < SLOW, "waited too long until {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
