//! Plot of a sweep: S over the swept parameter, each part of the curve in the colour of the binding term.

use super::parameter::{Kind, Value};
use super::quantity::{CpuCost, Rate, scaled, significant};
use super::setup::{Hardware, Load};
use super::solve::Resource;
use super::sweep::{Point, Sweep, points};
use crate::plot::{Axis, Curve, Key, Line, Mark, Piece, Plot};

/// Maximal number of curves that a reader can distinguish.
const CURVES_MAX: usize = 8;

/// Maximal number of points with marks.
const MARKS_MAX: usize = 32;

/// Number of computed points, one for every two pixels, so that a bend is drawn at its place and not at the
/// next requested value.
const DENSE: u32 = 300;

/// Plot of one sweep, or of two: a curve for each value of the second.
///
/// # Errors
/// One line with the reason for no plot.
pub fn plot(
    (title, subtitle): (&str, &str),
    hardware: &Hardware,
    load: &Load,
    sweeps: &[Sweep],
) -> Result<Plot, String> {
    let (x, series) = match sweeps {
        [x] => (x, None),
        [x, series] => (x, Some(series)),
        _ => return Err("a plot shows one or two sweeps".into()),
    };
    if x.values.len() < 2 {
        return Err(format!("a plot needs more than one value of {}", x.parameter));
    }
    let names: Vec<Option<Value>> =
        series.map_or(vec![None], |s| s.values.iter().copied().map(Some).collect());
    if names.len() > CURVES_MAX {
        return Err(format!("a plot of {} curves; {CURVES_MAX} are the most", names.len()));
    }
    let (mut curves, mut drawn) = (Vec::new(), Vec::new());
    for name in names {
        let (mut hardware, mut load) = (*hardware, *load);
        if let (Some(series), Some(value)) = (series, name) {
            series.parameter.set(value, &mut hardware, &mut load);
        }
        let dense = Sweep { parameter: x.parameter, values: dense(x) };
        let line = points(&hardware, &load, &[dense])?;
        let marks = if x.values.len() <= MARKS_MAX {
            points(&hardware, &load, std::slice::from_ref(x))?
        } else {
            vec![]
        };
        curves.push(Curve {
            pieces: pieces(&line),
            marks: marks.iter().map(|point| mark(point, name)).collect(),
            line: Line::Solid,
            label: series.zip(name).map(|(series, value)| format!("{} {value}", series.parameter)),
        });
        drawn.extend(line);
    }
    let unit = match x.parameter.kind() {
        Kind::Count => "",
        Kind::Rate => " (bytes/s)",
        Kind::Cost => " (CPU-seconds for a GiB)",
    };
    let across = Axis::within(&format!("{}{unit}", x.parameter), drawn.iter().map(value), |v| tick(x, v));
    let rates = drawn.iter().map(|point| point.solution.rate());
    Ok(Plot {
        title: title.into(),
        subtitle: subtitle.into(),
        y: Axis::over_as(&across, "throughput S (bytes/s)", rates, rate),
        x: across,
        curves,
        legend: legend(&drawn),
    })
}

fn value(point: &Point) -> f64 {
    point.at.last().map_or(0.0, |(_, value)| value.number())
}

fn rate(value: f64) -> String {
    if value == 0.0 { "0".into() } else { scaled(value, "B/s") }
}

fn tick(x: &Sweep, value: f64) -> String {
    match x.parameter.kind() {
        Kind::Count => significant(value),
        Kind::Rate => rate(value),
        Kind::Cost => significant(value * 1_073_741_824.0),
    }
}

/// All values of a range of counts, or enough for a smooth curve.
fn dense(sweep: &Sweep) -> Vec<Value> {
    let numbers = || sweep.values.iter().map(|value| value.number());
    let (least, greatest) = (numbers().fold(f64::INFINITY, f64::min), numbers().fold(0.0, f64::max));
    let between = |i: u32| least * (greatest / least).powf(f64::from(i) / f64::from(DENSE));
    let mut values: Vec<f64> = (1..DENSE).map(between).chain(numbers()).collect();
    let kind = sweep.parameter.kind();
    if kind == Kind::Count {
        values.iter_mut().for_each(|value| *value = value.round());
        // Add values at equal differences to those at equal ratios, for bends between two of them.
        let step = ((greatest - least) / f64::from(DENSE)).ceil().max(1.0);
        values.extend((0..=DENSE).map(|i| (least + f64::from(i) * step).min(greatest)));
    }
    values.sort_by(f64::total_cmp);
    values.dedup();
    let value = |number| match kind {
        Kind::Count => Some(Value::Count(number as u64)),
        Kind::Rate => Rate::new(number).ok().map(Value::Rate),
        Kind::Cost => CpuCost::new(number).ok().map(Value::Cost),
    };
    values.into_iter().filter_map(value).collect()
}

/// Splits a curve where the binding term changes.
fn pieces(line: &[Point]) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for pair in line.windows(2) {
        let at = |point: &Point| (value(point), point.solution.rate());
        // At a point with two binding terms, use the colour of the term that binds next.
        let colour = colour(pair[1].solution.binds());
        match pieces.last_mut() {
            Some(piece) if piece.colour == colour => piece.points.push(at(&pair[1])),
            _ => pieces.push(Piece { colour, points: pair.iter().map(at).collect() }),
        }
    }
    pieces
}

fn mark(point: &Point, name: Option<Value>) -> Mark {
    let at = point.at.last().map_or(String::new(), |(parameter, value)| format!("{parameter} {value}"));
    let name = name.map_or(String::new(), |value| format!(" ({value})"));
    let (rate, binds) = (point.solution.rate(), point.solution.binds());
    let says = format!("{at}{name}: {}, {binds}", scaled(rate, "B/s"));
    Mark { colour: colour(binds), at: (value(point), rate), says }
}

fn legend(drawn: &[Point]) -> Vec<Key> {
    let binding = |resource: &Resource| drawn.iter().any(|point| point.solution.binds() == *resource);
    let key = |resource: Resource| {
        let verb = if resource.to_string().ends_with('s') { "bind" } else { "binds" };
        Key { colour: colour(resource), line: Line::Solid, text: format!("{resource} {verb}") }
    };
    Resource::ALL.into_iter().filter(binding).map(key).collect()
}

fn colour(resource: Resource) -> usize {
    match resource {
        Resource::ClientLinks => 0,
        Resource::ServerLinks => 1,
        Resource::Disks => 2,
        Resource::ClientCpu => 3,
        Resource::Uplink => 4,
        Resource::Switch => 5,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::model::args::{HardwareArgs, LoadArgs};
    use crate::plot;

    #[derive(Parser)]
    struct Options {
        #[command(flatten)]
        hardware: HardwareArgs,
        #[command(flatten)]
        load: LoadArgs,
    }

    fn drawn(options: &str, sweeps: &[&str]) -> Result<Plot, String> {
        let options = Options::parse_from(["model"].into_iter().chain(options.split(' ')));
        let sweeps: Vec<Sweep> = sweeps.iter().map(|sweep| sweep.parse().unwrap()).collect();
        super::plot(("a < b", "c"), &options.hardware.hardware(), &options.load.load(), &sweeps)
    }

    #[test]
    fn the_curve_changes_its_colour_where_another_term_binds() {
        let plot = drawn("--data-servers 12 --link 100Mbit/s", &["clients=1..1024x2"]).unwrap();
        let pieces = &plot.curves[0].pieces;
        let colours: Vec<usize> = pieces.iter().map(|piece| piece.colour).collect();
        assert_eq!(colours, [colour(Resource::ClientLinks), colour(Resource::ServerLinks)]);
        // The bend is at twelve clients, although the sweep has 8 and 16.
        assert_eq!(pieces[0].points.last(), Some(&(12.0, 150e6)));
        assert_eq!(pieces[1].points[0], (12.0, 150e6));
        assert_eq!(plot.curves[0].marks.len(), 11);
        let texts: Vec<&str> = plot.legend.iter().map(|key| key.text.as_str()).collect();
        assert_eq!(texts, ["client links bind", "server links bind"]);
    }

    #[test]
    fn two_sweeps_are_a_curve_for_each_value_of_the_second() {
        let plot = drawn("--link 1Gbit/s --disk 300MB/s", &["clients=1..32", "data-servers=2,4,8"]).unwrap();
        let labels: Vec<_> = plot.curves.iter().filter_map(|curve| curve.label.as_deref()).collect();
        assert_eq!(labels, ["data-servers 2", "data-servers 4", "data-servers 8"]);
        let many = drawn("--link 1Gbit/s", &["clients=1..32", "data-servers=1..9"]).unwrap_err();
        assert_eq!(many, "a plot of 9 curves; 8 are the most");
        assert!(drawn("--link 1Gbit/s", &["clients=7"]).unwrap_err().contains("more than one value"));
    }

    #[test]
    fn the_files_are_well_formed_and_the_picture_has_the_colours_of_the_terms() {
        let drawn = drawn("--data-servers 12 --link 100Mbit/s", &["clients=1..100"]).unwrap();
        let svg = plot::file(&drawn);
        let tree = resvg::usvg::roxmltree::Document::parse(&svg).unwrap();
        let texts: Vec<_> =
            tree.descendants().filter(|n| n.has_tag_name("text")).filter_map(|n| n.text()).collect();
        for text in ["a < b", "clients", "throughput S (bytes/s)", "50 MB/s", "server links bind"] {
            assert!(texts.contains(&text), "{text} in {texts:?}");
        }
        let png = plot::png(&drawn).unwrap();
        let picture = resvg::tiny_skia::Pixmap::decode_png(&png).unwrap();
        let has = |rgb: [u8; 3]| picture.pixels().iter().any(|p| [p.red(), p.green(), p.blue()] == rgb);
        assert!(has([0x00, 0x69, 0xb4]) && has([0xd0, 0x50, 0x00]), "both curves");
        assert!(!has([0xa8, 0x3c, 0x84]), "no curve of client CPU");
        assert!(has([0x22, 0x22, 0x22]), "letters of the built-in font");
    }
}
