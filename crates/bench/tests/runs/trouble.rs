//! Refusals and early ends of runs.

use bench::result::Results;

use crate::memory::Memory;
use crate::{conduct, conduct_until, measured};

/// Error line of a run that is refused before anything is written.
#[track_caller]
fn refused(memory: &Memory, line: &str) -> String {
    let trouble = conduct(memory, line).expect_err("it begins").to_string();
    assert_eq!(memory.names(), [""; 0], "nothing was written");
    trouble
}

/// Error line of a run that ended early, and its partial results.
#[track_caller]
fn ended(memory: &Memory, line: &str) -> (String, Results) {
    let (results, trouble) = conduct(memory, line).expect("it begins");
    let trouble = trouble.expect("it ends early").to_string();
    assert_eq!((results.partial, &results.ended_by), (true, &Some(trouble.clone())));
    assert_eq!(memory.names(), [""; 0], "nothing is left");
    (trouble, results)
}

#[test]
fn sizes_that_make_no_sense_are_refused() {
    let cases = [
        ("record-size / --size 1MiB --records 2MiB", "records of 2 MiB do not fit into 1 MiB: choose"),
        ("record-size / --size 1MiB --records 0", "records of 0 B cannot be: choose 1B to 1GiB"),
        ("record-size / --size 8GiB --records 2GiB", "records of 2 GiB cannot be: choose 1B to 1GiB"),
        ("processes / --size 0", "no file can be of 0 B: choose another --size"),
        ("transfer-size / --size 8KiB --clients 2", "2 clients cannot share 1 transfers: choose"),
    ];
    for (line, expected) in cases {
        let trouble = refused(&Memory::default(), line);
        assert!(trouble.starts_with(expected), "{line}: {trouble}");
    }
}

#[test]
fn a_run_for_which_there_is_no_room_does_not_begin() {
    let memory = Memory { free_bytes: Some(3 << 20), ..Memory::default() };
    let line = "cluster / --size 1MiB --clients 1..4 --record 64KiB";
    let expected = "this run writes up to 4 MiB, but only 3 MiB are free there: free some space, or choose";
    assert!(refused(&memory, line).starts_with(expected));
    let enough = Memory { free_bytes: Some(4 << 20), ..Memory::default() };
    measured(&enough, line);
}

#[test]
fn a_disk_that_fills_up_ends_a_run_with_what_it_had() {
    let memory = Memory { full_at: Some(12_288), ..Memory::default() };
    let (trouble, results) =
        ended(&memory, "cluster / --size 8KiB --record 4KiB --files shared --clients 1,2");
    assert!(trouble.contains("write 4096 bytes of heorot-bench-"), "{trouble}");
    assert!(trouble.contains("/shared at 12288: No space left on device"), "{trouble}");
    assert!(trouble.ends_with("free some space there, or choose a smaller --size"), "{trouble}");
    assert_eq!(results.measurements.len(), 2, "one client had room");
}

#[test]
fn a_wrong_byte_is_named_when_reads_are_verified() {
    let memory = Memory { flips: Some(70_001), ..Memory::default() };
    let line = "record-size / --size 128KiB --records 64KiB";
    let (trouble, results) = ended(&memory, &format!("{line} --verify"));
    assert!(trouble.contains("/record-65536/file: byte 70001 is 0x"), "{trouble}");
    assert!(trouble.ends_with("the file system returned wrong data"), "{trouble}");
    assert_eq!(results.measurements.len(), 2, "it was written twice before");
    measured(&memory, line);
}

#[test]
fn a_read_from_the_page_cache_is_no_result_unless_it_is_asked_for() {
    let memory = Memory { cached: true, ..Memory::default() };
    let line = "shared-read / --size 1MiB --record 64KiB --clients 1";
    let (trouble, results) = ended(&memory, line);
    let expected =
        "read: of 1 MiB that were read only 0 B came from the file system, the rest from the client's page";
    assert!(trouble.starts_with(expected), "{trouble}");
    assert!(results.measurements.is_empty());
    measured(&memory, &format!("{line} --warm"));
    measured(&memory, &format!("{line} --direct"));
}

#[test]
fn an_interrupted_run_gives_what_it_had() {
    let memory = Memory::default();
    // Large enough that the run does not end before the first progress report.
    let line = "record-size / --size 1GiB --records 4KiB";
    let (results, trouble) = conduct_until(&memory, line, 0).unwrap();
    assert_eq!((trouble, results.partial, results.ended_by.as_deref()), (None, true, Some("Ctrl-C")));
    let [only] = results.measurements.as_slice() else { panic!("{results:?}") };
    assert!(only.partial && only.bytes > 0 && only.bytes < 1 << 30, "{only:?}");
    assert_eq!(memory.names(), [""; 0], "nothing is left");
}

#[test]
fn a_command_before_each_phase_knows_its_name_and_may_fail() {
    let line = "processes / --size 4KiB --record 4KiB --processes 1 --before test${IFS}$HEOROT_BENCH_PHASE${IFS}=${IFS}write";
    let (trouble, results) = ended(&Memory::default(), line);
    assert!(trouble.contains("run before read, ended with exit status: 1"), "{trouble}");
    assert_eq!(results.measurements.len(), 1);
}

#[test]
fn a_directory_where_one_may_not_write_is_refused() {
    let memory = Memory { forbidden: true, ..Memory::default() };
    let trouble = refused(&memory, "record-size / --size 1MiB --records 64KiB");
    assert!(
        trouble.starts_with("make heorot-bench-") && trouble.contains(": Permission denied"),
        "{trouble}"
    );
    assert!(trouble.ends_with("choose a directory where you may"), "{trouble}");
}
