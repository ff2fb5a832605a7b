//! Edits of one command, kept apart from the batch until the command has succeeded.
//!
//! ```text
//! command ─▶ Edits: its puts and deletes ─┬▶ success: into the batch, and into the digest
//!                  │ reads through         └▶ broken invariant: dropped
//!                  ▼
//!            batch of the store
//! ```

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use store::{Edit, StoreError, View, Visitor};

use crate::state::digest::Digest;
use crate::state::integrity::Integrity;

/// Layer of edits above a batch.
pub(crate) struct Edits<'a> {
    below: &'a mut dyn Edit,
    integrity: &'a Integrity,
    /// New value of each changed key; None: deleted.
    changes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl<'a> Edits<'a> {
    pub(crate) fn above(below: &'a mut dyn Edit, integrity: &'a Integrity) -> Self {
        Self { below, integrity, changes: BTreeMap::new() }
    }

    /// Moves the edits into the batch, and updates the digest of its state.
    pub(crate) fn keep(self, digest: &mut Digest) -> Result<(), StoreError> {
        for (key, change) in self.changes {
            let before = self.integrity.get(&*self.below, &key)?;
            digest.change(&key, before.as_deref(), change.as_deref());
            match change {
                Some(value) => self.below.put(&key, &value)?,
                None => self.below.delete(&key)?,
            }
        }
        Ok(())
    }
}

impl View for Edits<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        match self.changes.get(key) {
            Some(change) => Ok(change.clone()),
            None => self.integrity.get(&*self.below, key),
        }
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: &mut Visitor<'_>) -> Result<(), StoreError> {
        if from >= to {
            return Ok(());
        }
        let range = (Bound::Included(from), Bound::Excluded(to));
        let mut changes = self.changes.range::<[u8], _>(range).peekable();
        let mut stopped = false;
        let mut visit_changes = |upto: Option<&[u8]>, visit: &mut Visitor<'_>| {
            // Changed keys before the next key of the batch; an equal key hides it.
            let mut hides = false;
            while let Some((key, change)) =
                changes.next_if(|(key, _)| upto.is_none_or(|upto| key.as_slice() <= upto))
            {
                hides = upto == Some(key);
                if let Some(value) = change
                    && visit(key, value).is_break()
                {
                    return (ControlFlow::Break(()), hides);
                }
            }
            (ControlFlow::Continue(()), hides)
        };
        self.integrity.scan(&*self.below, from, to, &mut |key, value| {
            let (flow, hides) = visit_changes(Some(key), visit);
            let flow = if flow.is_break() || hides { flow } else { visit(key, value) };
            stopped = flow.is_break();
            flow
        })?;
        if !stopped {
            let _ = visit_changes(None, visit);
        }
        Ok(())
    }
}

impl Edit for Edits<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.changes.insert(key.to_vec(), Some(value.to_vec()));
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.changes.insert(key.to_vec(), None);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use store::{Durability, MemoryStore, Store};

    use super::*;

    fn integrity() -> Integrity {
        let failed = Arc::new(crate::runtime::watch::channel(None).0);
        Integrity::new(Arc::new(host::SystemFiles), "/nowhere".into(), failed, None)
    }

    fn all(view: &dyn View, last: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut found = vec![];
        let mut visit = |key: &[u8], value: &[u8]| {
            found.push((key.to_vec(), value.to_vec()));
            if key == last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        view.scan(b"a", b"z", &mut visit).unwrap();
        found
    }

    #[test]
    fn a_layer_reads_as_the_batch_will_be_and_the_digest_is_that_of_the_state() {
        let (store, integrity) = (MemoryStore::new(), integrity());
        let mut batch = |edit: &mut dyn Edit| {
            let mut digest = Digest::default();
            for round in 0..40_u64 {
                let (before, kept) = (all(edit, b""), round % 3 > 0);
                let mut layer = Edits::above(edit, &integrity);
                for n in 0..5 {
                    let key = [b'b' + ((round * 7 + n * 5) % 20) as u8];
                    match (round + n) % 4 {
                        0 => layer.delete(&key)?,
                        _ => layer.put(&key, &[])?,
                    }
                    let seen = all(&layer, b"");
                    assert!(
                        seen.is_sorted()
                            && seen.iter().all(|(k, v)| layer.get(k).unwrap().as_ref() == Some(v))
                    );
                    for (key, _) in &seen {
                        assert_eq!(all(&layer, key).len(), seen.iter().filter(|(k, _)| k <= key).count());
                    }
                }
                let seen = all(&layer, b"");
                if kept {
                    layer.keep(&mut digest)?;
                }
                assert_eq!(all(edit, b""), if kept { seen } else { before });
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
        use namespace::{Command, Create, Exists, InodeId, NewAttributes, NewNode, Proposal, Stamp};
        const BATCHES: u64 = 100;
        const EACH: u64 = 1000;
        let layout = namespace::FileLayout {
            device: namespace::DeviceId(0),
            first: 0,
            unit: namespace::StripeUnit::DEFAULT,
            columns: 1,
        };
        let create = |number: u64| {
            let attributes =
                NewAttributes { mode: 0o644, uid: 1000, gid: 1000, accessed: None, modified: None };
            let (name, node) = (format!("file-{number}").into_bytes(), NewNode::File(layout));
            let create = Create { dir: InodeId::ROOT, name, node, attributes, exists: Exists::Refuse };
            Proposal::new(Stamp { random: number, ..Stamp::default() }, None, Command::Create(create))
        };
        let integrity = integrity();
        let stores = [MemoryStore::new(), MemoryStore::new()];
        let mut spent = [std::time::Duration::ZERO; 2];
        for store in &stores {
            store
                .batch(Durability::Deferred, &mut |edit| namespace::format(edit, &Stamp::default(), [7; 16]))
                .unwrap();
        }
        let (mut digest, mut edits_made) = (Digest::default(), 0);
        for batch in 0..BATCHES {
            for (with_digest, store) in [true, false].into_iter().zip(&stores) {
                let began = std::time::Instant::now();
                let mut apply = |edit: &mut dyn Edit| {
                    for number in batch * EACH..(batch + 1) * EACH {
                        let mut layer = Edits::above(edit, &integrity);
                        let reply = namespace::apply(&mut layer, &create(number))?;
                        assert!(!matches!(reply, namespace::Reply::Refused(_)), "{reply:?}");
                        if with_digest {
                            edits_made += layer.changes.len();
                            layer.keep(&mut digest)?;
                            continue;
                        }
                        for (key, change) in layer.changes {
                            match change {
                                Some(value) => layer.below.put(&key, &value)?,
                                None => layer.below.delete(&key)?,
                            }
                        }
                    }
                    Ok(())
                };
                store.batch(Durability::Deferred, &mut apply).unwrap();
                spent[usize::from(!with_digest)] += began.elapsed();
            }
        }
        let each = |time: std::time::Duration| time.as_secs_f64() * 1e6 / (BATCHES * EACH) as f64;
        println!(
            "a create: {:.2} us with digests, {:.2} us without; {:.1} keys",
            each(spent[0]),
            each(spent[1]),
            edits_made as f64 / (BATCHES * EACH) as f64
        );
    }
}
