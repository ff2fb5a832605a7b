//! Oracle of the state machine's tables, looked at whenever a batch was applied: no two opens, locks,
//! delegations or layouts that must not be together.

use std::collections::BTreeMap;

use namespace::{ClientId, InodeId, LockKind, OpenState, Share, State, read};
use store::{StoreError, View};

/// Findings in a store.
pub(super) fn judge(view: &dyn View) -> Result<Vec<String>, StoreError> {
    let mut opens: BTreeMap<InodeId, Vec<OpenState>> = BTreeMap::new();
    let mut findings = vec![];
    for client in read::clients(view)? {
        for id in read::states(view, client)? {
            match read::state(view, id)? {
                Some(State::Open(open)) => opens.entry(open.inode).or_default().push(open),
                Some(state) => drop(opens.entry(state.inode()).or_default()),
                None => {}
            }
        }
    }
    for (inode, opens) in &opens {
        for (n, one) in opens.iter().enumerate() {
            let denied =
                |other: &&OpenState| one.deny.intersects(other.access) || one.access.intersects(other.deny);
            if let Some(other) = opens[..n].iter().find(denied) {
                findings.push(format!("of {inode:?} there are {one:?} and {other:?}"));
            }
        }
        let delegations = read::delegations(view, *inode)?;
        for (client, delegation) in &delegations {
            let is_to_write =
                matches!(read::state(view, delegation.id)?, Some(State::Delegation(held)) if held.writes());
            let excluded = |open: &&OpenState| {
                open.client != *client && (is_to_write || open.access.intersects(Share::WRITE))
            };
            if let Some(open) = opens.iter().find(excluded) {
                findings.push(format!("{client:?} has the delegation {delegation:?} beside {open:?}"));
            }
            if is_to_write && delegations.len() > 1 {
                findings.push(format!("of {inode:?} there are {delegations:?}, one of them to write"));
            }
        }
        let locks = read::locks(view, *inode)?;
        for (n, one) in locks.iter().enumerate() {
            let excludes = |other: &&namespace::Held| {
                (one.kind == LockKind::Write || other.kind == LockKind::Write)
                    && one.state != other.state
                    && one.range.start < other.range.end
                    && other.range.start < one.range.end
            };
            if let Some(other) = locks[..n].iter().find(excludes) {
                findings.push(format!("of {inode:?} there are {one:?} and {other:?}"));
            }
        }
        if read::pending_truncation(view, *inode)? {
            let mut holders: Vec<ClientId> =
                read::layouts(view, *inode)?.into_iter().map(|(client, ..)| client).collect();
            holders.dedup();
            if holders.len() > 1 {
                findings.push(format!("{holders:?} have layouts of {inode:?}, which is being truncated"));
            }
        }
    }
    Ok(findings)
}
