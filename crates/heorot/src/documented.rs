//! Every `heorot …` in README.md and docs/ is a command that this program has.

use std::path::Path;

use clap::Parser;
use clap::error::ErrorKind;

use crate::cli::Cli;

#[path = "../../../tests/src/documents.rs"]
mod documents;

/// Words that stand for something in documents, each with something that it may stand for.
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

/// What is wrong with a command that a document shows.
fn wrong(shown: &documents::Shown) -> Option<String> {
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
    lines.iter().find_map(|line| match Cli::try_parse_from(line) {
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

/// `heorot files --on`: an option that is mentioned without its value.
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

#[test]
fn every_command_in_the_documents_is_one_that_this_program_has() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (mut count, mut faults) = (0, vec![]);
    for file in documents::all(&root) {
        let text = std::fs::read_to_string(&file).unwrap();
        for shown in documents::commands(&text, "heorot") {
            count += 1;
            let fault = wrong(&shown).map(|why| format!("{}: `{}`: {why}", file.display(), shown.line));
            faults.extend(fault);
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(count > 150, "{count} commands: they are looked for in the wrong place");
}

#[test]
fn a_command_that_is_one_letter_off_is_found() {
    let is_wrong = |line: &str, is_block: bool| {
        wrong(&documents::Shown { section: String::new(), line: line.to_owned(), is_block }).is_some()
    };
    for line in [
        "heorot stauts",
        "heorot node drian elm",
        "heorot node list|drian",
        "heorot files --at elm",
        "heorot join --token-file FILE ADR",
        "heorot set lease 20s 30s",
        "heorot get [KEY] more",
    ] {
        assert!(is_wrong(line, false) && is_wrong(line, true), "{line}");
    }
    for line in ["heorot node remove", "heorot files --on", "heorot stripe set"] {
        assert!(!is_wrong(line, false), "a mention: {line}");
        assert!(is_wrong(line, true), "to be typed as it is: {line}");
    }
    for line in
        ["heorot status --json", "heorot export list|add", "heorot get [KEY]", "heorot files --on elm > lost"]
    {
        assert!(!is_wrong(line, false) && !is_wrong(line, true), "{line}");
    }
}
