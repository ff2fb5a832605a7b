//! `make compare-fio`: checks that `heorot bench` measures the same as fio, on the same mount of the same
//! client.
//!
//! `compare_fio PAIRS SIZE [MBIT]`: fio and directly after it `heorot bench` execute each pattern of
//! `record-size`, PAIRS times, on a link without a limit or of MBIT; other load on the machine affects both.
//! fio runs in the command that `heorot bench` calls before each phase; in every other pair it executes the
//! previous phase, and so comes second. It gives the kernel no advice (`fadvise_hint=0`), as most programs:
//! its default doubles the readahead. Exit status 1 if the median of the ratios of a pattern differs from 1
//! by more than 5 %.
//!
//! ```text
//! pair 1   --before ─▶ fio write   heorot write   --before ─▶ fio rewrite   heorot rewrite   ...
//! pair 2   heorot write   --before ─▶ fio write   heorot rewrite   --before ─▶ fio rewrite   ...
//! ```

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use bench::report::Spread;
use bench::result::Results;
use lab::Link;
use tests::{Client, Cluster, Lab, Load};

const DATA_SERVERS: usize = 4;
const RECORD: &str = "1MiB";
/// Time limit of a pair: seconds, or minutes on a slow link.
const SLOW: Duration = Duration::from_secs(1800);
const RATIO_OFF_MAX: f64 = 0.05;

/// Phases of `record-size`, and their names in fio.
const PATTERNS: [(&str, &str); 6] = [
    ("write", "write"),
    ("rewrite", "write"),
    ("read", "read"),
    ("reread", "read"),
    ("random-read", "randread"),
    ("random-write", "randwrite"),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (pairs, size, mbit) = match arguments.as_slice() {
        [pairs, size] => (pairs.parse::<usize>().ok(), size, None),
        [pairs, size, mbit] => (pairs.parse::<usize>().ok(), size, mbit.parse::<u64>().ok()),
        _ => (None, &String::new(), None),
    };
    let Some(pairs) = pairs.filter(|pairs| *pairs > 0 && (arguments.len() == 2 || mbit.is_some())) else {
        eprintln!("usage: compare_fio PAIRS SIZE [MBIT], such as compare_fio 5 256MiB");
        return ExitCode::FAILURE;
    };
    let lab = Lab::open();
    let cluster = Cluster::up(&lab, DATA_SERVERS);
    let client = lab.client_on("ash", mbit.map(|mbit| Link { mbit, delay: Duration::ZERO }));
    cluster.mount(&client, "vers=4.2");
    let load = Load::new(&lab);

    let mut agrees = true;
    for direct in [false, true] {
        let mut ratios = vec![Vec::new(); PATTERNS.len()];
        let mut rates = vec![Vec::new(); PATTERNS.len()];
        for pair in 0..pairs {
            for (i, (fio, ours)) in
                pair_of(&load, &client, size, direct, pair % 2 == 0).into_iter().enumerate()
            {
                eprintln!(
                    "pair {}, {}: fio {fio:.1} MB/s, heorot bench {ours:.1} MB/s",
                    pair + 1,
                    PATTERNS[i].0
                );
                ratios[i].push(ours / fio);
                rates[i].push((fio, ours));
            }
        }
        println!("\n{}\n", if direct { "O_DIRECT" } else { "fsync at end, caches dropped before reads" });
        println!("| pattern | fio | heorot bench | ratio |\n| --- | --- | --- | --- |");
        for (i, (pattern, _)) in PATTERNS.iter().enumerate() {
            let ratio = Spread::of(ratios[i].iter().copied());
            let fio = Spread::of(rates[i].iter().map(|rates| rates.0));
            let ours = Spread::of(rates[i].iter().map(|rates| rates.1));
            agrees &= (ratio.median - 1.0).abs() <= RATIO_OFF_MAX;
            println!(
                "| {pattern}, {RECORD} | {} MB/s | {} MB/s | **{}** |",
                show(fio, 1),
                show(ours, 1),
                show(ratio, 3)
            );
        }
    }
    if agrees {
        return ExitCode::SUCCESS;
    }
    eprintln!(
        "compare_fio: more than 5 % off: more PAIRS, or a machine with nothing else to do, will tell whether it is so"
    );
    ExitCode::FAILURE
}

fn show(spread: Spread, digits: usize) -> String {
    format!("{:.digits$} ({:.digits$}..{:.digits$})", spread.median, spread.min, spread.max)
}

/// MB/s of fio and of heorot bench, by pattern.
fn pair_of(load: &Load, client: &Client, size: &str, direct: bool, fio_first: bool) -> Vec<(f64, f64)> {
    let program = load.program();
    let (ours_direct, fio_direct) = if direct { ("--direct", "--direct=1") } else { ("", "--direct=0") };
    let mut choose = String::new();
    for (phase, rw) in PATTERNS {
        let _ = write!(choose, "{phase}) rw={rw};; ");
    }
    // The same pattern: one file, one thread, one record at a time, new data in each.
    let output = client.run_within(
        SLOW,
        &format!(
            r#"cat >/tmp/fio.sh <<'END'
set -e
case $1 in {choose} esac
fio --name=fio --filename=/mnt/h/fio --rw=$rw --bs={RECORD} --size={size} --ioengine=psync --end_fsync=1 \
    --fallocate=none --refill_buffers=1 --invalidate=1 --fadvise_hint=0 {fio_direct} --output-format=json --output=/tmp/fio-$1.json
END
cat >/tmp/before.sh <<'END'
set -e
if {fio_first}; then sh /tmp/fio.sh $HEOROT_BENCH_PHASE; exit; fi
if [ -e /tmp/last ]; then sh /tmp/fio.sh $(cat /tmp/last); fi
echo $HEOROT_BENCH_PHASE >/tmp/last
END
rm -f /mnt/h/fio /tmp/last
{program} bench record-size /mnt/h --size {size} --records {RECORD} {ours_direct} --before 'sh /tmp/before.sh' \
    --output /tmp/ours.json >&2
{fio_first} || sh /tmp/fio.sh $(cat /tmp/last)
for phase in {phases}; do
    perl -0777 -ne '/"io_bytes" : ([1-9]\d*).*?"runtime" : (\d+)/s or die "no figures: $_"; print "$1 $2\n"' /tmp/fio-$phase.json
done
echo RESULTS
cat /tmp/ours.json"#,
            phases = PATTERNS.map(|(phase, _)| phase).join(" "),
            program = program.display(),
        ),
    );
    let (before, json) = output.split_once("RESULTS\n").unwrap_or_else(|| panic!("no results: {output}"));
    let results: Results =
        serde_json::from_str(json).unwrap_or_else(|e| panic!("{e} in the results: {json}"));
    assert_eq!(results.measurements.len(), PATTERNS.len());
    let lines: Vec<&str> = before.lines().collect();
    let fio = lines[lines.len() - PATTERNS.len()..].iter().map(|line| {
        let numbers = line
            .split_once(' ')
            .and_then(|(bytes, ms)| Some((bytes.parse::<f64>().ok()?, ms.parse::<f64>().ok()?)));
        let (bytes, ms) = numbers.unwrap_or_else(|| panic!("fio said: {before}"));
        bytes / ms / 1e3
    });
    let ours = results.measurements.iter().map(|m| m.bytes as f64 / m.seconds / 1e6);
    fio.zip(ours).collect()
}
