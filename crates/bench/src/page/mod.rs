//! Files of results as one HTML page: tables as the papers have them, plots, each figure beside its bound,
//! several systems side by side, and on which machines with which settings.
//!
//! In: files that `heorot bench` wrote, or that somebody says it wrote: their texts are shown, never obeyed.
//! Out: a page that loads nothing and runs nothing, to be looked at, printed, and passed on. `table` arranges
//! the measurements, `chart` draws them, `html` lays both out.

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

/// Writes the page, and the plots if they were asked for.
///
/// # Errors
/// A line that says what is wrong with which file.
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

/// The plots of some files: a name for each, of letters, digits and dashes, and the SVG.
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

/// The page of some files.
#[must_use]
pub fn page(sources: &[Source]) -> String {
    html::page(sources).into_string()
}

#[cfg(test)]
mod tests;
