//! `heorot model` and `heorot bench report` as processes: output, and refusals with their line.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn heorot(dir: &Path, line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_heorot-bench"))
        .current_dir(dir)
        .args(line.split_whitespace())
        .output()
        .unwrap()
}

#[track_caller]
fn refused(line: &str, code: i32, why: &str) {
    let dir = tempfile::tempdir().unwrap();
    let Output { status, stdout, stderr } = heorot(dir.path(), line);
    let stderr = String::from_utf8_lossy(&stderr);
    assert_eq!((status.code(), stdout.len(), stderr.lines().count()), (Some(code), 0, 1), "{line}: {stderr}");
    assert!(stderr.starts_with("heorot: ") && stderr.contains(why), "{line}: {stderr}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "{line}: nothing is written");
}

#[test]
fn a_sweep_writes_a_table_and_the_files_that_were_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let line = "model --data-servers 12 --link 100Mbit/s --sweep clients=1..1000 --csv s.csv --svg s.svg --png s.png";
    let output = heorot(dir.path(), line);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("12 of 1000 points"));
    let read = |name: &str| fs::read(dir.path().join(name)).unwrap();
    assert_eq!(read("s.csv").iter().filter(|b| **b == b'\n').count(), 1001);
    assert!(read("s.svg").starts_with(b"<svg xmlns=\"http://www.w3.org/2000/svg\""));
    assert!(read("s.png").starts_with(b"\x89PNG"));
}

#[test]
fn programs_get_json() {
    let dir = tempfile::tempdir().unwrap();
    let output = heorot(dir.path(), "model --clients 2 --link 1Gbit/s --json");
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["s_bytes_per_second"], 125e6);
    assert_eq!(answer["binds"], "server-links");
    assert_eq!(answer["to_double"][0]["any_of"][0][0]["data-servers"], 2);
}

#[test]
fn hardware_that_makes_no_sense_is_refused_in_one_line() {
    refused("model --link 1Gbit/s --disks 0", 1, "the number of disks must be at least 1");
    refused("model --link 1Gbit/s --replication 2", 1, "replication 2 needs 2 data servers, not 1");
    refused("model --link 1Gbit/s --stripe-width 2", 1, "stripe width 2 needs 2 data servers, not 1");
    refused("model", 1, "give at least one speed");
    refused("model --link NaN", 2, "\"NaN\" is not a rate such as 100Mbit/s");
    refused("model --link 100Mbit", 2, "is not a rate such as 100Mbit/s");
    refused("model --link=-5MB/s", 2, "is not a rate");
    refused("model --link 1Gbit/s --clients -1", 2, "invalid value '-1' for '--clients <N>'");
    refused("model --link 1Gbit/s --clients 99999999999999999999", 2, "invalid value");
    refused(
        "model --link 1Gbit/s --clients 9999999999",
        1,
        "the number of clients can be 1000000000 at most",
    );
    refused(
        "model --link 1Gbit/s --sweep clients=0..5",
        1,
        "clients=0: the number of clients must be at least 1",
    );
    refused("model --link 1Gbit/s --sweep clients=1..9 --svg no/s.svg", 1, "write no/s.svg: ");
    refused("model --link 1Gbit/s --svg s.svg", 2, "--sweep <OPTION=RANGE>");
}

#[test]
fn a_report_of_what_is_no_file_of_results_is_refused_in_one_line_that_names_it() {
    refused("bench report nowhere.json -o r.html", 1, "read nowhere.json: No such file");
    refused("bench report /proc/self/status -o r.html", 1, "/proc/self/status: not a file of results");
    refused("bench report /dev/null -o r.html", 1, "/dev/null: empty");
    refused("bench report x.json", 2, "--output <FILE>");
}
