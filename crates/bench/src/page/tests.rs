//! Page of results, also of forged ones.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::{ReportArgs, Source, page, report};
use crate::result::{Bound, Cache, Machine, Measurement, Results, SCHEMA, Unit};

pub(super) fn measurement(name: &str, at: &[(&str, u64)], megabytes_per_second: f64) -> Measurement {
    Measurement {
        name: name.into(),
        at: at.iter().map(|(key, value)| ((*key).to_string(), *value)).collect(),
        unit: Unit::Bytes,
        cache: Cache::Direct,
        seconds: 100.0 / megabytes_per_second,
        bytes: 100_000_000,
        operations: 100,
        found: 0,
        workers: vec![100.0 / megabytes_per_second],
        latency_us: [100.0, 250.0, 4_000.0, 2_000_000.0],
        verified_bytes: 0,
        bound: None,
        partial: false,
    }
}

fn results(system: &str, run: &str, measurements: Vec<Measurement>) -> Results {
    Results {
        schema: SCHEMA,
        version: "0.1.0".into(),
        system: system.into(),
        started: "2026-11-21T12:00:00Z".into(),
        run: run.into(),
        settings: BTreeMap::from([("size".into(), "512 MiB".into())]),
        machines: vec![Machine {
            host: "client1".into(),
            kernel: "Linux 6.1.176".into(),
            cpus: 2,
            memory_bytes: 1 << 30,
            target: "/mnt nfs4 10.77.0.1:/".into(),
            clock: None,
        }],
        partial: false,
        ended_by: None,
        measurements,
        scores: BTreeMap::new(),
    }
}

fn source(results: Results) -> Source {
    Source { file: format!("{}.json", results.system), results }
}

/// Text of the page without tags, so that the cells of a table are next to each other.
fn text(page: &str) -> String {
    let mut out = String::new();
    let mut in_tag = false;
    for c in page.chars() {
        match c {
            '<' => in_tag = true,
            '>' => {
                in_tag = false;
                out.push(' ');
            }
            c if !in_tag => out.push(c),
            _ => {}
        }
    }
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn record_sizes_are_columns_and_systems_stand_below_each_other_with_the_bound() {
    let file = |system: &str, factor: f64| {
        let mut all = Vec::new();
        for name in ["write", "read"] {
            for (i, record) in [64_u64 << 10, 1 << 20, 16 << 20].into_iter().enumerate() {
                let mut m = measurement(name, &[("record_bytes", record)], factor * (10.0 + i as f64));
                m.bound = Some(Bound { rate: 12.5e6, binds: "client-links".into() });
                all.push(m);
            }
        }
        source(results(system, "record-size", all))
    };
    let page = page(&[file("Heorot", 1.0), file("ganesha", 0.5)]);
    let text = text(&page);
    assert!(text.contains("operation system, caches record 64 KiB 1 MiB 16 MiB"), "{text}");
    assert!(
        text.contains("write Heorot O_DIRECT 10.00 MB/s 80.0 % 11.00 MB/s 88.0 % 12.00 MB/s 96.0 %"),
        "{text}"
    );
    assert!(
        text.contains("ganesha O_DIRECT 5.000 MB/s 40.0 % 5.500 MB/s 44.0 % 6.000 MB/s 48.0 %"),
        "{text}"
    );
    assert!(text.contains("bound 12.50 MB/s, client links read Heorot"), "{text}");
    assert_eq!(page.matches("<svg").count(), 2, "a plot for each operation");
    assert!(text.contains("what the hardware allows"));
    assert!(text.contains("client1 Linux 6.1.176 2 1 GiB /mnt nfs4 10.77.0.1:/"));
}

#[test]
fn systems_on_different_hardware_have_a_bound_each() {
    let file = |system: &str, rate: f64| {
        let mut m = measurement("read", &[("clients", 1)], 10.0);
        m.bound = Some(Bound { rate, binds: "disks".into() });
        source(results(system, "shared-read", vec![m]))
    };
    let text = text(&page(&[file("A", 20e6), file("B", 40e6), file("C", 20e6)]));
    assert!(
        text.contains("A O_DIRECT 10.00 MB/s 50.0 %") && text.contains("B O_DIRECT 10.00 MB/s 25.0 %"),
        "{text}"
    );
    assert!(text.contains("bound of A, C 20.00 MB/s, disks"), "{text}");
    assert!(text.contains("bound of B 40.00 MB/s, disks"), "{text}");
}

#[test]
fn clients_and_servers_make_a_table_for_each_operation_from_several_files_of_one_system() {
    let file = |servers: u64| {
        let points = (1..=3).map(|clients| {
            measurement(
                "write-separate",
                &[("clients", clients), ("servers", servers)],
                10.0 * clients.min(servers) as f64,
            )
        });
        source(results("Heorot", "cluster", points.collect()))
    };
    let page = page(&[file(1), file(2)]);
    let text = text(&page);
    assert!(
        text.contains("clients system, caches servers 1 2 1 Heorot O_DIRECT 10.00 MB/s 10.00 MB/s 2 Heorot"),
        "{text}"
    );
    assert!(text.contains("3 Heorot O_DIRECT 10.00 MB/s 20.00 MB/s"), "{text}");
    assert_eq!(page.matches("<svg").count(), 1, "one plot, a curve for each number of servers");
}

#[test]
fn names_are_counted_in_operations_and_scores_stand_first() {
    let mut create = measurement("mdtest-hard-write", &[], 1.0);
    (create.unit, create.operations) = (Unit::Operations, 50_000);
    let mut easy = measurement("ior-easy-write", &[], 50.0);
    easy.partial = true;
    let mut one = results("Heorot", "io500", vec![create, easy]);
    one.scores = BTreeMap::from([("total".into(), 1.234_56)]);
    one.partial = true;
    one.ended_by = Some("Ctrl-C".into());
    let text = text(&page(&[source(one)]));
    assert!(text.contains("Scores system total Heorot 1.235"), "{text}");
    assert!(text.contains("mdtest-hard-write Heorot O_DIRECT 500.0 /s 250 µs 4 ms"), "{text}");
    assert!(text.contains("ior-easy-write Heorot O_DIRECT 50.00 MB/s partial 250 µs"), "{text}");
    assert!(text.contains("2 partial: Ctrl-C"), "{text}");
}

#[test]
fn what_was_measured_several_times_shows_the_middle_and_the_spread() {
    let file =
        |rate| source(results("Heorot", "shared-read", vec![measurement("read", &[("clients", 4)], rate)]));
    let text = text(&page(&[file(30.0), file(10.0), file(20.0)]));
    assert!(text.contains("read Heorot O_DIRECT 20.00 MB/s 10.00 MB/s – 30.00 MB/s"), "{text}");
    assert!(text.contains("Everywhere: clients 4"), "{text}");
}

#[test]
fn a_legend_has_room_for_long_names() {
    let points = (1..=3).map(|n| measurement("read", &[("clients", n)], 10.0)).collect();
    let page = page(&[source(results(&"long".repeat(30), "shared-read", points))]);
    let legend = format!("{}lo…, O_DIRECT", "long".repeat(12));
    assert!(page.contains(&legend) && page.contains(&"long".repeat(30)), "cut there, whole in the tables");
}

#[test]
fn each_plot_has_a_name_that_a_file_can_have() {
    let point = |clients: u64, rate| measurement("../Read", &[("clients", clients)], rate);
    let plots = super::plots(&[source(results("Heorot", "cluster", vec![point(1, 10.0), point(2, 20.0)]))]);
    let [(name, svg)] = plots.as_slice() else { panic!("{plots:?}") };
    assert_eq!(name, "cluster-read");
    assert!(svg.starts_with("<svg") && svg.contains("../Read"), "{svg}");
}

#[test]
fn the_page_loads_nothing() {
    let points = (1..=3).map(|n| measurement("read", &[("clients", n)], 10.0)).collect();
    let page = page(&[source(results("Heorot", "shared-read", points))]);
    let without_namespace = page.replace("http://www.w3.org/2000/svg", "");
    for outside in ["http://", "https://", "src=", "href=", "<script", "<link", "@import", "url("] {
        assert!(!without_namespace.contains(outside), "{outside}");
    }
    assert!(page.contains("default-src 'none'"));
    assert!(page.contains("prefers-color-scheme:dark") && page.contains("@media print"));
}

#[test]
fn texts_of_a_forged_file_stay_texts() {
    let attack = "</title></style><script>alert(1)</script>\"><img src=x onerror='alert(1)'>&\u{202e}\u{7}";
    let mut forged = results(attack, attack, vec![]);
    for clients in 1..=3 {
        let mut m = measurement(attack, &[(attack, clients)], 10.0);
        m.bound = Some(Bound { rate: 12.5e6, binds: attack.into() });
        forged.measurements.push(m);
    }
    forged.settings = BTreeMap::from([(attack.into(), attack.into())]);
    forged.scores = BTreeMap::from([(attack.into(), 1.0)]);
    (forged.version, forged.started, forged.ended_by) = (attack.into(), attack.into(), Some(attack.into()));
    forged.partial = true;
    let machine = &mut forged.machines[0];
    (machine.host, machine.kernel, machine.target) = (attack.into(), attack.into(), attack.into());
    let page = page(&[Source { file: attack.into(), results: forged }]);
    assert!(page.contains("&lt;script&gt;alert(1)"), "it is shown");
    for raw in ["<script", "<img", "\u{202e}", "\u{7}"] {
        assert!(!page.contains(raw), "{raw}");
    }
    assert_eq!(page.matches("</style>").count(), 1);
    // The plots' titles are in an attribute, and quotes do not end it.
    assert!(page.contains("aria-label=\"&lt;/title&gt;") && !page.contains("\"><img"));
}

#[test]
fn figures_of_a_forged_file_break_nothing() {
    let mut all = Vec::new();
    for (i, seconds) in [0.0, -1.0, 1e-300, 1e300, f64::MIN_POSITIVE].into_iter().enumerate() {
        let mut m = measurement("read", &[("clients", u64::MAX - i as u64), ("record_bytes", u64::MAX)], 1.0);
        (m.seconds, m.bytes, m.operations, m.verified_bytes) = (seconds, u64::MAX, u64::MAX, u64::MAX);
        m.latency_us = [f64::MAX, -1.0, 0.0, 1e-300];
        m.bound = Some(Bound { rate: if i == 0 { 0.0 } else { 1e-300 }, binds: String::new() });
        all.push(m);
    }
    let page = page(&[source(results("", "", all)), source(results("x", "y", vec![]))]);
    assert!(!page.contains("NaN") && page.ends_with("</html>"));
}

#[test]
fn files_that_are_no_results_are_refused_in_one_line_that_names_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let good = serde_json::to_value(results("Heorot", "mdtest", vec![])).unwrap();
    let mut other_schema = good.clone();
    other_schema["schema"] = 2.into();
    let mut damaged = good.clone();
    damaged["measurements"] = "none".into();
    let cases = [
        ("empty", String::new(), "empty"),
        ("blank", " \n".into(), "empty"),
        ("text", "hello\nworld".into(), "not JSON"),
        ("cut", good.to_string()[..100].into(), "not JSON"),
        ("other", "{\"a\": 1}".into(), "no schema number"),
        ("list", "[1, 2]".into(), "no schema number"),
        ("newer", other_schema.to_string(), "schema 2; this program reads schema 1"),
        ("damaged", damaged.to_string(), "damaged"),
    ];
    for (name, content, why) in cases {
        let file = dir.path().join(name);
        fs::write(&file, content).unwrap();
        let error = Source::read(&file).unwrap_err();
        assert!(error.contains(why) && error.contains(file.to_str().unwrap()), "{name}: {error}");
        assert!(!error.contains('\n'), "{name}: {error}");
    }
    let error = Source::read(Path::new("/nowhere/x.json")).unwrap_err();
    assert!(error.starts_with("read /nowhere/x.json: "), "{error}");
    assert!(Source::read(dir.path()).unwrap_err().contains("directory"), "a directory");

    let file = dir.path().join("good.json");
    fs::write(&file, good.to_string()).unwrap();
    let output = dir.path().join("no/such/folder.html");
    let error = report(&ReportArgs { files: vec![file.clone()], output, plots: None }).unwrap_err();
    assert!(error.starts_with("write ") && error.contains("folder.html"), "{error}");
    let output = dir.path().join("report.html");
    report(&ReportArgs { files: vec![file], output: output.clone(), plots: None }).unwrap();
    assert!(fs::read_to_string(output).unwrap().contains("Heorot"));
}
