//! Solutions as text and as CSV.

use std::fmt::Write as _;

use super::advice::{Change, Need, to_double};
use super::parameter::Parameter;
use super::quantity::{Rate, scaled, significant};
use super::setup::{Disks, Files, Load, Setup};
use super::solve::{Resource, Solution, Term};
use super::sweep::{Point, Sweep};
use crate::task::Direction;

/// Text of one setup: parameters, terms, solution, and the changes that double it.
#[must_use]
pub fn answer(setup: &Setup, bytes: u64) -> String {
    let solution = Solution::of(setup);
    let mut out = format!("{}\n\n", question(setup));
    let mut rows = vec![["", "allows", "takes", "", ""].map(String::from)];
    rows.extend(Resource::ALL.into_iter().map(|resource| row(setup, &solution, resource, bytes)));
    out.push_str(&aligned(&rows, &[1, 2]));
    let _ = writeln!(
        out,
        "\nS = {} ({}),  T = {} for {}",
        scaled(solution.rate(), "B/s"),
        scaled(solution.rate() * 8.0, "bit/s"),
        duration(solution.seconds(bytes)),
        host::size::show(bytes),
    );
    let needs = to_double(setup);
    let all = if needs.len() > 1 { ", all of these are needed" } else { "" };
    let _ = writeln!(out, "\nTo double S, to {}{all}:", scaled(solution.rate() * 2.0, "B/s"));
    let rows: Vec<_> = needs.iter().map(|need| advice(setup, need)).collect();
    out.push_str(&aligned(&rows, &[1]));
    out
}

/// Title of a plot, and its constant parameters.
#[must_use]
pub fn titles(setup: &Setup, sweeps: &[Sweep]) -> (String, String) {
    let is_swept =
        |parameters: &[Parameter]| sweeps.iter().any(|sweep| parameters.contains(&sweep.parameter));
    let swept: Vec<_> = sweeps.iter().map(|sweep| sweep.parameter.to_string()).collect();
    let verb = match setup.load().direction {
        Direction::Read => "reading",
        Direction::Write => "writing",
    };
    let (hardware, load) = (setup.hardware(), setup.load());
    let bits = |rate: Option<Rate>| rate.map(Rate::in_bits);
    let all_links = Parameter::Link;
    let fixed = [
        (vec![Parameter::Clients], Some(count(load.clients, "client"))),
        (vec![Parameter::DataServers], Some(count(hardware.data_servers, "data server"))),
        (
            vec![all_links, Parameter::ClientLink],
            bits(hardware.client_link).map(|r| format!("client links {r}")),
        ),
        (
            vec![all_links, Parameter::ServerLink],
            bits(hardware.server_link).map(|r| format!("server links {r}")),
        ),
        (vec![Parameter::Disk], hardware.disk.map(|rate| format!("disks {rate}"))),
        (vec![Parameter::ClientCpu], hardware.client_cpu.map(|cost| format!("client CPU {cost}"))),
        (vec![Parameter::Uplink], bits(hardware.uplink).map(|rate| format!("uplink {rate}"))),
        (vec![Parameter::Switch], bits(hardware.switch).map(|rate| format!("switch {rate}"))),
        (
            vec![Parameter::Replication],
            Some(hardware.replication).filter(|k| *k > 1).map(|k| format!("{k} copies")),
        ),
        (vec![Parameter::StripeWidth], hardware.stripe_width.map(|w| format!("striped over {w}"))),
    ];
    let fixed =
        fixed.into_iter().filter(|(parameters, _)| !is_swept(parameters)).filter_map(|(_, text)| text);
    let title = format!("What the hardware allows: {verb}, by {}", swept.join(" and "));
    (title, fixed.collect::<Vec<_>>().join(" · "))
}

fn question(setup: &Setup) -> String {
    let Load { clients, direction, files } = *setup.load();
    let verb = match direction {
        Direction::Read => "read",
        Direction::Write => "write",
    };
    let files = match files {
        Files::PerClient(1) if clients == 1 => "a file".into(),
        Files::PerClient(1) => "a file each".into(),
        Files::PerClient(n) if clients == 1 => format!("{n} files"),
        Files::PerClient(n) => format!("{n} files each"),
        Files::Shared(1) => "one file".into(),
        Files::Shared(n) => format!("{n} files"),
    };
    let servers = setup.hardware().data_servers;
    let striped = match setup.stripe_width() {
        _ if servers == 1 => String::new(),
        width if width == servers => ", striped over all".into(),
        width => format!(", striped over {width}"),
    };
    let copies = match setup.hardware().replication {
        1 => String::new(),
        k => format!(", {k} copies"),
    };
    let s = if clients == 1 { "s" } else { "" };
    format!(
        "{} {verb}{s} {files} on {}{striped}{copies}",
        count(clients, "client"),
        count(servers, "data server")
    )
}

fn row(setup: &Setup, solution: &Solution, resource: Resource, bytes: u64) -> [String; 5] {
    let Some(term) = solution.terms.iter().find(|term| term.resource == resource) else {
        return [
            resource.to_string(),
            "-".into(),
            String::new(),
            "not given: no limit".into(),
            String::new(),
        ];
    };
    let binds = if solution.is_bound_by(resource) { "<- binds" } else { "" };
    [
        resource.to_string(),
        scaled(term.rate, "B/s"),
        duration(bytes as f64 / term.rate),
        because(setup, term),
        binds.into(),
    ]
}

/// Explanation of a term: `12 links of 100 Mbit/s, 2 copies`.
fn because(setup: &Setup, term: &Term) -> String {
    let each = Rate::derived(term.each);
    let some = |thing: &str| match (term.at_work, term.of) {
        (at_work, of) if at_work == of => count(of, thing),
        (at_work, of) => format!("{at_work} of {}", count(of, thing)),
    };
    let copies = if term.passes > 1 { format!(", {} copies", term.passes) } else { String::new() };
    match term.resource {
        Resource::ClientCpu => {
            let cost = setup.hardware().client_cpu.map(|cost| cost.to_string()).unwrap_or_default();
            format!("{} at {cost}", some("client"))
        }
        Resource::ClientLinks => format!("{} of {}", some("link"), each.in_bits()),
        Resource::ServerLinks => format!("{} of {}{copies}", some("link"), each.in_bits()),
        Resource::Disks => format!("{} of {each}{copies}", some("disk")),
        Resource::Uplink | Resource::Switch => format!("{}{copies}", each.in_bits()),
    }
}

fn advice(setup: &Setup, need: &Need) -> [String; 3] {
    let ways = need.ways.iter().map(|way| {
        let changes: Vec<_> = way.iter().map(|change| change_text(setup, *change)).collect();
        changes.join(" and ")
    });
    let ways: Vec<_> = ways.collect();
    [format!("  {}", need.resource), format!("× {}", significant(need.factor)), ways.join(", or ")]
}

fn change_text(setup: &Setup, change: Change) -> String {
    let hardware = setup.hardware();
    let was = |now: String, before: u64| format!("{now} instead of {before}");
    match change {
        Change::Clients(n) => was(count(n, "client"), setup.load().clients),
        Change::ClientLink(rate) | Change::ServerLink(rate) => format!("links of {}", rate.in_bits()),
        Change::ClientCpu(cost) => format!("{cost} of client CPU"),
        Change::DataServers(n) => {
            let now = was(count(n, "data server"), hardware.data_servers);
            if hardware.disk.is_some() { format!("{now}, with disks like theirs") } else { now }
        }
        Change::Disks(Disks::InAll(n)) => was(count(n, "disk"), setup.disks()),
        Change::Disks(Disks::PerServer(n)) => {
            let before = setup.disks() / hardware.data_servers;
            format!("{} at each data server instead of {before}", count(n, "disk"))
        }
        Change::Disk(rate) => format!("disks of {rate}"),
        Change::StripeWidth(n) => was(format!("files striped over {n}"), setup.stripe_width()),
        Change::Uplink(rate) | Change::Switch(rate) => rate.in_bits(),
    }
}

/// Maximal number of lines; a longer table shows the ends, round values, and the changes of the binding term.
const LINES_MAX: usize = 50;

/// Table of a sweep, one line for each point.
#[must_use]
pub fn table(sweeps: &[Sweep], points: &[Point], bytes: u64) -> String {
    let mut headings: Vec<String> = sweeps.iter().map(|sweep| sweep.parameter.to_string()).collect();
    headings.extend(["S", "T", "binds"].map(String::from));
    let right: Vec<usize> = (0..headings.len() - 1).collect();
    let shown: Vec<usize> =
        (0..points.len()).filter(|i| points.len() <= LINES_MAX || is_shown(points, *i)).collect();
    let mut rows = vec![headings];
    for i in &shown {
        let Point { at, solution, .. } = &points[*i];
        let mut row: Vec<String> = at.iter().map(|(_, value)| value.to_string()).collect();
        row.push(scaled(solution.rate(), "B/s"));
        row.push(duration(solution.seconds(bytes)));
        row.push(solution.binds().to_string());
        rows.push(row);
    }
    let mut out = aligned(&rows, &right);
    let _ = writeln!(out, "\nT is for {}.", host::size::show(bytes));
    if shown.len() < points.len() {
        let _ = writeln!(out, "{} of {} points; --csv FILE has all.", shown.len(), points.len());
    }
    out
}

fn is_shown(points: &[Point], i: usize) -> bool {
    let key =
        |i: usize| (points[i].solution.binds(), points[i].at.len() > 1 && points[i].at[0] != points[0].at[0]);
    let changes = (i > 0 && key(i - 1) != key(i)) || (i + 1 < points.len() && key(i) != key(i + 1));
    let number = points[i].at.last().map_or(0.0, |(_, value)| value.number());
    let leading = number / 10_f64.powf(number.log10().floor());
    let is_round = [1.0, 2.0, 5.0].iter().any(|round: &f64| (leading - round).abs() < 1e-9);
    i == 0 || i + 1 == points.len() || changes || is_round
}

/// CSV of a sweep: parameters, S, T, the binding resource, and the bound of each term; in bytes and seconds.
#[must_use]
pub fn csv(sweeps: &[Sweep], points: &[Point], bytes: u64) -> String {
    let mut out = String::new();
    for sweep in sweeps {
        let _ = write!(out, "{},", sweep.parameter);
    }
    out.push_str("s_bytes_per_second,t_seconds,binds");
    for resource in Resource::ALL {
        let _ = write!(out, ",{}_bytes_per_second", resource.name().replace('-', "_"));
    }
    out.push('\n');
    for Point { at, solution, .. } in points {
        for (_, value) in at {
            let _ = write!(out, "{},", value.number());
        }
        let _ = write!(out, "{},{},{}", solution.rate(), solution.seconds(bytes), solution.binds().name());
        for resource in Resource::ALL {
            let term = solution.terms.iter().find(|term| term.resource == resource);
            let _ = write!(out, ",{}", term.map_or(String::new(), |term| term.rate.to_string()));
        }
        out.push('\n');
    }
    out
}

fn count(count: u64, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}

fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{} µs", significant(s * 1e6)),
        s if s < 1.0 => format!("{} ms", significant(s * 1e3)),
        s if s < 600.0 => format!("{} s", significant(s)),
        s if s < 36_000.0 => format!("{} min", significant(s / 60.0)),
        s if s < 864_000.0 => format!("{} h", significant(s / 3600.0)),
        s => format!("{} d", significant(s / 86_400.0)),
    }
}

/// Aligned columns as wide as their widest cell; those in `right` to the right.
fn aligned<R: AsRef<[String]>>(rows: &[R], right: &[usize]) -> String {
    let columns = rows.first().map_or(0, |row| row.as_ref().len());
    let width =
        |column: usize| rows.iter().map(|row| row.as_ref()[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let cell = |(column, text): (usize, &String)| {
            let width = widths[column];
            if right.contains(&column) { format!("{text:>width$}") } else { format!("{text:<width$}") }
        };
        let cells: Vec<_> = row.as_ref().iter().enumerate().map(cell).collect();
        out.push_str(cells.join("  ").trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Hardware, Load};

    fn setup() -> Setup {
        let link = Some("100Mbit/s".parse().unwrap());
        let hardware = Hardware {
            data_servers: 12,
            disks: Disks::PerServer(1),
            client_link: link,
            server_link: link,
            disk: Some("50MB/s".parse().unwrap()),
            client_cpu: None,
            uplink: None,
            switch: None,
            replication: 1,
            stripe_width: None,
        };
        Setup::new(hardware, Load { clients: 21, direction: Direction::Read, files: Files::PerClient(1) })
            .unwrap()
    }

    #[test]
    fn the_answer_names_each_term_what_binds_and_all_that_doubling_needs() {
        let expected = "\
21 clients read a file each on 12 data servers, striped over all

                  allows    takes
client CPU             -           not given: no limit
client links  262.5 MB/s   4.09 s  21 links of 100 Mbit/s
server links    150 MB/s  7.158 s  12 links of 100 Mbit/s  <- binds
disks           600 MB/s   1.79 s  12 disks of 50 MB/s
uplink                 -           not given: no limit
switch                 -           not given: no limit

S = 150 MB/s (1.2 Gbit/s),  T = 7.158 s for 1 GiB

To double S, to 300 MB/s, all of these are needed:
  client links  × 1.143  24 clients instead of 21, or links of 114.3 Mbit/s
  server links      × 2  24 data servers instead of 12, with disks like theirs, or links of 200 Mbit/s
";
        assert_eq!(answer(&setup(), 1 << 30), expected);
        let document = include_str!("../../../../docs/model.md");
        assert!(document.contains(expected), "docs/model.md shows what the program prints");
    }

    #[test]
    fn a_long_sweep_is_shown_at_its_ends_at_round_values_and_where_another_term_binds() {
        let sweeps = ["clients=1..1000".parse::<Sweep>().unwrap()];
        let points = super::super::sweep::points(setup().hardware(), setup().load(), &sweeps).unwrap();
        let table = table(&sweeps, &points, 1 << 30);
        let clients: Vec<&str> =
            table.lines().skip(1).map_while(|line| line.split_whitespace().next()).collect();
        assert_eq!(clients, ["1", "2", "5", "10", "12", "13", "20", "50", "100", "200", "500", "1000"]);
        let binds = |line: usize| table.lines().nth(line).and_then(|line| line.rsplit("  ").next());
        assert_eq!((binds(5), binds(6)), (Some("client links"), Some("server links")));
        assert!(table.ends_with("12 of 1000 points; --csv FILE has all.\n"));
        let csv = csv(&sweeps, &points, 1_000_000_000);
        assert_eq!(csv.lines().count(), 1001);
        assert_eq!(
            csv.lines().nth(21),
            Some("21,150000000,6.666666666666667,server-links,,262500000,150000000,600000000,,")
        );
    }

    #[test]
    fn times_are_shown_in_units_that_people_read() {
        let cases = [
            (0.000_25, "250 µs"),
            (0.0425, "42.5 ms"),
            (1.5, "1.5 s"),
            (599.0, "599 s"),
            (671.0, "11.18 min"),
        ];
        for (seconds, text) in cases {
            assert_eq!(duration(seconds), text);
        }
        assert_eq!(duration(86_400.0 * 20.0), "20 d");
    }
}
