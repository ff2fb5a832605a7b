//! Tables of measurements.
//!
//! The varied parameters of a run become the axes of its tables, depending on their number:
//!
//! ```text
//!   none         operation │ system      one column: mdtest
//!   one (key)    operation │ system      a column for each value: record sizes
//!   two          value     │ system      a table for each operation: clients × servers
//! ```
//!
//! With more than two, the others become part of the operation's name.

use std::collections::{BTreeMap, BTreeSet};

use super::html::plain;
use super::read::Source;
use crate::result::{Bound, Cache, Measurement, Unit};

/// All files of one run.
pub(super) struct Section<'a> {
    pub run: &'a str,
    /// Systems, each once, in the order of the files.
    pub systems: Vec<&'a str>,
    /// System and scores of each file with scores.
    pub scores: Vec<(usize, &'a BTreeMap<String, f64>)>,
    /// Parameters with the same value in all measurements.
    pub fixed: Vec<(String, u64)>,
    /// Parameters of the columns, and of the groups of lines if these are not operations.
    pub column_key: Option<String>,
    pub row_key: Option<String>,
    pub tables: Vec<Table>,
}

pub(super) struct Table {
    /// Operation, if each operation has its own table.
    pub operation: Option<String>,
    /// Values of the column key.
    pub columns: Vec<u64>,
    pub groups: Vec<Group>,
}

/// Lines for comparison.
pub(super) struct Group {
    /// Operation, or value of the row key.
    pub name: String,
    pub value: Option<u64>,
    pub lines: Vec<Line>,
}

pub(super) struct Line {
    /// Index into [`Section::systems`].
    pub system: usize,
    pub cache: Cache,
    /// One cell for each column, or a single one.
    pub cells: Vec<Option<Cell>>,
}

/// One or more measurements at one point.
pub(super) struct Cell {
    pub unit: Unit,
    /// Rates in ascending order; at least one.
    pub rates: Vec<f64>,
    pub bound: Option<Bound>,
    pub latency_us: [f64; 4],
    pub verified: bool,
    pub partial: bool,
}

/// Text of a rate.
pub(super) fn show_rate(unit: Unit, rate: f64) -> String {
    match unit {
        Unit::Bytes => aligned(rate, "B/s"),
        Unit::Operations if rate < 1e6 => format!("{} /s", digits(rate)),
        Unit::Operations => aligned(rate, "/s"),
    }
}

/// Text with all four digits, so that the decimal points of a column are aligned.
fn aligned(rate: f64, unit: &str) -> String {
    const PREFIXES: [(f64, &str); 5] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")];
    let (factor, prefix) = PREFIXES.into_iter().find(|(f, _)| rate >= f * 0.99995).unwrap_or((1.0, ""));
    format!("{} {prefix}{unit}", digits(rate / factor))
}

fn digits(value: f64) -> String {
    let before_point = if value < 1.0 { 1 } else { value.log10() as usize + 1 };
    format!("{value:.*}", 4_usize.saturating_sub(before_point))
}

impl Line {
    /// True if all bytes at all points were verified.
    pub(super) fn is_verified(&self) -> bool {
        let mut cells = self.cells.iter().flatten().peekable();
        cells.peek().is_some() && cells.all(|cell| cell.verified)
    }
}

impl Cell {
    /// Median rate; of an even number the lower of the two in the middle.
    pub(super) fn rate(&self) -> f64 {
        self.rates[(self.rates.len() - 1) / 2]
    }

    /// Percentage of the bound.
    pub(super) fn percent(&self) -> Option<f64> {
        let bound = self.bound.as_ref().filter(|bound| bound.rate > 0.0 && self.unit == Unit::Bytes)?;
        Some(self.rate() / bound.rate * 100.0)
    }
}

/// Order of known parameters in a table's columns; other keys follow.
const COLUMN_KEYS: [&str; 6] =
    ["record_bytes", "transfer_bytes", "servers", "metaservers", "processes", "clients"];

struct Sample<'a> {
    system: usize,
    measurement: &'a Measurement,
}

/// Groups the files by run.
pub(super) fn sections(sources: &[Source]) -> Vec<Section<'_>> {
    let mut runs: Vec<&str> = Vec::new();
    for source in sources {
        if !runs.contains(&source.results.run.as_str()) {
            runs.push(&source.results.run);
        }
    }
    runs.into_iter().map(|run| section(run, sources)).collect()
}

fn section<'a>(run: &'a str, sources: &'a [Source]) -> Section<'a> {
    let (mut systems, mut samples, mut scores) = (Vec::new(), Vec::new(), Vec::new());
    for source in sources.iter().filter(|source| source.results.run == run) {
        let name = source.results.system.as_str();
        let system = systems.iter().position(|known| *known == name).unwrap_or(systems.len());
        if system == systems.len() {
            systems.push(name);
        }
        samples.extend(source.results.measurements.iter().map(|measurement| Sample { system, measurement }));
        if !source.results.scores.is_empty() {
            scores.push((system, &source.results.scores));
        }
    }
    let (fixed, varied) = keys(&samples);
    let mut varied = varied.into_iter();
    let (column_key, row_key) = (varied.next(), varied.next());
    let rest: Vec<String> = varied.collect();
    let mut operations: Vec<String> = Vec::new();
    let named: Vec<(String, &Sample<'_>)> =
        samples.iter().map(|sample| (operation(sample.measurement, &rest), sample)).collect();
    for (name, _) in &named {
        if !operations.contains(name) {
            operations.push(name.clone());
        }
    }
    let of = |name: &str| named.iter().filter(|(n, _)| n == name).map(|(_, s)| *s).collect::<Vec<_>>();
    let columns = column_key.as_ref().map_or(vec![], |key| values(&samples.iter().collect::<Vec<_>>(), key));
    let tables = match &row_key {
        Some(row_key) => operations
            .iter()
            .map(|name| {
                let samples = of(name);
                let columns = column_key.as_ref().map_or(vec![], |key| values(&samples, key));
                let group = |value: u64| {
                    let here: Vec<_> = samples
                        .iter()
                        .copied()
                        .filter(|s| s.measurement.at.get(row_key) == Some(&value))
                        .collect();
                    let lines = lines(&here, column_key.as_deref(), &columns);
                    Group { name: show_value(row_key, value), value: Some(value), lines }
                };
                let groups = values(&samples, row_key).into_iter().map(group).collect();
                Table { operation: Some(name.clone()), columns, groups }
            })
            .collect(),
        None => {
            let group = |name: &String| {
                let lines = lines(&of(name), column_key.as_deref(), &columns);
                Group { name: name.clone(), value: None, lines }
            };
            let groups = operations.iter().map(group).collect();
            vec![Table { operation: None, columns: columns.clone(), groups }]
        }
    };
    Section { run, systems, scores, fixed, column_key, row_key, tables }
}

/// Constant parameters, and varied ones, the columns' key first.
fn keys(samples: &[Sample<'_>]) -> (Vec<(String, u64)>, Vec<String>) {
    let mut all: BTreeMap<&String, BTreeSet<u64>> = BTreeMap::new();
    for (key, value) in samples.iter().flat_map(|sample| &sample.measurement.at) {
        all.entry(key).or_default().insert(*value);
    }
    let rank = |key: &str| COLUMN_KEYS.iter().position(|known| *known == key).unwrap_or(COLUMN_KEYS.len());
    let (varied, same): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, values)| values.len() > 1);
    let fixed = same.into_iter().filter_map(|(key, values)| Some((key.clone(), *values.first()?))).collect();
    let mut varied: Vec<String> = varied.into_iter().map(|(key, _)| key.clone()).collect();
    varied.sort_by_key(|key| rank(key));
    (fixed, varied)
}

fn operation(measurement: &Measurement, rest: &[String]) -> String {
    let at = rest.iter().filter_map(|key| {
        let value = measurement.at.get(key)?;
        Some(format!(", {} {}", show_key(key), show_value(key, *value)))
    });
    [measurement.name.clone()].into_iter().chain(at).collect()
}

fn values(samples: &[&Sample<'_>], key: &str) -> Vec<u64> {
    let all: BTreeSet<u64> =
        samples.iter().filter_map(|sample| sample.measurement.at.get(key)).copied().collect();
    all.into_iter().collect()
}

/// One line for each system and each treatment of caches.
fn lines(samples: &[&Sample<'_>], column_key: Option<&str>, columns: &[u64]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut kinds: Vec<(usize, Cache)> = Vec::new();
    for sample in samples {
        let kind = (sample.system, sample.measurement.cache);
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds.sort_by_key(|(system, _)| *system);
    for (system, cache) in kinds {
        let here = |sample: &&&Sample<'_>| (sample.system, sample.measurement.cache) == (system, cache);
        let of_line: Vec<&Measurement> =
            samples.iter().filter(here).map(|sample| sample.measurement).collect();
        let cells = match column_key {
            Some(key) => {
                let at = |column: &u64| {
                    let at_column: Vec<&Measurement> =
                        of_line.iter().copied().filter(|m| m.at.get(key) == Some(column)).collect();
                    cell(&at_column)
                };
                columns.iter().map(at).collect()
            }
            None => vec![cell(&of_line)],
        };
        lines.push(Line { system, cache, cells });
    }
    lines
}

fn cell(measurements: &[&Measurement]) -> Option<Cell> {
    let first = measurements.first()?;
    let mut rates: Vec<f64> = measurements.iter().filter_map(|m| rate(m)).collect();
    rates.sort_by(f64::total_cmp);
    (!rates.is_empty()).then(|| Cell {
        unit: first.unit,
        rates,
        bound: first.bound.clone(),
        latency_us: first.latency_us,
        verified: measurements.iter().all(|m| m.verified_bytes > 0),
        partial: measurements.iter().any(|m| m.partial),
    })
}

/// Rate; none if the duration in the file is zero.
pub(super) fn rate(measurement: &Measurement) -> Option<f64> {
    let done = match measurement.unit {
        Unit::Bytes => measurement.bytes,
        Unit::Operations => measurement.operations,
    };
    Some(done as f64 / measurement.seconds).filter(|rate| rate.is_finite() && *rate >= 0.0)
}

/// Name of a parameter: `record_bytes` is `record`.
pub(super) fn show_key(key: &str) -> String {
    plain(&key.strip_suffix("_bytes").unwrap_or(key).replace('_', " "))
}

/// Text of a value; bytes as a size.
pub(super) fn show_value(key: &str, value: u64) -> String {
    if key.ends_with("_bytes") { host::size::show(value) } else { value.to_string() }
}
