//! Measurements of the runs that move data.

use bench::result::{Cache, Results};

use crate::memory::Memory;
use crate::{conduct, measured};

/// Text `name at: bytes in operations`, one line for each measurement.
fn shown(results: &Results) -> Vec<String> {
    let line = |m: &bench::result::Measurement| {
        let at: Vec<String> = m.at.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            m.workers.len() as u64,
            m.at.get("clients").or(m.at.get("processes")).copied().unwrap_or(1)
        );
        format!("{} {}: {} in {}", m.name, at.join(" "), m.bytes, m.operations)
    };
    results.measurements.iter().map(line).collect()
}

#[test]
fn record_size_moves_the_file_six_times_for_each_size() {
    let results = measured(&Memory::default(), "record-size / --size 64KiB --records 4KiB,64KiB --verify");
    let names = ["write", "rewrite", "read", "reread", "random-read", "random-write"];
    let lines = |record: u64, count: u64| {
        names.map(|name| format!("{name} record_bytes={record}: 65536 in {count}")).to_vec()
    };
    assert_eq!(shown(&results), [lines(4096, 16), lines(65_536, 1)].concat());
    for m in &results.measurements {
        let read = m.name.contains("read");
        assert_eq!(m.verified_bytes, if read { 65_536 } else { 0 }, "{}", m.name);
        assert_eq!(m.cache, if read { Cache::Dropped } else { Cache::FsyncAtEnd }, "{}", m.name);
    }
}

#[test]
fn a_file_that_one_run_wrote_and_kept_another_reads() {
    let memory = Memory::default();
    let run = |operation: &str| {
        let line = format!(
            "record-size / --size 8KiB --records 4KiB --verify --seed 7 --keep --folder f --operations {operation}"
        );
        let (results, trouble) = conduct(&memory, &line).expect("it begins");
        assert_eq!(trouble, None);
        shown(&results)
    };
    assert_eq!(run("write"), ["write record_bytes=4096: 8192 in 2"]);
    assert_eq!(run("read"), ["read record_bytes=4096: 8192 in 2"]);
}

#[test]
fn processes_have_a_file_each() {
    let results =
        measured(&Memory::default(), "processes / --size 8KiB --record 4KiB --processes 1,3 --verify");
    let expected = [
        "write processes=1 record_bytes=4096: 8192 in 2",
        "read processes=1 record_bytes=4096: 8192 in 2",
        "write processes=3 record_bytes=4096: 24576 in 6",
        "read processes=3 record_bytes=4096: 24576 in 6",
    ];
    assert_eq!(shown(&results), expected);
}

#[test]
fn a_cluster_writes_separate_files_and_then_one() {
    let results = measured(
        &Memory::default(),
        "cluster / --size 8KiB --record 4KiB --clients 1..2 --verify --at servers=2",
    );
    let expected = [
        "write-separate clients=1 record_bytes=4096 servers=2: 8192 in 2",
        "read-separate clients=1 record_bytes=4096 servers=2: 8192 in 2",
        "write-separate clients=2 record_bytes=4096 servers=2: 16384 in 4",
        "read-separate clients=2 record_bytes=4096 servers=2: 16384 in 4",
        "write-shared clients=1 record_bytes=4096 servers=2: 8192 in 2",
        "read-shared clients=1 record_bytes=4096 servers=2: 8192 in 2",
        "write-shared clients=2 record_bytes=4096 servers=2: 16384 in 4",
        "read-shared clients=2 record_bytes=4096 servers=2: 16384 in 4",
    ];
    assert_eq!(shown(&results), expected);
}

#[test]
fn a_shared_file_is_read_whole_by_each_client_and_written_once() {
    let results =
        measured(&Memory::default(), "shared-read / --size 8KiB --record 4KiB --clients 1,2 --direct");
    let expected =
        ["read clients=1 record_bytes=4096: 8192 in 2", "read clients=2 record_bytes=4096: 16384 in 4"];
    assert_eq!(shown(&results), expected);
    assert_eq!(results.measurements[0].cache, Cache::Direct);
}

#[test]
fn separate_files_are_only_written() {
    let results = measured(&Memory::default(), "separate-write / --size 8KiB --record 4KiB --clients 2");
    assert_eq!(shown(&results), ["write clients=2 record_bytes=4096: 16384 in 4"]);
}

#[test]
fn a_file_is_decomposed_over_clients_in_two_ways() {
    let results =
        measured(&Memory::default(), "transfer-size / --size 64KiB --transfers 8KiB --clients 1,3 --verify");
    let mut expected = Vec::new();
    for pattern in ["segmented", "strided"] {
        for clients in [1, 3] {
            for way in ["write", "read"] {
                expected.push(format!("{way}-{pattern} clients={clients} transfer_bytes=8192: 65536 in 8"));
            }
        }
    }
    assert_eq!(shown(&results), expected);
}

#[test]
fn the_folder_is_kept_if_asked_for() {
    let memory = Memory::default();
    conduct(&memory, "shared-read / --size 8KiB --record 4KiB --clients 1 --keep").unwrap();
    let names = memory.names();
    assert!(names.len() == 2 && names[1].ends_with("/shared"), "{names:?}");
}
