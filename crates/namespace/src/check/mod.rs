//! Check: the invariants of the store, one by one. For tests after every command, and for an operator with a
//! suspect disk.
//!
//! The check reads all records, and keeps a few words for each inode and state in memory.

mod boot;
mod calls;
mod clones;
mod cluster;
mod files;
mod left;
mod locks;
mod snapshots;
mod states;
mod volumes;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::ControlFlow;

use serde::de::DeserializeOwned;
use store::{StoreError, View};

use crate::record::{decode, is_of_record};
use crate::{keys, read};

/// Returns every broken invariant of the store, as text; the list should be empty.
///
/// # Errors
/// [`StoreError`] when the store fails. A record that cannot be read is a finding, not an error.
pub fn check(view: &dyn View) -> Result<Vec<String>, StoreError> {
    let mut findings = Findings(Vec::new());
    let whole = clones::whole(view);
    match findings.of(whole)? {
        Some(whole) => tree(view, &whole, &mut findings)?,
        None => tree(view, view, &mut findings)?, // what clones inherit is missed
    }
    let rest = calls::check(view, &mut findings).and_then(|()| unknown_tags(view, &mut findings));
    findings.of(rest)?;
    Ok(findings.0)
}

/// Checks the name space, its states and the cluster. `whole`: the store with what clones inherit.
fn tree(store: &dyn View, whole: &dyn View, findings: &mut Findings) -> Result<(), StoreError> {
    let counters = match read::counters(store) {
        Ok(counters) => counters,
        Err(error) => {
            findings.add(error);
            return Ok(());
        }
    };
    let inodes = files::check(whole, &counters, findings);
    let Some(inodes) = findings.of(inodes)? else { return Ok(()) };
    for part in [
        states::check(whole, &counters, &inodes, findings),
        cluster::check(whole, &counters, &inodes, findings),
        snapshots::check(whole, &inodes, findings),
        clones::check(store, &inodes, findings),
        boot::check(store, findings),
    ] {
        findings.of(part)?;
    }
    Ok(())
}

/// Findings, as text.
struct Findings(Vec<String>);

impl Findings {
    fn add(&mut self, what: impl Display) {
        self.0.push(what.to_string());
    }

    /// Outcome of a part of the check; none if it stopped at a record that cannot be read.
    fn of<T>(&mut self, outcome: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
        match outcome {
            Ok(found) => Ok(Some(found)),
            Err(error) if is_of_record(&error) => {
                self.add(error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn expect(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.0.push(what());
        }
    }
}

/// Returns a whole table, by key; an unreadable record is a finding.
fn table<T: DeserializeOwned>(
    view: &dyn View,
    tag: u8,
    findings: &mut Findings,
) -> Result<BTreeMap<Vec<u8>, T>, StoreError> {
    records(view, &[tag], &keys::after(&[tag]), findings)
}

/// Like [`table`], for a part of it.
fn records<T: DeserializeOwned>(
    view: &dyn View,
    from: &[u8],
    to: &[u8],
    findings: &mut Findings,
) -> Result<BTreeMap<Vec<u8>, T>, StoreError> {
    let mut records = BTreeMap::new();
    view.scan(from, to, &mut |key, value| {
        match decode(key, value) {
            Ok(record) => {
                records.insert(key.to_vec(), record);
            }
            Err(error) => findings.add(format!("record {key:02x?}: {error}")),
        }
        ControlFlow::Continue(())
    })?;
    Ok(records)
}

/// Returns the keys of a table without values.
fn marks(view: &dyn View, tag: u8) -> Result<Vec<Vec<u8>>, StoreError> {
    let mut marks = Vec::new();
    read::scan_keys(view, &[tag], |key| {
        marks.push(key.to_vec());
        ControlFlow::Continue(())
    })?;
    Ok(marks)
}

/// Checks that there are no unknown tags below 0x80; above them the replica keeps its own records.
fn unknown_tags(view: &dyn View, findings: &mut Findings) -> Result<(), StoreError> {
    view.scan(&[], &[keys::OTHERS], &mut |key, _| {
        if !key.first().is_some_and(|tag| keys::TAGS.contains(tag)) {
            findings.add(format!("key {key:02x?} is of no table"));
        }
        ControlFlow::Continue(())
    })
}
