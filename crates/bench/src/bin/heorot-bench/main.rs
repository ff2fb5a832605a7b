//! `heorot-bench`: measures file systems, and computes bounds of hardware, for `heorot bench` and `heorot
//! model`.
//!
//! In: the arguments of `heorot`, unchanged. Out: results, tables and pages. It is a separate program so that
//! the servers' program contains neither an NFS client nor fonts.

mod cli;
mod interrupt;
mod progress;
mod run;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use command_line::description::Description;
use command_line::{Failure, limits, logging, usage};

use crate::cli::{Cli, Command};

/// Default log filter: without nfs-rs, because the failure's line has each of its errors.
const LOG: &str = "info,nfs_rs=off";

fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| usage::exit(&error));
    logging::start(cli.log_json, None, LOG);
    limits::raise_open_files();
    let outcome = match cli.command {
        Command::Bench(command) => run::bench(&command),
        Command::Model(args) => bench::model::model(&args).map(|text| print!("{text}")).map_err(Failure::new),
        Command::Describe => describe(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("heorot: {failure}");
            failure.code().into()
        }
    }
}

/// Prints a description of the commands for `heorot`.
fn describe() -> Result<(), Failure> {
    println!("{}", serde_json::to_string(&Description::of(&Cli::command()))?);
    Ok(())
}
