//! `heorot bench` and `heorot model` run another program, `heorot-bench`: a server's machine needs neither
//! its NFS client nor its fonts.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use clap::{Args, CommandFactory};
use command_line::Failure;
use command_line::description::Description;

use crate::cli::Cli;

const PROGRAM: &str = "heorot-bench";
/// Commands that heorot-bench executes.
const COMMANDS: [&str; 2] = ["bench", "model"];

/// Arguments of `heorot bench` and `heorot model`, which heorot-bench reads.
#[derive(Debug, Args)]
pub(crate) struct BenchProgramArgs {
    /// As heorot-bench takes them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

/// Replaces this process by heorot-bench, with the same arguments. Returns only on failure.
pub(crate) fn become_it() -> Failure {
    let failures = programs().map(|program| Command::new(program).args(std::env::args_os().skip(1)).exec());
    match failures.into_iter().find(|failure| failure.kind() != ErrorKind::NotFound) {
        Some(failure) => Failure::new(format!("start {PROGRAM}: {failure}")),
        None => Failure::new(absent()),
    }
}

/// True if the command line requests the help of a command of heorot-bench: `heorot help bench io500`.
pub(crate) fn is_asked_for_help() -> bool {
    let words: Vec<_> = std::env::args_os().skip(1).filter(|word| word != "--log-json").take(2).collect();
    matches!(&words[..], [help, command] if help == "help" && COMMANDS.iter().any(|name| command == name))
}

/// Command line of this program, including the commands of heorot-bench.
///
/// # Errors
/// If heorot-bench exists and does not describe its commands.
pub(crate) fn whole_command_line() -> Result<clap::Command, Failure> {
    let mut whole = Cli::command();
    let asked = programs().map(|program| Command::new(program).arg("describe").output());
    let failed = |why: String| Failure::new(format!("ask {PROGRAM} for its command line: {why}"));
    let output =
        match asked.into_iter().find(|asked| !matches!(asked, Err(e) if e.kind() == ErrorKind::NotFound)) {
            Some(output) => output.map_err(|e| failed(e.to_string()))?,
            None => {
                eprintln!("heorot: without the options of heorot bench and heorot model: {}", absent());
                return Ok(whole);
            }
        };
    let description: Description = serde_json::from_slice(&output.stdout)
        .map_err(|e| failed(format!("{e}: build both from the same source")))?;
    let mut described = description.into_commands();
    for name in COMMANDS {
        if let Some(description) = described.remove(name) {
            whole = whole.mut_subcommand(name, |_| description.into_command());
        }
    }
    Ok(whole)
}

/// Paths of heorot-bench: beside this program, then on PATH.
fn programs() -> [PathBuf; 2] {
    let beside = std::env::current_exe().map(|program| program.with_file_name(PROGRAM));
    [beside.unwrap_or_else(|_| PROGRAM.into()), PROGRAM.into()]
}

fn absent() -> String {
    format!(
        "{PROGRAM} is neither beside this program nor on PATH: install the package {PROGRAM}, or build it with cargo build \
         --release --bin {PROGRAM}"
    )
}
