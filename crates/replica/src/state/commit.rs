//! Commit of a planned command: its changes go into the batch, and into the digest of the state.

use namespace::{Outcome, Reply};
use store::{Edit, StoreError};

use crate::state::digest::Digest;
use crate::state::integrity::Integrity;

/// Makes the changes of a command, and updates the digest of the state. Returns the reply to the command.
///
/// # Errors
/// [`StoreError`] when the store fails, or a record that a change replaces is damaged.
pub(crate) fn commit(
    edit: &mut dyn Edit,
    outcome: Outcome,
    integrity: &Integrity,
    digest: &mut Digest,
) -> Result<Reply, StoreError> {
    for (key, change) in outcome.changes {
        let before = integrity.get(&*edit, &key)?;
        digest.change(&key, before.as_deref(), change.as_deref());
        match change {
            Some(value) => edit.put(&key, &value)?,
            None => edit.delete(&key)?,
        }
    }
    Ok(outcome.reply)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use namespace::{Command, Create, Exists, Expect, InodeId, NewAttributes, NewNode, Proposal, Stamp};
    use store::{Durability, MemoryStore, Store};

    use super::*;

    fn integrity() -> Integrity {
        let failed = Arc::new(host::watch::channel(None).0);
        Integrity::new(Arc::new(host::SystemFiles), "/nowhere".into(), failed, None)
    }

    fn proposal(random: u64, command: Command) -> Proposal {
        Proposal::new(Stamp { random, ..Stamp::default() }, None, command)
    }

    /// Proposal of an empty file, `file-NUMBER` in the root directory.
    fn create(number: u64) -> Proposal {
        let layout = namespace::FileLayout {
            device: namespace::DeviceId(0),
            first: 0,
            unit: namespace::StripeUnit::DEFAULT,
            columns: 1,
        };
        let attributes = NewAttributes { mode: 0o644, uid: 1000, gid: 1000, accessed: None, modified: None };
        let (name, node) = (format!("file-{number}").into_bytes(), NewNode::File(layout));
        let create = Create { dir: InodeId::ROOT, name, node, attributes, exists: Exists::Refuse };
        proposal(number, Command::Create(create))
    }

    #[test]
    fn the_digest_after_each_command_is_that_of_the_state() {
        let (store, integrity) = (MemoryStore::new(), integrity());
        let mut batch = |edit: &mut dyn Edit| {
            namespace::format(edit, &Stamp::default(), [7; 16])?;
            let mut digest = Digest::of_view(edit)?;
            for round in 0..40 {
                // A file is made, and is there already, and is removed, and is not there.
                let (number, before) = (round / 4, digest);
                let name = format!("file-{number}").into_bytes();
                let remove = Command::Remove { dir: InodeId::ROOT, name, expect: Expect::Anything };
                let command = if round % 4 < 2 { create(number) } else { proposal(round, remove) };
                let outcome = namespace::plan(&integrity.checked(&*edit), &command)?;
                assert_eq!(Digest::of_view(edit)?, before, "a plan changes nothing");
                let reply = commit(edit, outcome, &integrity, &mut digest)?;
                assert_eq!(matches!(reply, Reply::Refused(_)), round % 2 == 1, "{reply:?}");
                assert_eq!(digest == before, round % 2 == 1);
                assert_eq!(digest, Digest::of_view(edit)?);
            }
            Ok(())
        };
        store.batch(Durability::Deferred, &mut batch).unwrap();
    }

    /// Applies creates of empty files in batches of 1,000, alternately with and without digests; prints the
    /// time of each.
    #[test]
    #[ignore = "a measurement: make digest-cost"]
    fn what_a_digest_costs_a_create() {
        const BATCHES: u64 = 100;
        const EACH: u64 = 1000;
        let integrity = integrity();
        let stores = [MemoryStore::new(), MemoryStore::new()];
        let mut spent = [std::time::Duration::ZERO; 2];
        for store in &stores {
            store
                .batch(Durability::Deferred, &mut |edit| namespace::format(edit, &Stamp::default(), [7; 16]))
                .unwrap();
        }
        let mut digest = Digest::default();
        for batch in 0..BATCHES {
            for (with_digest, store) in [true, false].into_iter().zip(&stores) {
                let began = std::time::Instant::now();
                let mut apply = |edit: &mut dyn Edit| {
                    for number in batch * EACH..(batch + 1) * EACH {
                        let outcome = namespace::plan(&integrity.checked(&*edit), &create(number))?;
                        let reply = &outcome.reply;
                        assert!(!matches!(reply, namespace::Reply::Refused(_)), "{reply:?}");
                        match with_digest {
                            true => drop(commit(edit, outcome, &integrity, &mut digest)?),
                            false => outcome.changes.commit(edit)?,
                        }
                    }
                    Ok(())
                };
                store.batch(Durability::Deferred, &mut apply).unwrap();
                spent[usize::from(!with_digest)] += began.elapsed();
            }
        }
        let each = |time: std::time::Duration| time.as_secs_f64() * 1e6 / (BATCHES * EACH) as f64;
        println!("a create: {:.2} us with digests, {:.2} us without", each(spent[0]), each(spent[1]));
    }
}
