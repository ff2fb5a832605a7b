//! Digest of the state: a sum over the state machine's records in the store, updated with each command.
//!
//! ```text
//! digest = Σ H(key, length of value, CRC-32C of value)    modulo 2^128; H: the first 16 bytes of BLAKE3
//! ```
//!
//! A sum does not depend on the order of changes: a store that was filled by a snapshot has the same digest
//! as one that applied all commands, and a snapshot is checked while it arrives. A command changes the digest
//! by the pairs that it put and deleted: for each key one more read (the value before, mostly in memory) and
//! two hashes. A record that the disk altered is found as soon as a command reads, replaces or removes it.
//!
//! Replicas compare digests at equal index (`service::compare`): [`DigestHistory`] has those of the last
//! commands.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use store::{StoreError, View};

/// First tag of the replica's own records, which differ between members.
pub(crate) const OWN_TAGS: u8 = 0x80;
/// Digests kept for comparison: those of the commands of one or two busy seconds, 32 bytes each.
const HISTORY_MAX: usize = 16_384;

/// Sum over all pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Digest([u8; 16]);

impl Digest {
    /// Digest of all pairs in a view.
    pub(crate) fn of_view(view: &dyn View) -> Result<Self, StoreError> {
        let mut digest = Self::default();
        view.scan(&[], &[OWN_TAGS], &mut |key, value| {
            digest.change(key, None, Some(value));
            ControlFlow::Continue(())
        })?;
        Ok(digest)
    }

    pub(crate) fn bytes(self) -> [u8; 16] {
        self.0
    }

    /// Replaces the value under `key`; None: the key is absent.
    pub(crate) fn change(&mut self, key: &[u8], before: Option<&[u8]>, after: Option<&[u8]>) {
        if key.first().is_some_and(|tag| *tag >= OWN_TAGS) {
            return;
        }
        let sum = u128::from_le_bytes(self.0);
        let sum = before.map_or(sum, |value| sum.wrapping_sub(term(key, value)));
        let sum = after.map_or(sum, |value| sum.wrapping_add(term(key, value)));
        self.0 = sum.to_le_bytes();
    }
}

fn term(key: &[u8], value: &[u8]) -> u128 {
    let mut hasher = blake3::Hasher::new();
    // The length before the key, which has any length: so no two pairs give the same bytes.
    hasher.update(&(value.len() as u64).to_le_bytes());
    hasher.update(&crc32c::crc32c(value).to_le_bytes());
    hasher.update(key);
    let mut term = [0; 16];
    term.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    u128::from_le_bytes(term)
}

/// Digests after the last commands, by the index after each.
#[derive(Default)]
pub(crate) struct DigestHistory(Mutex<VecDeque<(u64, Digest)>>);

impl DigestHistory {
    fn lock(&self) -> MutexGuard<'_, VecDeque<(u64, Digest)>> {
        self.0.lock()
    }

    /// Appends the digests of a batch, in order.
    pub(crate) fn note(&self, all: impl IntoIterator<Item = (u64, Digest)>) {
        let mut history = self.lock();
        history.extend(all);
        let surplus = history.len().saturating_sub(HISTORY_MAX);
        history.drain(..surplus);
    }

    /// Restarts the history after the state was replaced.
    pub(crate) fn restart(&self, next: u64, digest: Digest) {
        let mut history = self.lock();
        history.clear();
        history.push_back((next, digest));
    }

    /// The last index and its digest.
    pub(crate) fn last(&self) -> Option<(u64, Digest)> {
        self.lock().back().copied()
    }

    /// The digest at an index, if it is still in the history.
    pub(crate) fn at(&self, next: u64) -> Option<Digest> {
        let history = self.lock();
        let found = history.binary_search_by_key(&next, |(at, _)| *at).ok()?;
        history.get(found).map(|(_, digest)| *digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_under_anothers_key_or_is_altered_has_another_digest() {
        let of = |pairs: &[(&str, &str)]| {
            let mut digest = Digest::default();
            pairs.iter().for_each(|(k, v)| digest.change(k.as_bytes(), None, Some(v.as_bytes())));
            digest
        };
        let one = of(&[("a", "1"), ("b", "2")]);
        assert_eq!(one, of(&[("b", "2"), ("a", "1")]), "the order is of no account");
        for other in [
            &[("a", "2"), ("b", "1")][..],
            &[("a", "1")],
            &[("a", "1"), ("b", "3")],
            &[("a", "1"), ("c", "2")],
        ] {
            assert_ne!(one, of(other), "{other:?}");
        }
        let mut back = one;
        back.change(b"b", Some(b"2"), None);
        assert_eq!(back, of(&[("a", "1")]));
        back.change(b"\xffapplied", None, Some(b"7"));
        assert_eq!(back, of(&[("a", "1")]), "what is a replica's own is not of the state");
    }

    #[test]
    fn digests_of_the_last_commands_are_known_and_no_more_of_them() {
        let history = DigestHistory::default();
        let digest = |n: u64| Digest([n as u8; 16]);
        history.note((5..HISTORY_MAX as u64 + 10).map(|n| (n, digest(n))));
        assert_eq!(history.last(), Some((HISTORY_MAX as u64 + 9, digest(HISTORY_MAX as u64 + 9))));
        assert_eq!((history.at(9), history.at(10)), (None, Some(digest(10))));
        history.restart(3, digest(3));
        assert_eq!((history.at(10), history.at(3)), (None, Some(digest(3))));
    }
}
