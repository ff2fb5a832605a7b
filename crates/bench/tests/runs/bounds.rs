//! Bounds of the hardware next to the measurements.

use crate::memory::Memory;
use crate::{conduct, measured};

#[test]
fn each_measurement_of_data_has_the_bound_of_the_hardware_that_was_told() {
    let line = "cluster / --clients 1..2 --size 64KiB --record 64KiB --warm --link 100Mbit/s --data-servers 2 \
                --stripe-width 1 --disk 5MB/s --replication 2";
    let results = measured(&Memory::default(), line);
    let bounds = |name: &str| -> Vec<Option<(f64, String)>> {
        let of_name = results.measurements.iter().filter(|m| m.name == name);
        of_name.map(|m| m.bound.as_ref().map(|bound| (bound.rate, bound.binds.clone()))).collect()
    };
    // One machine has both clients. Two copies go to two disks of 5 MB/s, of one file and of two.
    let disks = Some((5e6, "disks".to_string()));
    assert_eq!(bounds("write-shared"), [disks.clone(), disks.clone()]);
    assert_eq!(bounds("write-separate"), [disks.clone(), disks]);
    // Warm reads do not use the disks.
    assert_eq!(bounds("read-shared"), [None, None]);
    assert_eq!(results.settings["link"], "12.5 MB/s");
    assert_eq!(results.settings["replication"], "2");
}

#[test]
fn without_hardware_there_is_no_bound_and_servers_may_be_told_as_a_point() {
    let none = measured(&Memory::default(), "shared-read / --clients 1 --size 64KiB --record 64KiB --warm");
    assert!(none.measurements.iter().all(|m| m.bound.is_none()));
    let line = "separate-write / --clients 1 --size 64KiB --record 64KiB --at servers=4 --disk 2MB/s";
    let four = measured(&Memory::default(), line);
    let bound = four.measurements[0].bound.as_ref().unwrap();
    assert_eq!((bound.rate, bound.binds.as_str()), (8e6, "disks"));
}

#[test]
fn hardware_that_makes_no_sense_is_refused_before_anything_is_made() {
    let cases = [
        ("--link 1Gbit/s", "--data-servers"),
        ("--data-servers 2 --replication 3 --link 1Gbit/s", "replication 3 needs 3 data servers, not 2"),
        ("--data-servers 2 --disks 0 --disk 1MB/s", "the number of disks must be at least 1"),
        ("--data-servers 2", "nothing limits the throughput"),
    ];
    for (options, why) in cases {
        let memory = Memory::default();
        let refused = conduct(&memory, &format!("record-size / --size 1MiB {options}")).unwrap_err();
        assert!(refused.0.contains(why) && !refused.0.contains('\n'), "{options}: {refused}");
        assert_eq!(memory.names(), [""; 0]);
    }
}
