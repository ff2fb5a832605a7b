//! Document with command lines to run: it records which ones were run.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;

use tests::documents::{self, Shown};

/// One document.
pub struct Book {
    commands: Vec<Shown>,
    run: RefCell<BTreeSet<(String, String)>>,
    /// Words of the document, and their replacements in the lab.
    words: Vec<(String, String)>,
}

impl Book {
    /// Opens the document `file` of this repository: commands of its code blocks, and with `with_text` those
    /// of its text.
    pub fn open(file: &str, with_text: bool, words: Vec<(String, String)>) -> Book {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let all = documents::commands(&text, "heorot");
        // `heorot run` in a sentence refers to a block of its section.
        let counts = |shown: &Shown| shown.is_block || (with_text && shown.line != "heorot run");
        let commands: Vec<Shown> = all.into_iter().filter(counts).collect();
        assert!(!commands.is_empty(), "{file} has no commands");
        Book { commands, run: RefCell::default(), words }
    }

    /// Command line of a section, as typed in the lab; it counts as run.
    #[track_caller]
    pub fn line(&self, section: &str, line: &str) -> String {
        let is_there = self.commands.iter().any(|shown| shown.section == section && shown.line == line);
        assert!(is_there, "the document has no {line:?} in {section:?}: {:#?}", self.commands);
        self.run.borrow_mut().insert((section.to_owned(), line.to_owned()));
        let meant = |word: &str| {
            let known = self.words.iter().find(|(shown, _)| shown == word);
            known.map_or_else(|| word.to_owned(), |(_, meant)| meant.clone())
        };
        let words: Vec<String> = line.split(' ').map(meant).collect();
        words.join(" ")
    }

    /// Checks that every command of these sections was run; of all sections, if none is given.
    #[track_caller]
    pub fn was_run(&self, sections: &[&str]) {
        let run = self.run.borrow();
        let counts = |shown: &&Shown| sections.is_empty() || sections.contains(&shown.section.as_str());
        let left: Vec<&Shown> = self
            .commands
            .iter()
            .filter(counts)
            .filter(|shown| !run.contains(&(shown.section.clone(), shown.line.clone())))
            .collect();
        assert!(left.is_empty(), "no test has run {left:#?}");
    }
}
