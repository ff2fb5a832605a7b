//! Checks of the command lines in README.md and docs/, for the tests of each program.

use std::path::{Path, PathBuf};

use clap::Parser;
use clap::error::ErrorKind;

#[path = "../../../tests/src/documents.rs"]
mod documents;

pub use documents::Shown;

/// Placeholders in documents, each with an example.
const META: [(&str, &str); 17] = [
    ("ADDR", "10.0.0.1"),
    ("ADDRESS", "10.0.0.100"),
    ("COPY", "admin-token"),
    ("DIR", "/srv/heorot"),
    ("FILE", "file"),
    ("FILES", "file"),
    ("FOLDER", "folder"),
    ("ID", "0123456789abcdef"),
    ("KEY", "lease"),
    ("NAME", "elm"),
    ("NETWORK", "10.0.0.0/8"),
    ("RUN", "record-size"),
    ("SECRET", "secret"),
    ("TOKEN", "elm.token"),
    ("VALUE", "20s"),
    ("{clients}", "8"),
    ("{address}", "10.0.0.1"),
];

/// Fault of a command line in a document, by the parser `P`; `None` without a fault.
#[must_use]
pub fn fault<P: Parser>(shown: &Shown) -> Option<String> {
    let words = shown.line.split(' ').take_while(|word| !word.starts_with(['>', '<']) && *word != "…");
    let mut lines = vec![Vec::new()];
    for word in words {
        let word = word.trim_matches('"');
        let optional = word.strip_prefix('[').and_then(|word| word.strip_suffix(']'));
        let mut next = if optional.is_some() { lines.clone() } else { vec![] };
        for choice in optional.unwrap_or(word).split('|') {
            match meant(choice) {
                Ok(choice) => {
                    next.extend(
                        lines
                            .iter()
                            .map(|line: &Vec<String>| [&line[..], std::slice::from_ref(&choice)].concat()),
                    );
                }
                Err(why) => return Some(why),
            }
        }
        lines = next;
    }
    let is_mention = !shown.is_block || shown.line.contains('|');
    lines.iter().find_map(|line| match P::try_parse_from(line) {
        Ok(_) => None,
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => None,
            ErrorKind::MissingRequiredArgument
            | ErrorKind::MissingSubcommand
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            | ErrorKind::InvalidValue
                if is_mention && (error.kind() != ErrorKind::InvalidValue || lacks_its_value(&error)) =>
            {
                None
            }
            _ => Some(error.to_string()),
        },
    })
}

/// Whether an option is mentioned without its value, as in `heorot files --on`.
fn lacks_its_value(error: &clap::Error) -> bool {
    error.to_string().contains("a value is required")
}

fn meant(word: &str) -> Result<String, String> {
    if let Some((_, meant)) = META.iter().find(|(meta, _)| *meta == word) {
        return Ok((*meant).to_owned());
    }
    let is_meta = word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    if is_meta { Err(format!("{word} stands for nothing that this test knows")) } else { Ok(word.to_owned()) }
}

/// Command lines in the documents of this repository that begin with `program`, with their documents.
///
/// # Panics
/// If a document cannot be read.
#[must_use]
pub fn commands(program: &str) -> Vec<(PathBuf, Shown)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = vec![];
    for file in documents::all(&root) {
        let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        found.extend(documents::commands(&text, program).into_iter().map(|shown| (file.clone(), shown)));
    }
    found
}
