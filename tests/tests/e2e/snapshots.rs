//! Snapshots with a real client: what they show stays as it was, whatever is written since, and nothing is left of them.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tests::copies::until;
use tests::stalls::{self, Work};
use tests::{Client, Cluster, Lab, Metaservers};

/// What each file below a directory has: path, kind, mode, size, number of names, and a sum of its data.
pub fn shown(client: &Client, dir: &str) -> String {
    client.run(&format!(
        "cd {dir}; find . -type f -o -type l | sort | xargs stat -c '%n %F %a %s %h'
         find . -type f | sort | xargs md5sum; find . -type l | sort | xargs -r readlink"
    ))
}

/// Number of objects below a folder of data servers.
pub fn objects(folder: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let of = |entry: std::fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && name != "trash" => objects(&entry.path()),
            // volume, inode, generation and column
            Ok(kind) if kind.is_file() => usize::from(name.split('.').count() == 4 && name.len() == 43),
            _ => 0,
        }
    };
    entries.flatten().map(of).sum()
}

fn refused(client: &Client, script: &str, why: &str) {
    let said = client.try_run(&format!("cd /mnt/h/v; {script} 2>&1"));
    assert!(said.status != 0 && said.text.contains(why), "{script}: {said:?}");
}

fn snapshots(cluster: &Cluster) -> usize {
    let all: Value = serde_json::from_str(&cluster.admin(&["snapshot", "list", "--json"])).expect("JSON");
    all.as_array().expect("an array").len()
}

#[test]
fn a_snapshot_shows_what_the_volume_had_and_goes_without_a_trace() {
    let lab = Lab::open();
    let cluster = Cluster::separate(&lab, 2);
    let ash = lab.client("ash");
    for version in ["vers=4.2", "vers=3"] {
        println!("--- {version}");
        cluster.admin(&["volume", "create", "/v"]);
        cluster.mount(&ash, version);
        let before = objects(cluster.folder());
        ash.run(
            "cd /mnt/h/v; mkdir -p d/e; echo small >small; echo deep >d/e/deep; ln -s d/e/deep link; ln small d/hard
             head -c 5000000 /dev/urandom >big; head -c 3000000 /dev/urandom >d/cut; cp d/cut d/gone
             cp d/cut d/anew; sync",
        );
        let first = shown(&ash, "/mnt/h/v");
        assert!(cluster.admin(&["snapshot", "create", "/v@one"]).contains("/v/.snapshot/one"));
        assert_eq!(shown(&ash, "/mnt/h/v/.snapshot/one"), first);
        assert_eq!(ash.run("cd /mnt/h/v; ls -a | grep -c snapshot || true").trim(), "0", "hidden");
        assert_eq!(ash.run("ls /mnt/h/v/.snapshot").trim(), "one");
        let device = |path: &str| ash.run(&format!("stat -c %d /mnt/h/v/{path}/."));
        assert_ne!(device(".snapshot/one"), device("."), "a file system of its own");

        // Over data, at the end, shorter, gone, under another name; small files, too.
        ash.run(
            "cd /mnt/h/v; dd if=/dev/urandom of=big bs=4096 count=3 seek=100 conv=notrunc,fsync status=none
             head -c 100000 /dev/urandom >>big; truncate -s 1000 d/cut; rm d/gone small; echo other >d/hard
             head -c 1500000 /dev/urandom >d/anew
             mv d/e f; echo new >new; head -c 2000000 /dev/urandom >made; chmod 600 f/deep; sync",
        );
        let second = shown(&ash, "/mnt/h/v");
        assert_ne!(first, second);
        assert_eq!(shown(&ash, "/mnt/h/v/.snapshot/one"), first);
        cluster.admin(&["snapshot", "create", "/v@two"]);
        ash.run("cd /mnt/h/v; dd if=/dev/urandom of=big bs=4096 count=1 conv=notrunc,fsync status=none; rm made f/deep");
        for (name, then) in [("one", &first), ("two", &second)] {
            assert_eq!(&shown(&ash, &format!("/mnt/h/v/.snapshot/{name}")), then, "{name}");
        }
        // A file comes back.
        ash.run("cd /mnt/h/v; cp -p .snapshot/one/d/gone d/gone; cmp .snapshot/one/d/gone d/gone");

        for script in [
            "echo x >.snapshot/one/small",
            "rm .snapshot/one/small",
            "mkdir .snapshot/x",
            "rmdir .snapshot/two",
            "mv .snapshot/one .snapshot/x",
            "touch .snapshot/one/d/cut",
            "chmod 777 .snapshot/one/link",
        ] {
            let said = ash.try_run(&format!("cd /mnt/h/v; {script} 2>&1"));
            assert!(said.status != 0, "{script}: {said:?}");
        }
        refused(&ash, "echo x >.snapshot/one/d/new", "Read-only file system");
        refused(&ash, "ls .snapshot/none", "No such file");
        let try_admin = |arguments: &[&str]| cluster.try_admin(arguments).expect_err("refused");
        assert!(try_admin(&["snapshot", "create", "/v@one"]).contains("/v@one exists"));
        assert!(try_admin(&["snapshot", "create", "/v/d@one"]).contains("and no volume"));
        assert!(try_admin(&["snapshot", "create", "/v/.snapshot/one@x"]).contains("is in a snapshot"));
        assert!(try_admin(&["snapshot", "create", "/v"]).contains("names no snapshot"));
        assert!(try_admin(&["snapshot", "remove", "/v@three"]).contains("no snapshot /v@three"));
        assert!(try_admin(&["volume", "remove", "/v", "--force"]).contains("snapshots of /v"));
        assert_eq!(snapshots(&cluster), 2);

        // An NFSv3 client opens nothing at the server.
        let reader = ash.spawn("exec 3</mnt/h/v/.snapshot/one/big; touch /tmp/is-open; exec sleep 1000");
        until("the reader has the file open", || ash.try_run("test -e /tmp/is-open").status == 0);
        if version != "vers=3" {
            assert!(try_admin(&["snapshot", "remove", "/v@one"]).contains("open"));
        }
        reader.kill();
        ash.run("rm /tmp/is-open");
        cluster.admin(&["snapshot", "remove", "/v@one", "--force"]);
        assert_eq!(shown(&ash, "/mnt/h/v/.snapshot/two"), second);
        cluster.admin(&["snapshot", "remove", "/v@two", "--force"]);
        until("the removals are done", || snapshots(&cluster) == 0);
        let live = shown(&ash, "/mnt/h/v");
        assert!(live.contains("./big") && live.contains("./d/gone"), "{live}");
        ash.run("cd /mnt/h/v; rm -r *; sync");
        until("no object is left", || objects(cluster.folder()) == before);
        ash.run_within(Duration::from_secs(60), "cd /; umount -R /mnt/h");
        cluster.admin(&["volume", "remove", "/v", "--force"]);
        until("the volume is gone", || !cluster.admin(&["volume", "list"]).contains("removed"));
    }
}

#[test]
fn a_schedule_makes_snapshots_and_removes_those_above_the_number_to_keep() {
    let lab = Lab::open();
    let cluster = Cluster::separate(&lab, 1);
    let names = || {
        let all: Value = serde_json::from_str(&cluster.admin(&["snapshot", "list", "--json"])).expect("JSON");
        let all = all.as_array().expect("an array").iter();
        all.filter_map(|one| one["name"].as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    let of = |kind: &str| names().iter().filter(|name| name.starts_with(kind)).count();
    cluster.admin(&["volume", "create", "/v"]);
    cluster.admin(&["snapshot", "create", "/v@hourly-by-hand"]);
    assert!(cluster.admin(&["snapshot", "schedule", "/v", "hourly=2,daily=7"]).contains("has a schedule"));
    until("one is made for the hour, and one for the day", || of("hourly-20") == 1 && of("daily-20") == 1);
    assert!(cluster.admin(&["snapshot", "schedule"]).contains("/v"));
    cluster.admin(&["snapshot", "schedule", "/v", "daily=1"]);
    until("a kind that is left out keeps none", || of("hourly-20") == 0);
    assert_eq!((of("hourly-by-hand"), of("daily-20")), (1, 1), "others stay");
    cluster.admin(&["snapshot", "schedule", "/v", "none"]);
    assert_eq!(cluster.admin(&["snapshot", "schedule", "--json"]).trim(), "[]");
    let refused = |arguments: &[&str]| cluster.try_admin(arguments).expect_err("refused");
    assert!(refused(&["snapshot", "schedule", "/v", "yearly=1"]).contains("is no schedule"));
    assert!(refused(&["snapshot", "schedule", "/nothing", "daily=1"]).contains("no such directory"));
}

/// Snapshots that are made while servers are killed.
const ROUNDS: usize = 5;

/// What a client does between two snapshots: over data, at the end, shorter, gone, under other names.
fn round(number: usize) -> String {
    format!(
        "cd /mnt/h/w; test -e big || head -c 4000000 /dev/urandom >big
         for n in 1 2 3 4; do dd if=/dev/urandom of=big bs=4096 count=1 seek=$((RANDOM % 900)) conv=notrunc,fsync status=none; done
         head -c 200000 /dev/urandom >>big; echo {number} >small; mkdir -p d{number}; echo {number} >d{number}/f
         cp big d{number}/copy; test {number} -lt 2 || {{ truncate -s {number}000 d$(({number}-1))/copy; mv d$(({number}-2)) e{number}; }}
         test {number} -lt 3 || rm -r e$(({number}-1)); sync"
    )
}

/// Asks for a snapshot, or its removal, at one metaserver after the other until it is done.
pub fn until_done(cluster: &Metaservers, arguments: &[&str], is_done: &str) {
    let at = std::cell::Cell::new(0);
    until(&arguments.join(" "), || {
        at.set((at.get() + 1) % 3);
        let said = cluster.try_heorot(at.get(), arguments);
        said.contains(is_done) || said.contains("is made") || said.contains("is removed")
    });
}

#[test]
fn snapshots_are_whole_when_servers_are_killed_while_they_are_made_written_over_and_removed() {
    let lab = Lab::open();
    let mut cluster = Metaservers::start(&lab, 3, 2, 1);
    let (ash, elm) = (lab.client("ash"), lab.client("elm"));
    cluster.mount(&ash, 0, "vers=4.2");
    cluster.mount(&elm, 0, "vers=4.2");
    ash.run("mkdir /mnt/h/w");
    // Another one writes through layouts all the time: each snapshot takes them back.
    let mut work = Work::begin(&elm, "data", stalls::DATA, &["/mnt/h/data", "4"]);
    let mut then = vec![];
    for number in 0..ROUNDS {
        let running = ash.spawn(&round(number));
        // Mostly within the copies of objects that the snapshot before shows.
        match number % 2 {
            0 => kill_leader(&mut cluster),
            _ => {
                let data_server = cluster.data_server(number / 2 % 2);
                data_server.kill();
                data_server.start().unwrap_or_else(|error| panic!("{error}"));
            }
        }
        running.wait(Duration::from_secs(120)).must_succeed("a round");
        then.push(shown(&ash, "/mnt/h/w"));
        let name = format!("/@s{number}");
        let asked = cluster.begin_heorot(1, &["snapshot", "create", &name]);
        if number % 2 == 1 {
            kill_leader(&mut cluster);
        }
        drop(asked.wait_with_output());
        until_done(&cluster, &["snapshot", "create", &name], "exists");
        work.does_more(1);
    }
    for (number, then) in then.iter().enumerate() {
        assert_eq!(&shown(&ash, &format!("/mnt/h/.snapshot/s{number}/w")), then, "of round {number}");
    }
    for number in 0..ROUNDS {
        let name = format!("/@s{number}");
        let asked = cluster.begin_heorot(2, &["snapshot", "remove", &name, "--force"]);
        if number % 2 == 0 {
            kill_leader(&mut cluster);
        }
        drop(asked.wait_with_output());
        until_done(&cluster, &["snapshot", "remove", &name, "--force"], "there is no snapshot");
        for (number, then) in then.iter().enumerate().skip(number + 1) {
            assert_eq!(&shown(&ash, &format!("/mnt/h/.snapshot/s{number}/w")), then, "of round {number}");
        }
    }
    assert_eq!(&shown(&ash, "/mnt/h/w"), &then[ROUNDS - 1], "the volume itself");
    work.does_more(1);
    work.end();
    until("the removals are done", || cluster.heorot(0, &["snapshot", "list", "--json"]).trim() == "[]");
    ash.run("rm -r /mnt/h/w /mnt/h/data*; sync");
    until("no object is left", || objects(cluster.folder()) == 0);
}

/// Kills the metaserver that leads, and starts it again.
pub fn kill_leader(cluster: &mut Metaservers) {
    cluster.wait_until("one leads", |cluster| cluster.leader().is_some());
    let leader = cluster.leader().expect("one leads");
    cluster.kill(leader);
    cluster.start_again(leader);
}

/// Changes of a tree in a fixed order, each of which is one step for others: `write DIR` makes them until it is told to
/// stop, `check DIR LOW HIGH` says which number of them gives the tree in DIR, by making them in a directory of its own.
const STEPS: &str = r#"
use strict; my ($what, $dir, @range) = @ARGV;
sub pick { my ($k, $of, $salt) = @_; ((($k + 7919 * $salt) * 2654435761 % 4294967296) >> 9) % $of }
sub text { my ($k) = @_; sprintf("%08d\n", $k) x ($k % 9 ? 1 + pick($k, 3000, 1) : 30000) }
sub step { my ($root, $k) = @_; my $kind = pick($k, 10, 2);
    my ($one, $other) = map { "$root/t/f" . pick($k, 12, $_) } 3, 4;
    if ($kind < 4 || !-e $one) { open my $f, ">", "$root/new" or die "new: $!"; print $f text($k); close $f or die "close: $!";
        rename "$root/new", $one or die "rename: $!" }
    elsif ($kind < 6 && -s $one > 8192) { open my $f, "+<", $one or die "open: $!";
        seek $f, 4096, 0; print $f sprintf("%08d\n", $k) x 100; close $f or die "close: $!" }
    elsif ($kind < 8) { rename $one, $other or die "rename: $!" }
    else { unlink $one or die "unlink: $!" } }
sub tree { my ($root) = @_; my $all = "";
    for my $n (0 .. 11) { my $file = "$root/t/f$n"; next unless -e $file; local $/;
        open my $f, "<", $file or die "$file: $!"; $all .= "$n " . <$f> } $all }
sub number { my ($file) = @_; open my $f, "<", $file or return 0; <$f> + 0 }
sub note { my ($file, $k) = @_; open my $f, ">", "$file.next" or die; print $f $k; close $f; rename "$file.next", $file }
if ($what eq "write") { mkdir "$dir/t"; my $k = 0;
    until (-e "/tmp/stop") { step($dir, ++$k); note("/tmp/steps", $k) } exit }
my ($low, $high) = @range; my $k = number("/tmp/steps.made"); mkdir "/tmp/reference"; mkdir "/tmp/reference/t";
my $seen = tree($dir);
while (1) { if ($k >= $low && tree("/tmp/reference") eq $seen) { note("/tmp/steps.made", $k); print "$k\n"; exit }
    $k < $high or die "the tree is that of no number of steps from $low to $high\n";
    step("/tmp/reference", ++$k) }
"#;

/// Snapshots in a row; `HEOROT_SNAPSHOTS` says how many otherwise: one each second or so.
const IN_A_ROW: usize = 10;
/// Those that are kept meanwhile.
const KEPT: usize = 4;

/// A client that makes [`STEPS`] in a directory of its own, and one that looks at them in snapshots.
struct Writer<'a> {
    writer: &'a Client,
    reader: &'a Client,
    dir: &'a str,
}

impl Writer<'_> {
    /// Steps that it has made.
    fn steps(&self) -> u64 {
        self.writer.run("cat /tmp/steps 2>/dev/null || echo 0").trim().parse().expect("a number")
    }

    /// The tree at `path` is that of a number of steps in this range.
    #[track_caller]
    fn check(&self, path: &str, low: u64, high: u64) -> u64 {
        let at = self.reader.run(&format!("perl /tmp/steps.pl check {path}/{} {low} {high}", self.dir));
        at.trim().parse().expect("a number")
    }
}

#[test]
fn each_snapshot_is_the_tree_at_one_moment_while_two_clients_change_it() {
    let lab = Lab::open();
    let cluster = Cluster::separate(&lab, 2);
    let (ash, elm) = (lab.client("ash"), lab.client("elm"));
    cluster.admin(&["volume", "create", "/v"]);
    let writers = [("of-ash", &ash, &elm), ("of-elm", &elm, &ash)].map(|(dir, writer, reader)| Writer {
        writer,
        reader,
        dir,
    });
    let running = writers.each_ref().map(|Writer { writer, dir, .. }| {
        cluster.mount(writer, "vers=4.2");
        writer.run(&format!("cat >/tmp/steps.pl <<'END'\n{STEPS}\nEND\nmkdir /mnt/h/v/{dir}"));
        writer.spawn(&format!("perl /tmp/steps.pl write /mnt/h/v/{dir}"))
    });
    until("steps are made", || writers.iter().all(|writer| writer.steps() > 20));
    let sum = |name: &str| elm.run(&format!("cat /mnt/h/v/.snapshot/{name}/of-*/t/* | md5sum"));
    let mut kept: Vec<(String, String)> = vec![];
    for number in 0..tests::kills::number("HEOROT_SNAPSHOTS", IN_A_ROW) {
        let name = format!("s{number}");
        let low = writers.each_ref().map(Writer::steps);
        cluster.admin(&["snapshot", "create", &format!("/v@{name}")]);
        for (writer, low) in writers.iter().zip(low) {
            // One more may be under way.
            let high = writer.steps() + 1;
            let at = writer.check(&format!("/mnt/h/v/.snapshot/{name}"), low, high);
            println!("{name} {}: {low} ≤ {at} ≤ {high}", writer.dir);
        }
        kept.push((name.clone(), sum(&name)));
        if kept.len() > KEPT {
            // Not always the oldest: what is kept goes on to one that is older.
            let (name, then) = kept.remove(number % KEPT);
            assert_eq!(sum(&name), then, "{name}");
            cluster.admin(&["snapshot", "remove", &format!("/v@{name}"), "--force"]);
        }
    }
    for (name, then) in &kept {
        assert_eq!(&sum(name), then, "{name}");
        cluster.admin(&["snapshot", "remove", &format!("/v@{name}"), "--force"]);
    }
    for (writer, running) in writers.iter().zip(running) {
        writer.writer.run("touch /tmp/stop");
        running.wait(Duration::from_secs(60)).must_succeed("the writer");
        let steps = writer.steps();
        writer.check("/mnt/h/v", steps, steps);
    }
    until("the removals are done", || snapshots(&cluster) == 0);
    ash.run("rm -r /mnt/h/v/*; sync");
    until("no object is left", || objects(cluster.folder()) == 0);
    let volumes: Value = serde_json::from_str(&cluster.admin(&["volume", "list", "--json"])).expect("JSON");
    let v = volumes.as_array().expect("an array").iter().find(|volume| volume["path"] == "/v").expect("/v");
    assert_eq!((v["snapshots"].as_u64(), v["snapshot_bytes"].as_u64()), (Some(0), Some(0)));
}

#[test]
fn a_volume_is_rolled_back_while_the_leader_is_killed() {
    let lab = Lab::open();
    let mut cluster = Metaservers::start(&lab, 3, 2, 1);
    let ash = lab.client("ash");
    cluster.heorot(0, &["volume", "create", "/v"]);
    cluster.mount(&ash, 0, "vers=4.2");
    ash.run(
        "cd /mnt/h/v; mkdir many d; for n in $(seq 250); do echo $n >many/$n; done; cp -r many d/
         head -c 4000000 /dev/urandom >big; head -c 2000000 /dev/urandom >gone; sync",
    );
    let then = shown(&ash, "/mnt/h/v");
    cluster.heorot(0, &["snapshot", "create", "/v@one"]);
    for round in 0..2 {
        ash.run(
            "cd /mnt/h/v; dd if=/dev/urandom of=big bs=4096 count=9 seek=50 conv=notrunc,fsync status=none; rm gone
             rm -r d; mv many other; for n in $(seq 200); do echo new >other/new$n; echo more >>other/$n; done
             head -c 3000000 /dev/urandom >made; sync",
        );
        assert_ne!(shown(&ash, "/mnt/h/v"), then);
        // Refused while a file is open, and ended with --force.
        let reader = ash.spawn("exec 3</mnt/h/v/made; touch /tmp/is-open; exec sleep 1000");
        until("the reader has the file open", || ash.try_run("test -e /tmp/is-open").status == 0);
        assert!(cluster.refused(0, &["snapshot", "rollback", "/v@one"]).contains("open"));
        let asked = cluster.begin_heorot(1, &["snapshot", "rollback", "/v@one", "--force"]);
        if round == 1 {
            kill_leader(&mut cluster);
        }
        drop(asked.wait_with_output());
        until_done(&cluster, &["snapshot", "rollback", "/v@one", "--force"], "is as it was");
        reader.kill();
        ash.run("rm /tmp/is-open; echo 3 >/proc/sys/vm/drop_caches");
        assert_eq!(shown(&ash, "/mnt/h/v"), then, "in round {round}");
        assert_eq!(shown(&ash, "/mnt/h/v/.snapshot/one"), then, "in round {round}");
        ash.run("cd /mnt/h/v; echo x >>many/1; sync");
    }
    cluster.heorot(0, &["snapshot", "create", "/v@two"]);
    assert!(cluster.refused(0, &["snapshot", "rollback", "/v@one"]).contains("newer snapshots"));
    for name in ["/v@one", "/v@two"] {
        cluster.heorot(0, &["snapshot", "remove", name, "--force"]);
    }
    ash.run("cd /; rm -r /mnt/h/v/*; sync");
    until("no object is left", || objects(cluster.folder()) == 0);
}

#[test]
fn a_client_that_died_with_a_layout_holds_a_snapshot_up_for_its_lease_and_no_other_client() {
    let lab = Lab::open();
    let cluster = Cluster::separate(&lab, 2);
    let (ash, elm) = (lab.client("ash"), lab.client("elm"));
    for client in [&ash, &elm] {
        cluster.mount(client, "vers=4.2");
    }
    ash.spawn(
        "exec 5>/mnt/h/data; head -c 8M /dev/urandom >&5; sync -f /mnt/h/data; touch /tmp/synced; sleep 600",
    );
    ash.run("until [ -e /tmp/synced ]; do sleep 0.05; done");
    let sum = elm.run("sha256sum </mnt/h/data");
    drop(ash);
    // It says what it waits for, and is not made behind a client that may write.
    let why =
        cluster.try_admin(&["snapshot", "create", "/@one", "--timeout", "1"]).expect_err("it is too early");
    assert!(why.contains("not done") && why.contains("lease"), "{why}");
    // Others go on through metaservers, and with files that are not in columns yet.
    let mut work = Work::begin(&elm, "everything", stalls::EVERYTHING, &["/mnt/h/everything"]);
    work.does_more(1);
    cluster.admin(&["snapshot", "create", "/@one", "--timeout", "180"]);
    work.does_more(1);
    work.end();
    assert_eq!(elm.run("sha256sum </mnt/h/.snapshot/one/data"), sum);
    elm.run("echo x >>/mnt/h/data; sync -f /mnt/h/data");
    assert_eq!(elm.run("sha256sum </mnt/h/.snapshot/one/data"), sum);
}
