//! Whole runs on a file system in memory: measurements, remaining files, and early ends.

mod bounds;
mod data_runs;
mod memory;
mod stonewall;
mod trouble;

use std::ops::ControlFlow;
use std::sync::Arc;

use bench::phase::Phase;
use bench::result::{Measurement, Results};
use bench::run::Run;
use bench::session::{self, Watcher};
use bench::team::Local;
use bench::trouble::Trouble;
use bench::work::Progress;
use clap::Parser;

use crate::memory::Memory;

#[derive(Parser)]
struct Line {
    #[command(subcommand)]
    run: Run,
}

/// Watcher that ends the run after some measurements.
struct Patience {
    measurements: usize,
}

impl Watcher for Patience {
    fn begins(&mut self, _phase: &Phase) {}

    fn goes_on(&mut self, _progress: Progress) -> ControlFlow<()> {
        if self.measurements == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn ended(&mut self, measurement: Option<&Measurement>) {
        self.measurements = self.measurements.saturating_sub(usize::from(measurement.is_some()));
    }
}

/// Executes the command line `heorot bench LINE`.
fn conduct(memory: &Memory, line: &str) -> Result<(Results, Option<Trouble>), Trouble> {
    conduct_until(memory, line, usize::MAX)
}

fn conduct_until(
    memory: &Memory,
    line: &str,
    measurements: usize,
) -> Result<(Results, Option<Trouble>), Trouble> {
    let line = Line::try_parse_from(format!("bench {line}").split_whitespace()).expect("a good command line");
    let (name, _, common, plan) = line.run.parts();
    let mut team = Local::new(Arc::new(memory.clone()));
    session::conduct(name, plan, common, &mut team, &mut Patience { measurements })
}

/// Results of a run without an early end.
#[track_caller]
fn measured(memory: &Memory, line: &str) -> Results {
    let (results, trouble) = conduct(memory, line).expect("it begins");
    assert_eq!((trouble, results.partial), (None, false));
    assert_eq!(memory.names(), [""; 0], "nothing is left");
    results
}
