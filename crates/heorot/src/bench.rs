//! `heorot bench`: measures a file system.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use bench::phase::Phase;
use bench::result::Measurement;
use bench::run::Run;
use bench::session::{self, Watcher};
use bench::table;
use bench::target::Mounted;
use bench::team::Local;
use bench::work::Progress;

use crate::cli::BenchCommand;
use crate::failure::Failure;

/// `heorot bench`.
pub(crate) fn bench(command: &BenchCommand) -> Result<(), Failure> {
    match command {
        BenchCommand::Run(one) => run(one),
        BenchCommand::Report(args) => bench::page::report(args).map_err(Failure::new),
    }
}

fn run(run: &Run) -> Result<(), Failure> {
    let (name, target, common, plan) = run.parts();
    let target = Arc::new(Mounted::open(Path::new(target), common.not_a_mount)?);
    let mut team = Local::new(target);
    let (results, trouble) = session::conduct(name, plan, common, &mut team, &mut Lines)?;
    print!("{}", table::scores(&results.scores));
    if let Some(file) = &common.output {
        let text = serde_json::to_string_pretty(&results)?;
        fs::write(file, text + "\n")
            .map_err(|e| Failure::new(format!("write the results to {}: {e}", file.display())))?;
    }
    trouble.map_or(Ok(()), |trouble| Err(trouble.into()))
}

/// Prints a line for each measurement.
struct Lines;

impl Watcher for Lines {
    fn begins(&mut self, _phase: &Phase) {}

    fn goes_on(&mut self, _progress: Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn ended(&mut self, measurement: Option<&Measurement>) {
        if let Some(measurement) = measurement {
            println!("{}", table::line(measurement));
        }
    }
}
