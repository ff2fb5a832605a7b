//! `make snapshot-cost`: what a snapshot costs the operations that follow it, for a real client.
//!
//! `snapshot_cost PAIRS FILES`: creates, overwrites and renames of FILES files of 4 KiB, and look-ups of them, in a volume
//! without snapshots and directly after in one of which a snapshot was just made, so that each change is the first one; the
//! order changes from pair to pair.

use std::process::ExitCode;
use std::time::Duration;

use bench::report::Spread;
use tests::copies::until;
use tests::{Client, Cluster, Lab, cpu_seconds};

/// Phases, with what each does to file `$f` of directory `$d`. Each leaves files for the next.
const PHASES: [(&str, &str); 5] = [
    ("create", r#"open my $h, ">", "$d/$f" or die $!; syswrite $h, "c" x 4096; close $h or die $!"#),
    ("overwrite", r#"open my $h, "+<", "$d/$f" or die $!; syswrite $h, "o" x 4096; close $h or die $!"#),
    ("rename", r#"rename "$d/$f", "$d/n$f" or die $!"#),
    ("lookup, cold", r#"stat "$d/n$f" or die $!"#),
    ("unlink", r#"unlink "$d/n$f" or die $!"#),
];

/// Time limit of a phase: seconds on a quiet machine.
const SLOW: Duration = Duration::from_secs(600);

fn main() -> ExitCode {
    let arguments: Vec<usize> = std::env::args().skip(1).filter_map(|number| number.parse().ok()).collect();
    let (&[pairs, files], false) = (arguments.as_slice(), arguments.contains(&0)) else {
        eprintln!("usage: snapshot_cost PAIRS FILES, such as snapshot_cost 7 2000");
        return ExitCode::FAILURE;
    };
    let lab = Lab::open();
    let mut cluster = Cluster::up(&lab, 1);
    let client = lab.client("ash");
    for volume in ["/plain", "/kept"] {
        cluster.admin(&["volume", "create", volume]);
    }
    cluster.mount(&client, "vers=4.2");
    let mut ratios = vec![(Vec::new(), Vec::new(), Vec::new()); PHASES.len()];
    for pair in 0..pairs {
        for (phase, (time, cpu, rate)) in PHASES.iter().zip(&mut ratios) {
            let mut measured = [(0.0, 0.0); 2];
            for turn in 0..2 {
                let kept = (pair + turn) % 2;
                measured[kept] = measure(&mut cluster, &client, phase, files, kept == 1);
            }
            let [plain, kept] = measured;
            time.push(kept.0 / plain.0);
            cpu.push(kept.1 / plain.1);
            rate.push(files as f64 / plain.0);
        }
    }
    println!(
        "{files} files of 4 KiB, {pairs} pairs: time and CPU of the server with a snapshot, over those without\n"
    );
    println!("| operation | without, per second | time | CPU |\n| --- | --- | --- | --- |");
    for ((name, _), (time, cpu, rate)) in PHASES.iter().zip(ratios) {
        let show = |values: Vec<f64>| {
            let Spread { min, median, max } = Spread::of(values);
            format!("{median:.2} ({min:.2}..{max:.2})")
        };
        println!("| {name} | {:.0} | {} | {} |", Spread::of(rate).median, show(time), show(cpu));
    }
    ExitCode::SUCCESS
}

/// Seconds of a phase for the client, and of the server's CPU.
fn measure(
    cluster: &mut Cluster,
    client: &Client,
    (name, work): &(&str, &str),
    files: usize,
    has_snapshot: bool,
) -> (f64, f64) {
    // Look-ups find the one from before the renames.
    if has_snapshot && !name.starts_with("lookup") {
        drop(cluster.try_admin(&["snapshot", "remove", "/kept@one", "--force"]));
        // What was kept for the one before is removed in the background.
        until("the removal is done", || cluster.admin(&["snapshot", "list", "--json"]).trim() == "[]");
        cluster.admin(&["snapshot", "create", "/kept@one"]);
    }
    let dir = if has_snapshot { "/mnt/h/kept" } else { "/mnt/h/plain" };
    let pid = cluster.mds().pid().expect("it runs");
    client.run("sync; echo 3 >/proc/sys/vm/drop_caches");
    let before = cpu_seconds(pid);
    let script = format!(
        "cat >/tmp/work.pl <<'END'\nuse Time::HiRes; my $d = '{dir}'; opendir(my $o, $d); my $at = Time::HiRes::time();
         for my $n (1 .. {files}) {{ my $f = \"f$n\"; {work} }}
         printf \"%f\\n\", Time::HiRes::time() - $at;\nEND\nperl /tmp/work.pl"
    );
    let said = client.run_within(SLOW, &script);
    let seconds = said.trim().parse().unwrap_or_else(|_| panic!("no number: {said}"));
    // A tick of CPU time is 10 ms: zero ticks are less than one, not nothing.
    (seconds, (cpu_seconds(pid) - before).max(0.005))
}
