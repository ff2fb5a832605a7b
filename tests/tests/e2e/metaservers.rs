//! Three metaservers: when the one of a client's mount dies, the client stalls for a moment and continues,
//! and nothing is lost, done twice, or refused.

use std::time::{Duration, Instant};

use tests::stalls::{self, Work};
use tests::{Client, Lab, Metaservers, Running};

/// Number of kills, each of the metaserver of the client's mount, so that its address has to move.
const KILLS: usize = 4;
/// Limit of an operation. Less than any grace period; a second is usual, and three after a hang
/// (docs/benchmarks.md), but a busy machine must not fail the test.
const STALL_MAX: Duration = Duration::from_secs(30);
/// Rounds of the client between kills.
const BETWEEN_KILLS: u32 = 40;
const LONG: Duration = Duration::from_secs(120);
/// Rounds between two clients; 10,000 in `make failover`.
const ROUNDS: u32 = 300;
const BETWEEN_KILLS_OF_AGREE: Duration = Duration::from_secs(4);

/// Creates, writes, renames, reads and removes files until /tmp/stop exists. Every operation must succeed,
/// and find the earlier state. Prints the number of rounds, and the longest operation.
const WORK: &str = r#"perl -e '
use Fcntl; use Time::HiRes qw(time); use strict;
my ($rounds, $longest, $what) = (0, 0, "");
sub timed { my ($name, $do) = @_; my $began = time; $do->() or die "round $rounds: $name: $!\n";
    my $took = time - $began; ($longest, $what) = ($took, $name) if $took > $longest }
mkdir "/mnt/h/work" or die "mkdir: $!"; mkdir "/mnt/h/done" or die "mkdir: $!";
until (-e "/tmp/stop") {
    my ($new, $old) = ("/mnt/h/work/f$rounds", "/mnt/h/done/f$rounds");
    my $file;
    timed("create", sub { sysopen $file, $new, O_RDWR | O_CREAT | O_EXCL });
    timed("write", sub { syswrite($file, "round $rounds") });
    timed("close", sub { close $file });
    timed("rename", sub { rename $new, $old });
    timed("link", sub { link $old, $new });
    timed("unlink", sub { unlink $new });
    timed("mkdir", sub { mkdir "$new.d" });
    timed("rmdir", sub { rmdir "$new.d" });
    $rounds++;
    open my $said, ">", "/tmp/rounds" or die; print $said $rounds; close $said;
}
my @there = glob "/mnt/h/done/*"; die scalar(@there) . " files of $rounds\n" unless @there == $rounds;
die "left over\n" if glob "/mnt/h/work/*";
for my $n (0 .. $rounds - 1) {
    open my $file, "<", "/mnt/h/done/f$n" or die "open f$n: $!"; my $text = <$file>;
    die "f$n: $text\n" unless $text eq "round $n";
}
printf "%d %.3f %s\n", $rounds, $longest, $what;
'"#;

/// Rounds and longest operation.
fn worked(output: &str) -> (u64, Duration, String) {
    let words: Vec<&str> = output.split_whitespace().collect();
    let [rounds, longest, what] = words[..] else { panic!("{output}") };
    (rounds.parse().unwrap(), Duration::from_secs_f64(longest.parse().unwrap()), what.into())
}

/// Starts [`WORK`] on the client.
fn begin(client: &Client) -> Running {
    client.run("rm -rf /tmp/stop /mnt/h/work /mnt/h/done; echo 0 >/tmp/rounds");
    client.spawn(WORK)
}

/// Waits for some more rounds of the client's work, which must not end.
fn does_more(client: &Client, work: Running) -> Running {
    // The file is empty for a moment during each write: read it again then.
    let rounds = || client.run("cat /tmp/rounds").trim().parse::<u32>().ok();
    let begun = Instant::now();
    let mut first = None;
    loop {
        if work.is_done() {
            panic!("the work ended, untold: {}", work.wait(LONG));
        }
        let now = rounds();
        first = first.or(now);
        if first.zip(now).is_some_and(|(first, now)| now >= first + BETWEEN_KILLS) {
            return work;
        }
        assert!(
            begun.elapsed() < LONG,
            "{now:?} rounds, {first:?} when this began: {BETWEEN_KILLS} more were waited for"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn goes_on(cluster: &mut Metaservers, client: &Client, version: &str) {
    cluster.mount(client, 0, version);
    let mut work = begin(client);
    for _ in 0..KILLS {
        work = does_more(client, work);
        let service = cluster.service(0);
        cluster.wait_until("somebody holds the service address", |cluster| cluster.holder(service).is_some());
        let holder = cluster.holder(service).expect("somebody");
        cluster.kill(holder);
        cluster.wait_until("another one holds it", |cluster| {
            cluster.holder(service).is_some_and(|now| now != holder)
        });
        cluster.start_again(holder);
    }
    work = does_more(client, work);
    client.run("touch /tmp/stop");
    let output = work.wait(LONG).must_succeed("the work");
    let (rounds, longest, what) = worked(&output);
    println!("{version}: {rounds} rounds, {KILLS} kills; the longest operation, a {what}, took {longest:?}");
    assert!(rounds > 100, "{rounds} rounds");
    assert!(longest <= STALL_MAX, "a {what} took {longest:?}");
    client.run("umount /mnt/h");
}

/// On elm: for each number that ash sends, the file must have it: opens, reads, closes, answers.
const READER: &str = r#"perl -e '
use IO::Socket::INET; use strict;
my $server = IO::Socket::INET->new(Listen => 1, LocalPort => 7777, ReuseAddr => 1) or die "listen: $!";
open my $ready, ">", "/tmp/listens" or die; close $ready;
my $ash = $server->accept or die "accept: $!"; $ash->autoflush(1);
my $rounds = 0;
while (defined(my $said = <$ash>)) {
    chomp $said;
    open my $file, "<", "/mnt/h/told" or die "open: $!"; my $text = <$file>; close $file;
    die "told $said, read $text\n" unless $text eq $said;
    die "no $said.d\n" unless -d "/mnt/h/$said.d"; rmdir "/mnt/h/$said.d" or die "rmdir: $!";
    my $won = sysopen(my $only, "/mnt/h/only.$said", 0301) ? 1 : 0;
    print $ash "$won\n"; $rounds++;
}
print "$rounds\n";
'"#;

/// On ash: writes the next number, closes, and sends it to elm. Both try an exclusive create, and one
/// succeeds.
const WRITER: &str = r#"perl -e '
use IO::Socket::INET; use strict;
my ($elm, $rounds) = @ARGV;
my $wire = IO::Socket::INET->new(PeerAddr => $elm, PeerPort => 7777) or die "connect: $!"; $wire->autoflush(1);
for my $n (1 .. $rounds) {
    open my $file, ">", "/mnt/h/told" or die "open: $!"; print $file $n; close $file or die "close: $!";
    mkdir "/mnt/h/$n.d" or die "mkdir: $!";
    print $wire "$n\n";
    my $won = sysopen(my $only, "/mnt/h/only.$n", 0301) ? 1 : 0;
    my $elm_won = <$wire>; chomp $elm_won;
    die "round $n: ash $won, elm $elm_won\n" unless $won + $elm_won == 1;
    my $again = rmdir "/mnt/h/$n.d"; my $why = $!;
    die "$n.d is still there: $why\n" if $again or $why !~ /No such/;
    unlink "/mnt/h/only.$n" or die "unlink: $!";
}
print "done\n";
' ELM ROUNDS"#;

/// A file that was closed at one metaserver has its data when it is opened at another; an exclusive create
/// succeeds once.
fn agree(cluster: &mut Metaservers, ash: &Client, elm: &Client, rounds: u32, with_kills: bool) {
    elm.run("rm -f /tmp/listens");
    let reader = elm.spawn(READER);
    elm.run("until [ -e /tmp/listens ]; do sleep 0.05; done");
    let holders = [0, 1].map(|n| cluster.holder(cluster.service(n)));
    assert!(holders[0] != holders[1], "two metaservers: {holders:?}");
    let script = WRITER.replace("ELM", &elm.address().to_string()).replace("ROUNDS", &rounds.to_string());
    let (writer, begun) = (ash.spawn(&script), Instant::now());
    let (limit, mut kills) = (LONG * (1 + rounds / 100), 0);
    while with_kills && !writer.is_done() && begun.elapsed() < limit {
        std::thread::sleep(BETWEEN_KILLS_OF_AGREE);
        if let Some(victim) = cluster.victim(cluster.service(kills % 2), kills) {
            cluster.kill(victim);
            std::thread::sleep(Duration::from_secs(1));
            cluster.start_again(victim);
            kills += 1;
        }
    }
    writer.wait(limit).must_succeed("the writer");
    assert_eq!(reader.wait(LONG).must_succeed("the reader").trim(), rounds.to_string());
    println!("{rounds} rounds, {kills} kills");
}

/// A file that another client replaces always exists, and is whole.
fn watch_renames(ash: &Client, elm: &Client) {
    elm.run("echo 0 0 >/mnt/h/replaced");
    let mut replacing = Work::begin(ash, "replaces", stalls::REPLACES, &["/mnt/h/replaced"]);
    replacing.does_more(1);
    let mut watching = Work::begin(elm, "watches", stalls::WATCHES, &["/mnt/h/replaced"]);
    replacing.does_more(20);
    watching.does_more(20);
    let (looks, _) = watching.end();
    let (replaced, _) = replacing.end();
    println!("replaced {} times, looked at {} times", replaced.trim(), looks.trim());
}

/// Takes a lock, and writes under it when /tmp/go exists.
const HOLDER: &str = r#"perl -e '
use Fcntl qw(:flock); use strict;
open my $file, "+>", "/mnt/h/locked" or die "open: $!";
flock $file, LOCK_EX or die "flock: $!";
unlink "/mnt/h/gone"; open my $gone, "+>", "/mnt/h/gone" or die; print $gone "still here"; unlink "/mnt/h/gone";
open my $held, ">", "/tmp/held" or die; close $held;
until (-e "/tmp/go") { select undef, undef, undef, 0.05 }
syswrite($file, "mine") or die "write: $!"; close $file or die "close: $!";
seek $gone, 0, 0; print <$gone>, "\n";
'"#;

/// Power failure of all metaservers at the same time.
fn outlive_all(cluster: &mut Metaservers, ash: &Client, elm: &Client) {
    let holder = ash.spawn(HOLDER);
    ash.run("until [ -e /tmp/held ]; do sleep 0.05; done");
    (0..3).for_each(|n| cluster.kill(n));
    cluster.start_all_again();
    elm.run("! flock -n /mnt/h/locked true"); // held, as before
    let waiter = elm.spawn("flock /mnt/h/locked cat /mnt/h/locked");
    ash.run("touch /tmp/go");
    assert_eq!(holder.wait(LONG).must_succeed("the holder").trim(), "still here");
    assert_eq!(waiter.wait(LONG).must_succeed("the waiter"), "mine");
}

#[test]
fn two_clients_of_two_metaservers_agree_and_outlive_them_all() {
    let lab = Lab::open();
    let mut cluster = Metaservers::start(&lab, 3, 2, 2);
    let (ash, elm) = (lab.client("ash"), lab.client("elm"));
    cluster.mount(&ash, 0, "vers=4.2");
    cluster.mount(&elm, 1, "vers=4.2");
    match std::env::var("HEOROT_ROUNDS") {
        Ok(text) => {
            agree(&mut cluster, &ash, &elm, text.parse().expect("a number of rounds"), true);
            watch_renames(&ash, &elm);
        }
        Err(_) => agree(&mut cluster, &ash, &elm, ROUNDS, false),
    }
    outlive_all(&mut cluster, &ash, &elm);
}

/// The address moves to another metaserver and back to the first, which still has the client's old session
/// state.
fn goes_and_comes_back(cluster: &mut Metaservers, client: &Client) {
    cluster.mount(client, 0, "vers=4.2");
    let mut work = begin(client);
    work = does_more(client, work);
    let service = cluster.service(0);
    let first = cluster.holder(service).expect("somebody");
    cluster.freeze(first);
    cluster.wait_until("another one holds it", |cluster| {
        cluster.holder(service).is_some_and(|now| now != first)
    });
    work = does_more(client, work);
    cluster.thaw(first);
    cluster.wait_until("the first follows again", |cluster| !cluster.status(first).is_null());
    // Drain the third one, so that only the first can take the address when its holder is killed.
    let holder = cluster.holder(service).expect("somebody");
    let third = 3 - first - holder;
    cluster.heorot(first, &["node", "drain", &format!("mds{third}")]);
    cluster.kill(holder);
    cluster.wait_until("the first holds it again", |cluster| cluster.holder(service) == Some(first));
    cluster.start_again(holder);
    work = does_more(client, work);
    client.run("touch /tmp/stop");
    let (rounds, longest, what) = worked(&work.wait(LONG).must_succeed("the work"));
    println!("hung, and back: {rounds} rounds; the longest operation, a {what}, took {longest:?}");
    assert!(longest <= STALL_MAX, "a {what} took {longest:?}");
    client.run("umount /mnt/h");
}

/// NFSv3 has no sessions: another metaserver recognizes a retry by its xid and its bytes.
#[test]
fn a_client_of_nfsv3_goes_on_when_its_metaserver_is_killed() {
    let lab = Lab::open();
    let mut cluster = Metaservers::start(&lab, 3, 2, 1);
    goes_on(&mut cluster, &lab.client("ash"), "vers=3");
}

#[test]
fn a_client_goes_on_when_its_metaserver_is_killed_or_hangs() {
    let lab = Lab::open();
    let mut cluster = Metaservers::start(&lab, 3, 2, 1);
    let ash = lab.client("ash");
    goes_on(&mut cluster, &ash, "vers=4.2");
    goes_and_comes_back(&mut cluster, &ash);
}
