//! Test: every `heorot …` in README.md and docs/ is a command of this program; heorot-bench checks those of
//! `heorot bench` and `heorot model`.

use command_line::documented::{Shown, commands, fault};

use crate::cli::Cli;

#[test]
fn every_command_in_the_documents_is_one_that_this_program_has() {
    let commands = commands("heorot");
    let faults = commands.iter().filter_map(|(file, shown)| {
        fault::<Cli>(shown).map(|why| format!("{}: `{}`: {why}", file.display(), shown.line))
    });
    let faults: Vec<_> = faults.collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(commands.len() > 150, "{} commands: they are looked for in the wrong place", commands.len());
}

#[test]
fn a_command_that_is_one_letter_off_is_found() {
    let is_wrong = |line: &str, is_block: bool| {
        fault::<Cli>(&Shown { section: String::new(), line: line.to_owned(), is_block }).is_some()
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
