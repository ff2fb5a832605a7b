//! docs/protocol.md: it has a row for every operation of the wire crate, and every test that it names exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use wire::nfs4::OpNum;
use wire::{mount3, nfs3};

/// RFC 8881 numbers operations from 3, RFC 8276 ends at 75; `OP_ILLEGAL` has a number of its own.
const OPERATION_NUMBERS: std::ops::RangeInclusive<u32> = 3..=75;

#[test]
fn every_operation_has_a_row_that_names_its_tests() {
    let document = read(&root().join("docs/protocol.md"));
    let operations = OPERATION_NUMBERS.filter_map(OpNum::from_u32).map(OpNum::name).chain(["ILLEGAL"]);
    let mut missing = without_tests(section(&document, "## NFSv4.1 and 4.2"), operations);
    missing.extend(without_tests(
        section(&document, "## NFSv3"),
        nfs3::Procedure::ALL.iter().map(|procedure| procedure.name()),
    ));
    missing.extend(without_tests(
        section(&document, "## MOUNT version 3"),
        mount3::Procedure::ALL.iter().map(|procedure| procedure.name()),
    ));
    assert!(missing.is_empty(), "docs/protocol.md has no row with a test for {missing:?}");
}

#[test]
fn every_test_that_the_document_names_exists() {
    let document = read(&root().join("docs/protocol.md"));
    let tests = tests_of_the_repository();
    assert!(tests.len() > 100, "tests were looked for in the wrong place");
    let unknown: Vec<&str> =
        rows(&document).flat_map(named_tests).filter(|name| !tests.contains(*name)).collect();
    assert!(unknown.is_empty(), "docs/protocol.md names tests that do not exist: {unknown:?}");
}

fn without_tests<'a>(section: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let documented: BTreeSet<&str> = rows(section)
        .filter(|row| named_tests(row).next().is_some())
        .filter_map(|row| row.split('|').nth(1))
        .flat_map(|names| names.split(','))
        .map(str::trim)
        .collect();
    names.filter(|name| !documented.contains(name)).map(str::to_owned).collect()
}

/// Text below a heading, up to the next one of its level.
fn section<'a>(document: &'a str, heading: &str) -> &'a str {
    let from = document.find(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no {heading:?}"));
    let text = &document[from + 1 + heading.len()..];
    text.find("\n## ").map_or(text, |end| &text[..end])
}

fn rows(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---"))
}

/// Tests in the last column, between backticks.
fn named_tests(row: &str) -> impl Iterator<Item = &str> {
    let last = row.trim_end().trim_end_matches('|').rsplit('|').next().unwrap_or_default();
    last.split('`').skip(1).step_by(2)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Names of functions below `#[test]` or `#[tokio::test]`.
fn tests_of_the_repository() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![root().join("crates"), root().join("tests")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())).flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let mut is_test = false;
                for line in read(&path).lines().map(str::trim) {
                    if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                        is_test = true;
                    } else if is_test && let Some((_, rest)) = line.split_once("fn ") {
                        found.extend(rest.split('(').next().map(str::to_owned));
                        is_test = false;
                    }
                }
            }
        }
    }
    found
}
