//! `make bench`: comparison of Heorot and nfs-ganesha by the same real Linux client, in turns, on the same
//! disk.
//!
//! `bench PAIRS [ROW...]`. Each row is measured on one system and directly after on the other, and the order
//! changes from pair to pair, so that other load on the machine affects both. A row that needs the files of
//! another row (`rename`) comes after that row, which runs uncounted if it was not requested.
//!
//! With BENCH_PERF=FOLDER, `perf record` profiles the server during each row, into FOLDER/ROW.SERVER.data.

mod rows;
mod systems;

use std::process::{Command, ExitCode};

use bench::report::{Row, table};
use rows::{Measure, PLAN};
use systems::{GANESHA_AT, HEOROT_AT, System, Systems};
use tests::{Ganesha, Lab};

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(|info| {
        eprintln!("\nThe benchmark failed.\n{}", info.payload_as_str().unwrap_or_default());
    }));
    let mut arguments = std::env::args().skip(1);
    let Some(pairs) = arguments.next().and_then(|n| n.parse().ok()).filter(|n| *n > 0) else {
        eprintln!("usage: bench PAIRS [ROW...]");
        return ExitCode::FAILURE;
    };
    let wanted: Vec<String> = arguments.collect();
    if let Some(unknown) = wanted.iter().find(|name| !PLAN.iter().any(|m| m.is_called(name))) {
        let names: Vec<&str> = PLAN.iter().map(|m| m.name).collect();
        eprintln!("bench: there is no row {unknown}; there are: {}", names.join(" "));
        return ExitCode::FAILURE;
    }
    match std::panic::catch_unwind(|| run(pairs, &wanted)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn run(pairs: usize, wanted: &[String]) {
    let counted = |m: &Measure| wanted.is_empty() || wanted.iter().any(|name| m.is_called(name));
    let needed = |m: &Measure| counted(m) || PLAN.iter().any(|later| counted(later) && later.needs(m));
    let plan: Vec<&Measure> = PLAN.iter().filter(|m| needed(m)).collect();
    let mut rows: Vec<Row> = plan.iter().map(|m| m.row()).collect();

    let lab = Lab::open();
    let mut systems = Systems::start(&lab);
    println!("{}", heading(&systems, pairs));
    for pair in 0..pairs {
        let mut order = [System::Heorot, System::Ganesha];
        if pair % 2 == 1 {
            order.reverse();
        }
        for (measure, row) in plan.iter().zip(&mut rows) {
            let [first, second] = order.map(|system| systems.measure(system, measure));
            let both = if pair % 2 == 1 { (second, first) } else { (first, second) };
            eprintln!("pair {}, {}: {}", pair + 1, measure.name, measure.show(both));
            row.pairs.push(both);
        }
        systems.clear();
    }
    let rows: Vec<Row> = plan.iter().zip(rows).filter(|(m, _)| counted(m)).map(|(_, row)| row).collect();
    println!("{}", table("Heorot", "nfs-ganesha", &rows));
}

/// Description of the environment, above the table.
fn heading(systems: &Systems<'_>, pairs: usize) -> String {
    let first_line = |file: &str, word: &str| {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(word)).unwrap_or_default();
        line.split_once(':').map_or("", |(_, value)| value).trim().to_owned()
    };
    let said = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output();
        output.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned()).unwrap_or_default()
    };
    format!(
        "{}: {pairs} pairs; {} CPUs ({}), memory {}; load average {}\n\
         Heorot: commit {}, `heorot up` with four data servers, {HEOROT_AT}; {}, VFS, {GANESHA_AT}; \
         client: Linux {}, vers=4.2\n",
        said("date", &["+%Y-%m-%d %H:%M"]),
        std::thread::available_parallelism().map_or(0, usize::from),
        first_line("/proc/cpuinfo", "model name"),
        first_line("/proc/meminfo", "MemTotal"),
        std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim(),
        said("git", &["rev-parse", "--short", "HEAD"]),
        Ganesha::version(),
        systems.client_kernel(),
    )
}
