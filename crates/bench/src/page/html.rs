//! HTML of the page. Every text from a file passes through [`plain`] and then through maud, which escapes it.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::chart;
use super::read::Source;
use super::table::{Cell, Group, Line, Section, Table, rate, sections, show_key, show_rate, show_value};
use crate::model::quantity::significant;
use crate::plot::{CSS_DARK, CSS_LIGHT, figure};
use crate::result::{Machine, Measurement, Unit};
use crate::table::treatment;

const STYLE: &str = include_str!("style.css");

/// Content security policy: even a text that passed the escaping could load and run nothing.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// Maximal length of a text from a file.
const LETTERS_MAX: usize = 400;

pub(super) fn page(sources: &[Source]) -> Markup {
    let sections = sections(sources);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "File systems measured" }
                style {
                    // Constants of this crate: they do not end the element.
                    (PreEscaped(STYLE)) (PreEscaped(CSS_LIGHT))
                    "@media screen and (prefers-color-scheme:dark){" (PreEscaped(CSS_DARK)) "}"
                }
            }
            body {
                h1 { "File systems measured" }
                (summary(sources))
                @for section in &sections { (of_section(section)) }
                h2 { "How it was measured" }
                @for source in sources { (conditions(source)) }
                h2 { "Every measurement" }
                @for source in sources { (every(source)) }
                p.faint {
                    "MB are 10⁶ bytes, MiB are 2²⁰. Percentages are of what the hardware allows (bound), where it was \
                     told. Where a point was measured several times the figure is the middle one, and the least and the \
                     greatest stand below it. Made by heorot " (env!("CARGO_PKG_VERSION")) "."
                }
            }
        }
    }
}

/// Sanitizes a text from a file: no control characters, no direction overrides, and a maximal length.
pub(super) fn plain(text: &str) -> String {
    let turns =
        |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let shown = |c: char| if c.is_control() || turns(c) { '\u{fffd}' } else { c };
    let mut out: String = text.chars().take(LETTERS_MAX).map(shown).collect();
    if text.chars().nth(LETTERS_MAX).is_some() {
        out.push('…');
    }
    out
}

fn summary(sources: &[Source]) -> Markup {
    html! {
        div.wide { table.texts {
            thead { tr {
                @for heading in ["system", "run", "began", "machines", "measurements", "file"] { th scope="col" { (heading) } }
            } }
            tbody {
                @for Source { file, results } in sources {
                    tr {
                        th scope="row" { (plain(&results.system)) }
                        td { (plain(&results.run)) }
                        td { (plain(&results.started)) }
                        td { (results.machines.len()) }
                        td {
                            (results.measurements.len())
                            @if results.partial {
                                " " span.partial {
                                    "partial" @if let Some(by) = &results.ended_by { ": " (plain(by)) }
                                }
                            }
                        }
                        td.faint { (plain(file)) }
                    }
                }
            }
        } }
    }
}

fn of_section(section: &Section<'_>) -> Markup {
    html! {
        h2 { (plain(section.run)) }
        @if !section.fixed.is_empty() {
            p.faint {
                "Everywhere: "
                @for (i, (key, value)) in section.fixed.iter().enumerate() {
                    @if i > 0 { ", " }
                    (show_key(key)) " " (show_value(key, *value))
                }
            }
        }
        (scores(section))
        @for table in &section.tables {
            @if let Some(operation) = &table.operation { h3 { (plain(operation)) } }
            @if table.groups.is_empty() { p.faint { "Nothing was measured." } } @else { (of_table(section, table)) }
            @let plots = chart::plots(section, table);
            @if !plots.is_empty() { div.plots { @for plot in &plots { (figure(plot)) } } }
        }
    }
}

fn scores(section: &Section<'_>) -> Markup {
    let mut names: Vec<&String> = section.scores.iter().flat_map(|(_, scores)| scores.keys()).collect();
    names.sort();
    names.dedup();
    html! {
        @if !names.is_empty() {
            h3 { "Scores" }
            div.wide { table.figures {
                thead { tr {
                    th scope="col" { "system" }
                    @for name in &names { th.value scope="col" { (plain(name)) } }
                } }
                tbody {
                    @for (system, scores) in &section.scores {
                        tr {
                            th.group scope="row" { (plain(section.systems[*system])) }
                            @for name in &names { td { (scores.get(*name).map_or("–".into(), |s| significant(*s))) } }
                        }
                    }
                }
            } }
        }
    }
}

fn of_table(section: &Section<'_>, table: &Table) -> Markup {
    let first = section.row_key.as_deref().map_or("operation".into(), show_key);
    html! {
        div.wide { table.figures {
            thead {
                @let columns = table.columns.iter().zip(section.column_key.iter().cycle());
                tr {
                    @let lines = 1 + usize::from(section.column_key.is_some());
                    th scope="col" rowspan=(lines) { (first) }
                    th scope="col" rowspan=(lines) { "system, caches" }
                    @if let Some(key) = &section.column_key {
                        th.value scope="colgroup" colspan=(table.columns.len()) { (show_key(key)) }
                    } @else {
                        @for heading in ["rate", "median", "99th percentile"] { th.value scope="col" { (heading) } }
                    }
                }
                @if section.column_key.is_some() {
                    tr { @for (column, key) in columns { th.value scope="col" { (show_value(key, *column)) } } }
                }
            }
            @for group in &table.groups { (of_group(section, group)) }
        } }
    }
}

fn of_group(section: &Section<'_>, group: &Group) -> Markup {
    let with_bars = section.column_key.is_none();
    let cells = group.lines.iter().flat_map(|line| line.cells.iter().flatten());
    let greatest = cells.map(Cell::rate).fold(0.0, f64::max);
    html! {
        tbody.group {
            @for (i, line) in group.lines.iter().enumerate() {
                tr {
                    @if i == 0 { th.group scope="rowgroup" rowspan=(group.lines.len()) { (plain(&group.name)) } }
                    th scope="row" { (plain(section.systems[line.system])) small { (treatment(line.cache)) @if line.is_verified() { ", verified" } } }
                    (of_line(line, with_bars.then_some(greatest)))
                }
            }
            (bounds(section, group))
        }
    }
}

fn of_line(line: &Line, greatest: Option<f64>) -> Markup {
    html! {
        @for cell in &line.cells {
            td {
                @if let Some(cell) = cell {
                    (show_rate(cell.unit, cell.rate()))
                    @if cell.partial { " " span.partial { "partial" } }
                    @if let Some(percent) = cell.percent() { small { (format!("{percent:.1} %")) } }
                    @if let [least, .., most] = cell.rates[..] {
                        small { (show_rate(cell.unit, least)) " – " (show_rate(cell.unit, most)) }
                    }
                    @if let Some(greatest) = greatest.filter(|g| *g > 0.0) {
                        span.bar style={ "width:" (format!("{:.0}", cell.rate() / greatest * 100.0)) "%" } {}
                    }
                } @else { "–" }
            }
            @if greatest.is_some() {
                @let us = cell.as_ref().map_or([0.0; 4], |cell| cell.latency_us);
                td { (time(us[1])) }
                td { (time(us[2])) }
            }
        }
    }
}

/// Row of bounds at each point, once for all systems with the same bounds.
fn bounds(section: &Section<'_>, group: &Group) -> Markup {
    let of_line = |line: &Line| -> Vec<Option<(f64, String)>> {
        let bound = |cell: &Option<Cell>| {
            let cell = cell.as_ref().filter(|cell| cell.percent().is_some())?;
            cell.bound.as_ref().map(|bound| (bound.rate, plain(&bound.binds.replace('-', " "))))
        };
        line.cells.iter().map(bound).collect()
    };
    let mut all: Vec<(Vec<_>, Vec<&str>)> = Vec::new();
    for line in &group.lines {
        let (bounds, system) = (of_line(line), section.systems[line.system]);
        match all.iter_mut().find(|(known, _)| *known == bounds) {
            Some((_, systems)) if !systems.contains(&system) => systems.push(system),
            Some(_) => {}
            None if bounds.iter().any(Option::is_some) => all.push((bounds, vec![system])),
            None => {}
        }
    }
    let several = all.len() > 1;
    html! {
        @for (line, systems) in &all {
            tr.bound {
                th {} th scope="row" { "bound" @if several { small { "of " (plain(&systems.join(", "))) } } }
                @if let (Some(Some((rate, binds))), true) = (line.first(), line.iter().all(|bound| *bound == line[0])) {
                    td.all colspan=(line.len()) { (show_rate(Unit::Bytes, *rate)) ", " (binds) }
                } @else {
                    @for bound in line {
                        td {
                            @if let Some((rate, binds)) = bound { (show_rate(Unit::Bytes, *rate)) small { (binds) } }
                        }
                    }
                }
            }
        }
    }
}

fn conditions(source: &Source) -> Markup {
    let results = &source.results;
    html! {
        h3 { (plain(&results.system)) ": " (plain(&results.run)) " " small { (plain(&source.file)) } }
        dl {
            dt { "began" } dd { (plain(&results.started)) ", by heorot " (plain(&results.version)) }
            @for (name, value) in &results.settings { dt { (plain(name)) } dd { (plain(value)) } }
        }
        div.wide { table.texts {
            thead { tr {
                @for heading in ["machine", "kernel", "CPUs", "memory", "what it measured"] { th scope="col" { (heading) } }
            } }
            tbody { @for machine in &results.machines { (of_machine(machine)) } }
        } }
    }
}

fn of_machine(machine: &Machine) -> Markup {
    html! {
        tr {
            th scope="row" { (plain(&machine.host)) }
            td { (plain(&machine.kernel)) }
            td { (machine.cpus) }
            td { (host::size::show(machine.memory_bytes)) }
            td {
                (plain(&machine.target))
                @if let Some(clock) = &machine.clock {
                    small { " common start known to " (time(clock.error_us)) }
                }
            }
        }
    }
}

fn every(source: &Source) -> Markup {
    let results = &source.results;
    html! {
        h3 { (plain(&results.system)) ": " (plain(&results.run)) " " small { (plain(&source.file)) } }
        div.wide { table.figures {
            thead { tr {
                th scope="col" { "operation" } th scope="col" { "at" } th scope="col" { "caches" }
                @for heading in ["time", "data", "operations", "rate", "of bound", "least", "median", "99th p.", "greatest"] {
                    th.value scope="col" { (heading) }
                }
            } }
            tbody { @for measurement in &results.measurements { (of_measurement(measurement)) } }
        } }
    }
}

fn of_measurement(m: &Measurement) -> Markup {
    let (unit, rate) = (m.unit, rate(m));
    let bound = m.bound.as_ref().filter(|bound| bound.rate > 0.0 && unit == Unit::Bytes).zip(rate);
    let at: Vec<String> =
        m.at.iter().map(|(key, v)| format!("{} {}", show_key(key), show_value(key, *v))).collect();
    html! {
        tr {
            th.group scope="row" { (plain(&m.name)) @if m.partial { " " span.partial { "partial" } } }
            th { (plain(&at.join(", "))) }
            th { (treatment(m.cache)) @if m.verified_bytes > 0 { small { "verified " (host::size::show(m.verified_bytes)) } } }
            td { (significant(m.seconds)) " s" }
            td { (host::size::show(m.bytes)) }
            td { (m.operations) }
            td { (rate.map_or("–".into(), |rate| show_rate(unit, rate))) }
            td { @if let Some((bound, rate)) = bound { (format!("{:.1} %", rate / bound.rate * 100.0)) } }
            @for us in m.latency_us { td { (time(us)) } }
        }
    }
}

fn time(us: f64) -> String {
    match us {
        us if us < 1e3 => format!("{} µs", significant(us)),
        us if us < 1e6 => format!("{} ms", significant(us / 1e3)),
        us => format!("{} s", significant(us / 1e6)),
    }
}
