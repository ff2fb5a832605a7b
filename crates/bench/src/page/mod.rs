//! HTML page of files of results: tables as in the papers, plots, bounds, several systems side by side, and
//! the machines with their settings.
//!
//! In: files of `heorot bench`, possibly forged: their texts are untrusted. Out: a page without scripts and
//! external resources, to read, print, and share. `table` arranges the measurements, `chart` draws them,
//! `html` lays out the page.

mod chart;
mod html;
mod read;
mod table;

use std::fs;
use std::path::PathBuf;

use clap::Args;

pub use read::Source;

use crate::plot;

/// Options of `heorot bench report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Results, as heorot bench wrote them with --output; those of one system are taken together
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// The page
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
    /// Each plot of it there, too, as an SVG file of its own
    #[arg(long, value_name = "FOLDER")]
    pub plots: Option<PathBuf>,
}

/// Writes the page, and the plots if requested.
///
/// # Errors
/// One line with the file and its fault.
pub fn report(args: &ReportArgs) -> Result<(), String> {
    let sources = args.files.iter().map(|file| Source::read(file)).collect::<Result<Vec<_>, _>>()?;
    fs::write(&args.output, page(&sources)).map_err(|e| format!("write {}: {e}", args.output.display()))?;
    if let Some(folder) = &args.plots {
        fs::create_dir_all(folder).map_err(|e| format!("make {}: {e}", folder.display()))?;
        for (name, svg) in plots(&sources) {
            let file = folder.join(format!("{name}.svg"));
            fs::write(&file, svg).map_err(|e| format!("write {}: {e}", file.display()))?;
        }
    }
    Ok(())
}

/// Plots of some files: SVGs, each with a name of letters, digits and dashes.
fn plots(sources: &[Source]) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for section in table::sections(sources) {
        for plot in section.tables.iter().flat_map(|table| chart::plots(&section, table)) {
            let words = format!("{} {}", section.run, plot.title).to_lowercase();
            let words = words.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
            all.push((words.collect::<Vec<_>>().join("-"), plot::file(&plot)));
        }
    }
    all
}

/// Page of some files.
#[must_use]
pub fn page(sources: &[Source]) -> String {
    html::page(sources).into_string()
}

#[cfg(test)]
mod tests;
