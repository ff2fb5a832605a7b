//! File of results, created before the run, so that a long run does not end with a failed write.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::result::Results;
use crate::trouble::Trouble;

/// Output file, if any.
pub struct Output(Option<ResultsFile>);

struct ResultsFile {
    path: PathBuf,
    file: File,
    /// True if this run created the file: without results, drop removes it.
    is_new: bool,
}

impl Output {
    /// Creates the file, or opens the existing one, which keeps its content until there are results.
    ///
    /// # Errors
    /// When that fails.
    pub fn open(path: Option<&Path>) -> Result<Self, Trouble> {
        let open = |path: &Path| {
            let is_new = !path.exists();
            let file = File::options().write(true).create(true).truncate(false).open(path);
            let file = file.map_err(|e| failed(path, &e))?;
            Ok(ResultsFile { path: path.to_owned(), file, is_new })
        };
        path.map(open).transpose().map(Self)
    }

    /// Writes the results.
    ///
    /// # Errors
    /// When that fails.
    pub fn write(&mut self, results: &Results) -> Result<(), Trouble> {
        let Some(ResultsFile { path, file, is_new }) = &mut self.0 else { return Ok(()) };
        let text = serde_json::to_string_pretty(results).map_err(|e| failed(path, &e.into()))?;
        // A terminal or a pipe cannot be truncated.
        if path.is_file() {
            file.set_len(0).map_err(|e| failed(path, &e))?;
        }
        writeln!(file, "{text}").map_err(|e| failed(path, &e))?;
        *is_new = false;
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(ResultsFile { path, is_new: true, .. }) = &self.0 {
            let _ = fs::remove_file(path);
        }
    }
}

fn failed(path: &Path, error: &io::Error) -> Trouble {
    Trouble(format!("write the results to {}: {error}: choose another --output", path.display()))
}
