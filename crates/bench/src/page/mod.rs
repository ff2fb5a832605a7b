//! Files of results as one HTML page: tables as the papers have them, plots, each figure beside its bound, several
//! systems side by side, and on which machines with which settings.
//!
//! In: files that `heorot bench` wrote, or that somebody says it wrote: their texts are shown, never obeyed. Out: a page
//! that loads nothing and runs nothing, to be looked at, printed, and passed on. `table` arranges the measurements,
//! `chart` draws them, `html` lays both out.

mod chart;
mod html;
mod read;
mod table;

use std::fs;
use std::path::PathBuf;

use clap::Args;

pub use read::Source;

/// Options of `heorot bench report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Results, as heorot bench wrote them with --output; those of one system are taken together
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// The page
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
}

/// Writes the page.
///
/// # Errors
/// A line that says what is wrong with which file.
pub fn report(args: &ReportArgs) -> Result<(), String> {
    let sources = args.files.iter().map(|file| Source::read(file)).collect::<Result<Vec<_>, _>>()?;
    fs::write(&args.output, page(&sources)).map_err(|e| format!("write {}: {e}", args.output.display()))
}

/// The page of some files.
#[must_use]
pub fn page(sources: &[Source]) -> String {
    html::page(sources).into_string()
}

#[cfg(test)]
mod tests;
