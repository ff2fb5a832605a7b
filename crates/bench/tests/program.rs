//! `heorot bench` as a process: refusals, each with one line and a remedy, and the file of results.

use std::process::{Command, Output};

fn bench(line: &str) -> Output {
    let arguments = line.split_whitespace();
    Command::new(env!("CARGO_BIN_EXE_heorot-bench")).arg("bench").args(arguments).output().unwrap()
}

/// Error line of the command.
#[track_caller]
fn refused(line: &str) -> String {
    let output = bench(line);
    assert!(!output.status.success(), "{line}");
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    text.trim_end().to_owned()
}

#[test]
fn what_is_no_mounted_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (dir, file) = (dir.path().display(), dir.path().join("file"));
    std::fs::write(&file, "").unwrap();
    let cases = [
        (format!("{dir}/none"), "none: there is no such directory: make it, or mount what is to be measured"),
        (file.display().to_string(), "file is not a directory: give the one that is to be measured"),
        ("/".into(), "mount what is to be measured, or measure this with --not-a-mount"),
    ];
    for (target, expected) in cases {
        let line = refused(&format!("record-size {target} --size 1MiB --records 64KiB"));
        assert!(line.starts_with("heorot: ") && line.ends_with(expected), "{line}");
    }
}

#[test]
fn words_that_are_no_sizes_or_counts_are_refused() {
    for option in ["--size 1GB", "--records 64KiB,x", "--at servers", "--direct --warm"] {
        assert!(!bench(&format!("record-size /nowhere {option}")).status.success(), "{option}");
    }
    for counts in ["0", "3..1", "1..", "x"] {
        assert!(!bench(&format!("cluster /nowhere --clients {counts}")).status.success(), "{counts}");
    }
}

#[test]
fn a_file_for_results_that_cannot_be_made_is_refused_before_anything_is_measured() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().display();
    let line = refused(&format!("record-size {target} --not-a-mount --output {target}/none/results.json"));
    assert!(line.starts_with("heorot: write the results to ") && line.contains("No such file"), "{line}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing was written");
}

#[test]
fn a_run_that_does_not_begin_leaves_no_file_and_keeps_that_of_an_earlier_one() {
    let dir = tempfile::tempdir().unwrap();
    let (new, old) = (dir.path().join("new"), dir.path().join("old"));
    std::fs::write(&old, "earlier").unwrap();
    for file in [&new, &old] {
        refused(&format!("record-size / --output {}", file.display()));
    }
    assert!(!new.exists());
    assert_eq!(std::fs::read_to_string(&old).unwrap(), "earlier");
}

#[test]
fn results_are_a_file_of_json() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().display();
    // Writes only: with temporary files in memory, reads would be no result.
    let output = bench(&format!(
        "separate-write {target} --not-a-mount --size 1MiB --record 64KiB --clients 2 --seed 7 --name mine \
         --output {target}/results.json"
    ));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(dir.path().join("results.json")).unwrap();
    let results: bench::result::Results = serde_json::from_str(&text).unwrap();
    assert_eq!((results.schema, &*results.system, &*results.run), (1, "mine", "separate-write"));
    assert_eq!(results.settings["seed"], "7");
    assert_eq!(results.measurements[0].bytes, 2 << 20);
    assert!(results.machines[0].cpus > 0 && results.machines[0].memory_bytes > 0);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
}
