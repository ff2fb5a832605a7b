//! Runs of operations on names, in a directory of this machine: counts are consistent, and no file remains.

mod scene;

use bench::result::Measurement;
use scene::{Faulty, Scene, operations};

const FILES: [&str; 5] = ["create", "stat", "list", "rename", "unlink"];

#[test]
fn mdtest_does_everything_to_every_file_in_trees_of_one_and_of_all() {
    let scene = Scene::new(2);
    let results =
        scene.run("mdtest --files 30 --processes 2 --depth 2 --fan-out 3 --sizes 0,5000 --warm --verify");
    let measured = |m: &Measurement| (m.name.clone(), m.at.get("file_bytes").copied(), m.operations);
    // Four workers with 30 files and, below the first level, 3 + 9 directories, which a listing includes.
    let mut expected = Vec::new();
    for (kind, listed) in [("private", 4 * (30 + 12)), ("shared", 4 * (4 * 30 + 12))] {
        let count = |name| if name == "list" { listed } else { 4 * 30 };
        for bytes in [0, 5000] {
            expected.extend(FILES.map(|name| (format!("{kind}-{name}"), Some(bytes), count(name))));
        }
        expected.extend(["mkdir", "rmdir"].map(|name| (format!("{kind}-{name}"), None, 4 * 30)));
    }
    assert_eq!(results.measurements.iter().map(measured).collect::<Vec<_>>(), expected);
    for m in &results.measurements {
        let written = if m.name.ends_with("create") { 4 * 30 * m.at["file_bytes"] } else { 0 };
        assert_eq!(m.bytes, written, "{m:?}");
        assert!(m.workers.len() == 4 && m.workers.iter().all(|seconds| *seconds <= m.seconds), "{m:?}");
        let [least, median, percentile_99, greatest] = m.latency_us;
        assert!(
            0.0 < least && least <= median && median <= percentile_99 && percentile_99 <= greatest,
            "{m:?}"
        );
    }
    scene.must_be_empty();
}

#[test]
fn mdtest_goes_on_with_what_an_earlier_run_left_in_a_folder() {
    let scene = Scene::new(1);
    let run = |more: &str| {
        let line = format!("mdtest --folder f --keep --files 9 --sizes 4KiB --trees private --warm {more}");
        scene.run(&line).measurements.iter().map(|m| (m.name.clone(), m.operations)).collect::<Vec<_>>()
    };
    let one = |name: &str| vec![(format!("private-{name}"), 9)];
    assert_eq!(run("--operations create"), one("create"));
    assert_eq!(run("--operations stat --rounds 2"), [one("stat"), one("stat")].concat());
    for name in ["list", "rename", "unlink", "mkdir", "rmdir"] {
        assert_eq!(run(&format!("--operations {name}")), one(name));
    }
    // A named folder may have other content: no run removes it.
    assert!(scene::parsed("mdtest --folder f").is_err());
}

#[test]
fn a_source_tree_is_unpacked_walked_read_and_removed_whole() {
    let scene = Scene::new(1);
    let results = scene.run("small-files --files 200 --processes 2 --warm --verify");
    let counts: Vec<_> =
        results.measurements.iter().map(|m| (m.name.as_str(), m.operations, m.found)).collect();
    assert_eq!(counts, [("unpack", 400, 0), ("stat-walk", 400, 400), ("read", 400, 0), ("remove", 400, 0)]);
    let [unpack, _, read, _] = &results.measurements[..] else { panic!("{counts:?}") };
    assert!(unpack.bytes > 400 * 1024, "{}", unpack.bytes);
    assert_eq!((read.bytes, read.verified_bytes), (unpack.bytes, unpack.bytes));
    scene.must_be_empty();
}

#[test]
fn metadata_miss_has_one_reader_more_at_each_point() {
    let scene = Scene::new(3);
    let results = scene.run("metadata-miss --files 7 --warm");
    let points: Vec<_> =
        results.measurements.iter().map(|m| (m.name.as_str(), m.at["clients"], m.operations)).collect();
    assert_eq!(points, [("create", 2, 7), ("read", 2, 7), ("create", 3, 7), ("read", 3, 14)]);
    scene.must_be_empty();

    let alone = Scene::new(1).refused("metadata-miss");
    assert!(alone.contains("at least two machines"), "{alone}");
}

#[test]
fn the_phases_of_io500_read_and_remove_what_the_first_four_wrote() {
    let scene = Scene::new(2);
    let results = scene.run("io500 --time 300ms --processes 2 --easy-record 256KiB --warm --verify");
    let names: Vec<&str> = results.measurements.iter().map(|m| m.name.as_str()).collect();
    let order = "ior-easy-write mdtest-easy-write ior-hard-write mdtest-hard-write find ior-easy-read \
                 mdtest-easy-stat ior-hard-read mdtest-hard-stat mdtest-easy-delete mdtest-hard-read \
                 mdtest-hard-delete";
    assert_eq!(names.join(" "), order);

    let of = |name: &str| results.measurements.iter().find(|m| m.name == name).unwrap();
    for name in ["ior-easy", "ior-hard"] {
        let (write, read) = (of(&format!("{name}-write")), of(&format!("{name}-read")));
        assert!(write.seconds >= 0.3, "{write:?}");
        assert_eq!((read.bytes, read.verified_bytes), (write.bytes, write.bytes));
    }
    let [easy, hard] = ["mdtest-easy", "mdtest-hard"].map(|name| {
        let write = of(&format!("{name}-write"));
        assert!(write.seconds >= 0.3, "{write:?}");
        for after in ["stat", "delete"] {
            assert_eq!(of(&format!("{name}-{after}")).operations, write.operations, "{name}-{after}");
        }
        write.operations
    });
    assert_eq!(of("mdtest-hard-read").verified_bytes, hard * 3901);

    // In ior-easy each of the four workers has one file; in ior-hard there is one file.
    let find = of("find");
    assert_eq!(find.operations, easy + hard + 4 + 1);
    let has_01 = |rank: u64, i: u64| format!("file.mdtest.{rank}.{i}").contains("01");
    let expected = (0..4).flat_map(|rank| (0..hard / 4).map(move |i| has_01(rank, i))).filter(|has| *has);
    assert_eq!(find.found, expected.count() as u64);

    assert!(results.scores["score"] > 0.0, "{:?}", results.scores);
    scene.must_be_empty();
}

#[test]
fn a_slow_worker_does_as_much_as_a_quick_one_before_the_phase_ends() {
    // Rank 1 is on the other agent.
    let scene = Scene::new(2).with(Faulty { path: "file.mdtest.1.", slow: true });
    let results = scene.run("io500 --time 100ms --warm");
    assert_eq!(operations(&results, "mdtest-hard-write") % 2, 0);
    assert_eq!(operations(&results, "mdtest-hard-write"), operations(&results, "mdtest-hard-read"));
    let write = results.measurements.iter().find(|m| m.name == "mdtest-hard-write").unwrap();
    // No worker ends before the stonewall; the order after it depends on the machine.
    assert!(write.workers.iter().all(|seconds| *seconds >= 0.1), "{:?}", write.workers);
    scene.must_be_empty();
}

#[test]
fn what_goes_wrong_is_told_with_the_operation_and_the_path_and_the_folder_is_removed() {
    for (run, path, operation, shown) in [
        ("mdtest --files 10 --warm", "private-0/w0/item.0.7", "create ", "private-0/w0/item.0.7: "),
        ("mdtest --files 10 --warm", "private-0/w0/ritem.0.3", "rename ", "private-0/w0/item.0.3: "),
        ("small-files --files 20 --warm", "/f3", "create ", "/f3: "),
        ("io500 --time 100ms --processes 2 --warm", "mdtest-hard/file.mdtest.1.5", "create ", "mdtest.1.5: "),
    ] {
        let scene = Scene::new(1).with(Faulty { path, slow: false });
        let (results, trouble) = scene.try_run(run);
        let trouble = trouble.unwrap();
        assert!(trouble.starts_with(operation) && trouble.contains(shown), "{run}: {trouble}");
        assert!(!trouble.contains('\n') && results.partial && results.scores.is_empty(), "{trouble}");
        scene.must_be_empty();
    }
}

#[test]
fn settings_that_make_no_sense_are_refused_before_anything_is_made() {
    let scene = Scene::new(1);
    for (run, line) in [
        ("mdtest --depth 30 --fan-out 10", "--depth"),
        ("io500 --time 0s", "--time"),
        ("io500 --easy-record 0", "records of 0"),
    ] {
        let refused = scene.refused(run);
        assert!(refused.contains(line) && !refused.contains('\n'), "{run}: {refused}");
        scene.must_be_empty();
    }
    for run in ["mdtest --files 0", "mdtest --processes 0", "mdtest --trees big", "small-files --files x"] {
        assert!(scene::parsed(run).is_err(), "{run}");
    }
}
