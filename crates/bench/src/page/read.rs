//! Reader of a file of results, which is untrusted.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::result::{Results, SCHEMA};

/// Maximal length of a file, a thousand times that of a long run; a longer file is a wrong file.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Content of a file of results.
#[derive(Debug, Clone)]
pub struct Source {
    /// File name without folders.
    pub file: String,
    /// The results.
    pub results: Results,
}

/// Schema number, read first: other versions may have other fields.
#[derive(Deserialize)]
struct Version {
    schema: u64,
}

impl Source {
    /// Reads a file.
    ///
    /// # Errors
    /// One line with the file and its fault.
    pub fn read(path: &Path) -> Result<Self, String> {
        let mut text = Vec::new();
        let read = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text));
        read.map_err(|e| format!("read {}: {e}", path.display()))?;
        let file = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let results = parse(&text).map_err(|why| format!("{}: {why}", path.display()))?;
        Ok(Self { file, results })
    }
}

fn parse(text: &[u8]) -> Result<Results, String> {
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("larger than {} MiB: not a file of results", FILE_BYTES_MAX >> 20));
    }
    if text.trim_ascii().is_empty() {
        return Err("empty: the run that should have written it did not end".into());
    }
    serde_json::from_slice::<IgnoredAny>(text)
        .map_err(|e| format!("not a file of results: it is not JSON ({e})"))?;
    let Version { schema } = serde_json::from_slice(text)
        .map_err(|_| "JSON, but not results of heorot bench: it has no schema number".to_string())?;
    if schema != u64::from(SCHEMA) {
        return Err(format!(
            "results of schema {schema}; this program reads schema {SCHEMA}: use the version that wrote it"
        ));
    }
    serde_json::from_slice(text).map_err(|e| format!("results that are damaged or altered ({e})"))
}
