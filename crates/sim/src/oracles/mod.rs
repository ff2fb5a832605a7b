//! Who judges what happened: each oracle one promise, one file.
//!
//! Each finding begins with its oracle's name.

mod acknowledged;
mod exactly_once;
mod linearizable;
mod locks;
mod replicas;

use crate::member::Member;
use crate::shared::Shared;

/// What is wrong; nothing, it is to be hoped.
pub fn judge(shared: &Shared, members: &[Member]) -> Vec<String> {
    let history = shared.history();
    let all = [
        ("linearizable", linearizable::judge(&history)),
        ("exactly once", exactly_once::judge(&history)),
        ("locks", locks::judge(&history)),
        ("acknowledged", acknowledged::judge(&history)),
        ("replicas", replicas::judge(&history, members)),
        ("members work", shared.all_broken()),
    ];
    let named = |(name, found): (&str, Vec<String>)| -> Vec<String> {
        found.into_iter().map(|what| format!("{name}: {what}")).collect()
    };
    all.into_iter().flat_map(named).collect()
}
