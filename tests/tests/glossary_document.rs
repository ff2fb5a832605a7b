//! docs/glossary.md: each module and type in its tables is in the tree, and no two concepts have one name.
//! ARCHITECTURE.md and CONTRIBUTING.md mention only existing files and modules.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Keywords before the name of an item.
const KEYWORDS: [&str; 7] = ["struct", "enum", "trait", "type", "const", "static", "fn"];

#[test]
fn every_module_and_type_that_the_glossary_names_exists() {
    let document = glossary();
    let missing: Vec<&str> = rows(&document).flat_map(|row| places(row[3])).filter(|p| !exists(p)).collect();
    assert!(
        missing.is_empty(),
        "docs/glossary.md names what is not in the tree (moved or renamed? then correct its last column): {missing:?}"
    );
    for row in rows(&document) {
        assert!(places(row[3]).next().is_some(), "a row without a place: {row:?}");
    }
}

#[test]
fn every_place_that_leads_into_the_sources_exists() {
    for name in ["ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let document = document(name);
        let missing: Vec<&str> = places(&document).filter(|place| leads_nowhere(place)).collect();
        assert!(missing.is_empty(), "{name} names what is not in the tree: {missing:?}");
    }
}

#[test]
fn every_concept_has_a_name_of_its_own() {
    let document = glossary();
    let mut names = BTreeSet::new();
    for row in rows(&document) {
        assert!(names.insert(row[1]), "{:?} has two meanings", row[1]);
    }
    assert!(names.len() > 100, "{} rows: they are looked for in the wrong place", names.len());
}

#[test]
fn places_that_there_are_are_told_from_those_that_there_are_not() {
    for place in ["wire", "wire::xdr", "wire::rpc::record", "wire::handle::FileHandle", "metaserver::ops"] {
        assert!(exists(place), "{place}");
    }
    for place in
        ["wires", "wire::xml", "wire::rpc::xdr", "wire::handle::Filehandle", "wire::handle::FileHandle::x"]
    {
        assert!(!exists(place), "{place}");
    }
}

/// Cells of each row: concept, name, source, where it lives.
fn rows(text: &str) -> impl Iterator<Item = [&str; 4]> {
    let lines = text.lines().filter(|line| {
        line.starts_with("| ") && !line.starts_with("| ---") && !line.starts_with("| concept |")
    });
    lines.map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        cells.try_into().unwrap_or_else(|_| panic!("not four cells: {line}"))
    })
}

/// Places between backticks: `crate::module`, or `crate::module::Type`.
fn places(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Whether a crate, a module of it, or an item of that module is in the tree.
fn exists(place: &str) -> bool {
    let mut names = place.split("::");
    let mut folder = root().join("crates").join(names.next().unwrap_or_default()).join("src");
    let mut file = folder.join("lib.rs");
    if !file.is_file() {
        file = folder.join("main.rs");
    }
    for name in names.by_ref() {
        let inner = folder.join(name);
        let found =
            [inner.with_extension("rs"), inner.join("mod.rs")].into_iter().find(|file| file.is_file());
        match found {
            Some(found) => (folder, file) = (inner, found),
            None => return defines(&file, name) && names.next().is_none(),
        }
    }
    file.is_file()
}

/// Whether code in a document is a path or a module of this repository that does not exist.
fn leads_nowhere(code: &str) -> bool {
    let is_path = code.starts_with("crates/") && !code.contains(' ');
    let is_module = code.split_once("::").is_some_and(|(first, rest)| {
        root().join("crates").join(first).is_dir()
            && rest.chars().all(|c| c.is_alphanumeric() || "_:".contains(c))
    });
    (is_path && !root().join(code).exists()) || (is_module && !exists(code))
}

/// Whether a source file defines an item of this name.
fn defines(file: &Path, name: &str) -> bool {
    let text = fs::read_to_string(file).unwrap_or_default();
    let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    words.windows(2).any(|pair| KEYWORDS.contains(&pair[0]) && pair[1] == name)
}

fn glossary() -> String {
    document("docs/glossary.md")
}

fn document(name: &str) -> String {
    let path = root().join(name);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
