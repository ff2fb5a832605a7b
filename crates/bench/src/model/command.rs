//! `heorot model`.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::advice::to_double;
use super::args::{HardwareArgs, LoadArgs};
use super::draw;
use super::setup::{Hardware, Load, Setup};
use super::solve::Solution;
use super::sweep::{Point, Sweep, points};
use super::text;
use crate::plot;

/// Options of `heorot model`.
#[derive(Debug, Args)]
#[command(allow_negative_numbers = true)] // so that -1 is refused as a value, not as an option
pub struct ModelArgs {
    #[command(flatten)]
    hardware: HardwareArgs,
    #[command(flatten)]
    load: LoadArgs,
    /// D: how much is moved in all, for T
    #[arg(long, value_name = "SIZE", value_parser = host::size::parse, default_value = "1GiB", help_heading = "Load")]
    data: u64,
    /// Any of the options above through a range: clients=1..1000, clients=1..1024x2,
    /// disk=100MB/s..1GB/s+100MB/s, data-servers=4,8,12; twice for two of them
    #[arg(long, value_name = "OPTION=RANGE", help_heading = "Sweep")]
    sweep: Vec<Sweep>,
    /// As JSON, for programs: bytes and seconds
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// All points of the sweep, as CSV
    #[arg(long, value_name = "FILE", requires = "sweep", help_heading = "Output")]
    csv: Option<PathBuf>,
    /// A plot of the sweep; the colour says which term binds
    #[arg(long, value_name = "FILE", requires = "sweep", help_heading = "Output")]
    svg: Option<PathBuf>,
    /// The same as PNG
    #[arg(long, value_name = "FILE", requires = "sweep", help_heading = "Output")]
    png: Option<PathBuf>,
}

/// Output of `heorot model`; also writes the requested files.
///
/// # Errors
/// One line about an invalid option or a file error.
pub fn model(args: &ModelArgs) -> Result<String, String> {
    if args.data == 0 {
        return Err("--data must be at least 1 byte".into());
    }
    let (hardware, load) = (args.hardware.hardware(), args.load.load());
    if args.sweep.is_empty() {
        let setup = Setup::new(hardware, load).map_err(|refused| refused.to_string())?;
        let json = || solved(&setup, &Solution::of(&setup), args.data);
        return Ok(if args.json { lines(&json()) } else { text::answer(&setup, args.data) });
    }
    let points = points(&hardware, &load, &args.sweep)?;
    write_files(args, &hardware, &load, &points)?;
    if args.json {
        return Ok(lines(
            &points.iter().map(|point| solved(&point.setup, &point.solution, args.data)).collect(),
        ));
    }
    Ok(text::table(&args.sweep, &points, args.data))
}

fn write_files(args: &ModelArgs, hardware: &Hardware, load: &Load, points: &[Point]) -> Result<(), String> {
    let write = |file: &Path, bytes: &[u8]| {
        fs::write(file, bytes).map_err(|e| format!("write {}: {e}", file.display()))
    };
    if let Some(file) = &args.csv {
        write(file, text::csv(&args.sweep, points, args.data).as_bytes())?;
    }
    if args.svg.is_none() && args.png.is_none() {
        return Ok(());
    }
    let (title, subtitle) = text::titles(&points[0].setup, &args.sweep);
    let drawn = draw::plot((&title, &subtitle), hardware, load, &args.sweep)?;
    if let Some(file) = &args.svg {
        write(file, plot::file(&drawn).as_bytes())?;
    }
    if let Some(file) = &args.png {
        let bytes = plot::png(&drawn).map_err(|e| format!("draw {}: {e}", file.display()))?;
        write(file, &bytes)?;
    }
    Ok(())
}

fn lines(value: &Value) -> String {
    format!("{value:#}\n")
}

fn solved(setup: &Setup, solution: &Solution, bytes: u64) -> Value {
    let needs = to_double(setup);
    json!({
        "setup": setup,
        "bytes": bytes,
        "t_seconds": solution.seconds(bytes),
        "s_bytes_per_second": solution.rate(),
        "binds": solution.binds(),
        "terms": solution.terms,
        "to_double": needs.iter().map(|need| json!({
            "resource": need.resource,
            "factor": need.factor,
            "any_of": need.ways,
        })).collect::<Vec<_>>(),
    })
}
