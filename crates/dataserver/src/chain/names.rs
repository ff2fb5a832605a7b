//! Names of the objects of chains with a member that lacks data, found in one pass over a target for all such chains: each
//! object must be opened to see its chain.
//!
//! ```text
//! a chain is compared whole ─▶ its names are known, of this version? ─▶ use them
//!                                                    no ─▶ one pass: names and bytes of all such chains here
//! ```
//!
//! Both the head and the member that it compares have them. An object that is made after the pass began is made at all
//! members, by a change of the same version of its chain.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use wire::data::list;

use super::Chains;
use super::table::Chain;
use crate::list::{entry, name};
use crate::object::ObjectName;
use crate::objects::{ObjectError, Objects};
use crate::target::Target;

/// Names kept for a target, at most: 32 MiB. Chains beyond that wait for another pass; one with more alone is listed a page
/// at a time.
const NAMES_MAX: usize = 1 << 20;
/// Objects of a page: each is opened.
const PAGE: u32 = 1024;

/// Names of objects, in the order of LIST.
pub(super) type Names = Arc<Vec<ObjectName>>;

/// Names that are known.
#[derive(Default)]
pub(super) struct ChainNames(Mutex<BTreeMap<u64, Arc<OfTarget>>>);

#[derive(Default)]
struct OfTarget {
    one_pass: tokio::sync::Mutex<()>,
    /// By chain, with the chain's version before the pass. None: they are too many to keep.
    known: Mutex<BTreeMap<u64, (u32, Option<Names>)>>,
}

impl OfTarget {
    /// None: no pass has looked for them. In it none: they are too many to keep.
    fn get(&self, chain: &Chain) -> Option<Option<Names>> {
        let known = self.known.lock();
        known.get(&chain.id).filter(|(version, _)| *version == chain.version).map(|(_, names)| names.clone())
    }
}

impl ChainNames {
    fn of(&self, target: u64) -> Arc<OfTarget> {
        Arc::clone(self.0.lock().entry(target).or_default())
    }

    /// Forgets the names that no chain needs any more.
    pub(super) fn retain(&self, needs: impl Fn(u64, u64, u32) -> bool) {
        for (target, of) in &*self.0.lock() {
            of.known.lock().retain(|chain, (version, _)| needs(*target, *chain, *version));
        }
    }
}

/// What a pass has found: bytes of the objects of each chain, and their names.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    bytes: BTreeMap<u64, u64>,
    names: BTreeMap<u64, Vec<ObjectName>>,
}

impl Objects {
    /// Looks at all objects for those of these chains. Keeps at most `max` names: those of `first` last of all.
    fn of_chains(&self, chains: &[u64], first: u64, max: usize) -> Result<Found, ObjectError> {
        let mut found = Found {
            bytes: chains.iter().map(|chain| (*chain, 0)).collect(),
            names: chains.iter().map(|chain| (*chain, Vec::new())).collect(),
        };
        let (mut kept, mut after) = (0, None::<list::ObjectName>);
        loop {
            let page = self.list(after, PAGE)?;
            for name in page.objects.iter().map(name) {
                let Some(look) = self.look_at(&name)? else { continue };
                let Some(bytes) = found.bytes.get_mut(&look.chain) else { continue };
                *bytes = bytes.saturating_add(look.len);
                let Some(names) = found.names.get_mut(&look.chain) else { continue };
                names.push(name);
                kept += 1;
                while kept > max {
                    let others = found.names.iter().filter(|(chain, _)| **chain != first);
                    let last = others.max_by_key(|(_, names)| names.len()).map_or(first, |(chain, _)| *chain);
                    kept -= found.names.remove(&last).map_or(kept, |names| names.len());
                }
            }
            after = page.next();
            if after.is_none() {
                return Ok(found);
            }
        }
    }
}

impl Chains {
    /// The names of a chain's objects on this target, of which a member lacks data. None: they are too many to keep.
    pub(super) async fn names_of(
        &self,
        target: &Arc<Target>,
        chain: &Chain,
    ) -> Result<Option<Names>, ObjectError> {
        let of = self.names.of(target.id());
        if let Some(names) = of.get(chain) {
            return Ok(names);
        }
        let _alone = of.one_pass.lock().await;
        if let Some(names) = of.get(chain) {
            return Ok(names);
        }
        // Versions of before the pass: what it does not see was made in them.
        let lacking = self.table.refilled_with(target.id());
        let unknown = lacking.iter().filter(|chain| of.get(chain).is_none());
        let mut wanted: BTreeMap<u64, u32> = unknown.map(|chain| (chain.id, chain.version)).collect();
        wanted.insert(chain.id, chain.version);
        let (chains, first): (Vec<u64>, u64) = (wanted.keys().copied().collect(), chain.id);
        let kept: usize =
            of.known.lock().values().flat_map(|(_, names)| names).map(|names| names.len()).sum();
        let max = NAMES_MAX.saturating_sub(kept);
        let mut found = target.run(move |objects| objects.of_chains(&chains, first, max)).await?;
        self.progress.counted(target.id(), found.bytes);
        let mut known = of.known.lock();
        for (chain, version) in wanted {
            let names = found.names.remove(&chain).map(Arc::new);
            // Another pass has room for others, when this one's are not needed any more.
            if names.is_some() || chain == first {
                known.insert(chain, (version, names));
            }
        }
        Ok(known.get(&first).and_then(|(_, names)| names.clone()))
    }

    /// Begins the pass that the head will ask for, when it compares all of the chain: it may take longer than a call.
    pub(super) fn begin_names(self: &Arc<Self>, target: &Arc<Target>, chain: Arc<Chain>) {
        let (chains, target) = (Arc::clone(self), Arc::clone(target));
        tokio::spawn(async move { chains.names_of(&target, &chain).await.map(drop) });
    }

    /// A page of LIST for a chain.
    pub(crate) async fn list_of_chain(
        &self,
        target: &Arc<Target>,
        args: list::Args,
    ) -> Result<list::ResOk, ObjectError> {
        let chain = self.table.get(args.chain).filter(|chain| chain.has_refilling());
        if let Some(chain) = chain
            && let Some(names) = self.names_of(target, &chain).await?
        {
            return Ok(page(&names, args.after, args.max));
        }
        target.run(move |objects| objects.list_of_chain(args.after, args.max, args.chain)).await
    }

    /// Forgets names of chains that have all data, or another version, and the bytes of those that have all data.
    pub(super) fn forget_names(&self) {
        let lacks = |target, chain| {
            let chain =
                self.table.get(chain).filter(|chain| chain.has_refilling() && chain.member(target).is_some());
            chain.map(|chain| chain.version)
        };
        self.names.retain(|target, chain, version| lacks(target, chain) == Some(version));
        self.progress.retain(|target, chain| lacks(target, chain).is_some());
    }
}

/// Names after a position, at most `max`; but those of one position are on one page.
fn page(names: &[ObjectName], after: Option<list::ObjectName>, max: u32) -> list::ResOk {
    let position = |name: &ObjectName| (name.directory(), name.inode, name.column);
    let after = after.map(|after| (after.inode.to_be_bytes()[7], after.inode, after.column));
    let from = names.partition_point(|name| Some(position(name)) <= after);
    let rest = &names[from..];
    let max = (max as usize).clamp(1, crate::list::PAGE_MAX);
    let end = match rest.get(max - 1) {
        Some(last) => rest.partition_point(|name| position(name) <= position(last)),
        None => rest.len(),
    };
    list::ResOk { objects: rest[..end].iter().map(entry).collect(), done: end == rest.len() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TargetOptions;
    use crate::epoch::{CallEpoch, Epoch, ObjectRef};

    fn named(inode: u64, generation: u32) -> ObjectName {
        ObjectName { inode, column: 1, volume: 1, generation }
    }

    fn object(chain: u64, inode: u64) -> ObjectRef {
        let name = ObjectName { inode, column: 0, volume: 1, generation: 1 };
        ObjectRef { name, epoch: Epoch { incarnation: 7, chain, call: CallEpoch::Server(1, 0) } }
    }

    #[test]
    fn one_pass_finds_the_objects_of_many_chains_and_keeps_few_enough() {
        let dir = tempfile::tempdir().unwrap();
        let options = TargetOptions::default();
        let target = Target::open_with(options, dir.path(), [1; 16], &host::SystemEntropy).unwrap();
        let objects = target.objects();
        let all: Vec<ObjectRef> = (0..3000).map(|inode| object(10 + inode % 4, inode)).collect();
        for some in all.chunks(100) {
            objects.make_of_calls(some).unwrap();
        }
        objects.write(object(12, 2), 0, &bytes::Bytes::from_static(b"five!").into()).unwrap();
        let found = objects.of_chains(&[10, 12, 99], 12, 2000).unwrap();
        let count = |found: &Found, chain| found.names.get(&chain).map(Vec::len);
        assert_eq!([10, 11, 12, 99].map(|chain| count(&found, chain)), [Some(750), None, Some(750), Some(0)]);
        assert_eq!(found.bytes, BTreeMap::from([(10, 0), (12, 5), (99, 0)]));
        assert!(found.names[&12].is_sorted_by_key(|name| (name.directory(), *name)));
        // Too many: the others go, then the first.
        let found = objects.of_chains(&[10, 11, 12], 12, 1000).unwrap();
        assert_eq!([10, 11, 12].map(|chain| count(&found, chain)), [None, None, Some(750)]);
        let found = objects.of_chains(&[10, 12], 12, 700).unwrap();
        assert_eq!([10, 12].map(|chain| count(&found, chain)), [None, None]);
        assert_eq!(found.bytes[&12], 5, "they are counted");
    }

    #[test]
    fn pages_go_on_after_the_last_name_and_keep_names_of_one_position_together() {
        let names = [named(0x100, 1), named(0x200, 1), named(0x200, 2), named(0x300, 1), named(0x101, 1)];
        let mut after = None;
        let mut seen = Vec::new();
        for size in [3, 2] {
            let page = page(&names, after, 2);
            assert_eq!((page.objects.len(), page.done), (size, size == 2), "{page:?}");
            seen.extend(page.objects.iter().map(name));
            after = page.next();
        }
        assert_eq!(seen, names);
        assert!(page(&[], None, 0).done);
        assert_eq!(page(&names, None, 0).objects.len(), 1, "at least one");
        let position = list::ObjectName { inode: 0x101, column: 1 };
        assert!(page(&names, Some(position), 9).objects.is_empty(), "the last");
    }
}
