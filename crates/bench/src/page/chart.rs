//! Plots of tables: measurements as solid lines, bounds of the hardware as dashed lines.

use super::table::{Cell, Line as TableLine, Section, Table, show_key, show_rate, show_value};
use crate::model::quantity::scaled;
use crate::plot::{Axis, COLOURS, Curve, Key, Line, Mark, Piece, Plot};
use crate::result::Unit;
use crate::table::treatment;

/// Colour of a bound that is common to all curves.
const BOUND: usize = 6;

/// Plots of a table; none without a varied parameter.
pub(super) fn plots(section: &Section<'_>, table: &Table) -> Vec<Plot> {
    match (&section.column_key, &section.row_key) {
        (Some(column_key), None) => table
            .groups
            .iter()
            .filter_map(|group| {
                let series = group.lines.iter().map(|line| Series::of_line(section, table, line)).collect();
                plot(&group.name, column_key, series)
            })
            .collect(),
        (Some(column_key), Some(row_key)) => by_system(section, table, column_key, row_key),
        _ => vec![],
    }
}

/// Maximal length of a name in a legend.
const NAME_LETTERS_MAX: usize = 50;

/// Points of one curve with their tooltips.
struct Series {
    name: String,
    unit: Unit,
    points: Vec<(f64, f64)>,
    bounds: Vec<(f64, f64)>,
}

impl Series {
    fn of_line(section: &Section<'_>, table: &Table, line: &TableLine) -> Self {
        let mut series = Self::new(name(section, line));
        for (column, cell) in table.columns.iter().zip(&line.cells) {
            if let Some(cell) = cell {
                series.push(*column, cell);
            }
        }
        series
    }

    fn new(name: String) -> Self {
        Self { name, unit: Unit::Bytes, points: vec![], bounds: vec![] }
    }

    fn push(&mut self, x: u64, cell: &Cell) {
        self.unit = cell.unit;
        self.points.push((x as f64, cell.rate()));
        let bound = cell.bound.as_ref().filter(|_| cell.percent().is_some());
        self.bounds.extend(bound.map(|bound| (x as f64, bound.rate)));
    }
}

fn name(section: &Section<'_>, line: &TableLine) -> String {
    let system = section.systems.get(line.system).copied().unwrap_or_default();
    let mut shown: String = super::html::plain(system).chars().take(NAME_LETTERS_MAX).collect();
    if system.chars().nth(NAME_LETTERS_MAX).is_some() {
        shown.push('…');
    }
    format!("{shown}, {}", treatment(line.cache))
}

/// One plot for each system: a curve for each column over the values of the groups.
fn by_system(section: &Section<'_>, table: &Table, column_key: &str, row_key: &str) -> Vec<Plot> {
    let mut kinds: Vec<&TableLine> = Vec::new();
    for line in table.groups.iter().flat_map(|group| &group.lines) {
        if !kinds.iter().any(|kind| (kind.system, kind.cache) == (line.system, line.cache)) {
            kinds.push(line);
        }
    }
    let of_kind = |kind: &&TableLine| {
        let mut all: Vec<Series> = table
            .columns
            .iter()
            .map(|column| {
                Series::new(format!("{} {}", show_key(column_key), show_value(column_key, *column)))
            })
            .collect();
        for group in &table.groups {
            let same = |line: &&TableLine| (line.system, line.cache) == (kind.system, kind.cache);
            let Some((x, line)) = group.value.zip(group.lines.iter().find(same)) else { continue };
            for (series, cell) in all.iter_mut().zip(&line.cells) {
                if let Some(cell) = cell {
                    series.push(x, cell);
                }
            }
        }
        let operation = table.operation.as_deref().unwrap_or_default();
        plot(&format!("{operation}: {}", name(section, kind)), row_key, all)
    };
    kinds.iter().filter_map(of_kind).collect()
}

fn plot(title: &str, key: &str, mut series: Vec<Series>) -> Option<Plot> {
    series.retain(|series| !series.points.is_empty());
    let unit = series.first()?.unit;
    let mut xs: Vec<f64> = series.iter().flat_map(|s| s.points.iter().map(|(x, _)| *x)).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    if xs.len() < 2 || series.len() > COLOURS - 1 {
        return None;
    }
    let ys = series.iter().flat_map(|s| s.points.iter().chain(&s.bounds).map(|(_, y)| *y));
    let label = match unit {
        Unit::Bytes => "throughput (bytes/s)",
        Unit::Operations => "operations a second",
    };
    let y = Axis::over(label, ys, |v| tick(unit, v));
    let x = Axis::at(&show_key(key), &xs, |v| show_value(key, v as u64));
    let shared_bound = series.iter().all(|s| s.bounds == series[0].bounds);
    let (mut curves, mut legend) = (Vec::new(), Vec::new());
    for (i, s) in series.iter().enumerate() {
        // Skip the colour of the common bound.
        let own = if i < BOUND { i } else { i + 1 };
        if !s.bounds.is_empty() && (!shared_bound || i == 0) {
            curves.push(curve(if shared_bound { BOUND } else { own }, Line::Dashed, &s.bounds, vec![]));
        }
        let mark = |(x, y): &(f64, f64)| {
            let says = format!(
                "{}: {} {}: {}",
                s.name,
                show_key(key),
                show_value(key, *x as u64),
                show_rate(unit, *y)
            );
            Mark { colour: own, at: (*x, *y), says }
        };
        curves.push(curve(own, Line::Solid, &s.points, s.points.iter().map(mark).collect()));
        legend.push(Key { colour: own, line: Line::Solid, text: s.name.clone() });
    }
    if series.iter().any(|s| !s.bounds.is_empty()) {
        legend.push(Key { colour: BOUND, line: Line::Dashed, text: "what the hardware allows".into() });
    }
    Some(Plot { title: super::html::plain(title), subtitle: String::new(), x, y, curves, legend })
}

fn tick(unit: Unit, value: f64) -> String {
    match unit {
        _ if value == 0.0 => "0".into(),
        Unit::Bytes => scaled(value, "B/s"),
        Unit::Operations => scaled(value, "/s").replace(" /s", "/s"),
    }
}

fn curve(colour: usize, line: Line, points: &[(f64, f64)], marks: Vec<Mark>) -> Curve {
    Curve { pieces: vec![Piece { colour, points: points.to_vec() }], marks, line, label: None }
}
