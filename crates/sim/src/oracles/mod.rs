//! Oracles, which judge a history: one promise and one file each.
//!
//! Each finding begins with the name of its oracle.

mod acknowledged;
mod claims;
mod delays;
mod exactly_once;
mod linearizable;
mod locks;
mod replicas;
mod restored;
mod silence;
mod tables;
mod waits;

use crate::history::History;
use crate::member::Member;
use crate::restore::Backup;
use crate::shared::Shared;

/// Findings of all oracles.
pub fn judge(shared: &Shared, members: &[Member]) -> Vec<String> {
    let history = shared.history();
    let (known, calm) = (shared.claims(), shared.calm());
    let all = [
        ("linearizable", linearizable::judge(&history)),
        ("exactly once", exactly_once::judge(&history)),
        ("locks", locks::judge(&history)),
        ("acknowledged", acknowledged::judge(&history)),
        ("replicas", replicas::judge(&history, members)),
        ("restored", restored::judge(&history)),
        ("members work", shared.failures()),
        ("tables", shared.table_findings()),
        ("conflicts", claims::judge(&known)),
        ("leases", known.lost.clone()),
        ("lock waiters", waits::judge(&known, &calm)),
        ("recalls", delays::judge(&known, &history, &calm)),
        ("silence", silence::judge(&known, &calm)),
        ("answers", known.unexpected.clone()),
        ("records", shared.records().wrong.clone()),
    ];
    let named = |(name, found): (&str, Vec<String>)| -> Vec<String> {
        found.into_iter().map(|what| format!("{name}: {what}")).collect()
    };
    all.into_iter().flat_map(named).collect()
}

/// Findings in the tables of a store.
pub fn judge_tables(view: &dyn store::View) -> Vec<String> {
    tables::judge(view).unwrap_or_else(|why| vec![why.to_string()])
}

/// Findings about a backup, by the history of its group.
pub fn judge_backup(history: &History, backup: &Backup) -> Vec<String> {
    restored::judge_backup(history, backup).into_iter().map(|what| format!("restored: {what}")).collect()
}
