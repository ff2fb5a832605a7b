//! Restore: a new group begins with a store that was filled from a backup.
//!
//! The log begins after the store, as after a snapshot: a joining member lacks the entries before the log,
//! and receives a snapshot of the whole store. If the log began at index 0, a joining member with all of the
//! log would seem complete, with an empty store.
//!
//! The store is written before the vote: `heorot restore` marks the directory until both exist.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use namespace::Incarnation;
use store::{Durability, Edit, Store};

use crate::environment::Environment;
use crate::log;
use crate::replica::ReplicaError;
use crate::state::digest::Digest;
use crate::state::records::{self, STATE_DIGEST_KEY, StateDigest, put_applied, put_installed};
use crate::types::{LeaderId, LogId, Member, Membership, NodeId, StoredMembership, Vote};

/// Term of the last entry before the log.
const TERM: u64 = 1;

/// Turns `store`, which was filled from a backup, into the beginning of a group of one, of a new incarnation.
/// `dir` is the member's directory, without a log; `applied` is the index after the last entry of the backup.
/// Afterwards the directory is opened like any other.
///
/// # Errors When the store or the vote cannot be written.
pub fn begin_restored(
    environment: &Environment,
    dir: &Path,
    store: &dyn Store,
    (id, member): (NodeId, Member),
    applied: u64,
) -> Result<Incarnation, ReplicaError> {
    let failed = |e: &dyn std::fmt::Display| ReplicaError::Failed(e.to_string());
    let leader_id = LeaderId { term: TERM, node_id: id };
    let last = LogId { leader_id, index: applied.saturating_sub(1) };
    let members = Membership::new(vec![BTreeSet::from([id])], BTreeMap::from([(id, member)]));
    let members = StoredMembership::new(Some(last), members.map_err(|e| failed(&e))?);
    let (mut incarnation, time) = (None, (environment.time)());
    let mut begin = |edit: &mut dyn Edit| {
        incarnation = Some(namespace::begin_incarnation(edit, environment.random_id(), time)?);
        let state_digest = StateDigest { digest: Digest::of_view(&*edit)?, time };
        edit.put(STATE_DIGEST_KEY, &records::encode(&state_digest)?)?;
        put_installed(edit, last)?;
        put_applied(edit, Some(last), Some(&members))
    };
    store.batch(Durability::Immediate, &mut begin).map_err(|e| failed(&e))?;
    log::write_first_vote(environment, dir, &Vote::new_committed(TERM, id)).map_err(|e| failed(&e))?;
    incarnation.ok_or_else(|| failed(&"the store has no incarnation"))
}
