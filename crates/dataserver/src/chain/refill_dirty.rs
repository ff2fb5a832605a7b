//! Refilling a member by dirty logs: what it may lack, by the logs of the head and its own.

use std::time::Duration;

use nfs::CallFailure;
use wire::data::{ObjectEntry, Procedure, dirty_regions};

use super::Chains;
use super::dirty_log::{DirtyObjects, OBJECTS_MAX};
use super::refill::{Refill, Stopped};
use super::regions::DirtyRegions;
use crate::list::{entry, name};
use crate::object::ObjectName;
use crate::target::Target;

/// Objects of a page: with 64 extents each, 270 KiB.
const PAGE: usize = 256;
/// Time limit of a page.
const PAGE_TIME_MAX: Duration = Duration::from_secs(5);
/// Versions of a chain from here on, and from each multiple on, come after a restore of the metaservers from a backup:
/// a chain goes on with members that the records of targets lead to, and all others are compared whole.
const RESTORE_BITS: u32 = 16;

impl Refill {
    /// Objects in which the member may differ, in the order of LIST. None: in all.
    pub(super) async fn dirty_objects(&self) -> Result<Option<Vec<(ObjectName, DirtyRegions)>>, Stopped> {
        let (chain, member) = (self.chain.id, self.member.target);
        let Some((version, mut dirty)) = self.chains.dirty.since_member(chain, member) else {
            return Ok(None);
        };
        if version >> RESTORE_BITS != self.chain.version >> RESTORE_BITS {
            return Ok(None);
        }
        let mut after = None;
        loop {
            let Some(page) = self.dirty_page(after).await? else { return Ok(None) };
            // Otherwise it has missed the version, or its data are those of an earlier time.
            if page.was_in < version || dirty.len() > 2 * OBJECTS_MAX {
                return Ok(None);
            }
            for object in &page.objects {
                let regions = dirty.entry(name(&object.object)).or_default();
                for extent in &object.extents {
                    regions.add(extent.offset..extent.offset.saturating_add(extent.len));
                }
            }
            after = page.objects.last().map(|object| object.object);
            if page.done || after.is_none() {
                break;
            }
        }
        let mut dirty: Vec<_> = dirty.into_iter().collect();
        dirty.sort_unstable_by_key(|(name, _)| *name);
        Ok(Some(dirty))
    }

    /// A page of the member's log. None: it is of an earlier version of Heorot, and has none.
    async fn dirty_page(&self, after: Option<ObjectEntry>) -> Result<Option<dirty_regions::ResOk>, Stopped> {
        let args = dirty_regions::Args { target: self.member.target, chain: self.chain.id, after };
        let peer = self.chains.peers.get(self.member.address, crate::peers::Use::Fetch);
        let answer: Result<dirty_regions::Res, _> =
            peer.call(Procedure::DirtyRegions as u32, &args, PAGE_TIME_MAX).await;
        match answer {
            Ok(page) => page.map(Some).map_err(|status| Stopped::Failed(Some(status))),
            Err(CallFailure::Rejected(_)) => Ok(None),
            Err(_) => Err(Stopped::Failed(None)),
        }
    }
}

impl Chains {
    /// What the member here, on `target`, may have otherwise than the others of its chain.
    pub(crate) fn dirty_regions(&self, target: &Target, args: &dirty_regions::Args) -> dirty_regions::Res {
        let was_in = target.chain_records().was_in(args.chain);
        let Some(objects) = self.dirty.own(args.chain).filter(|_| was_in > 0) else {
            return Ok(dirty_regions::ResOk { was_in: 0, objects: vec![], done: true });
        };
        Ok(page(was_in, objects, args.after.as_ref().map(name)))
    }

    /// Begins the logs of the chains of a target, with what its former processes had not settled.
    pub(crate) fn begin_logs(&self, target: &Target) {
        for (chain, version, members_in) in target.chain_records().kept() {
            self.dirty.begin(chain, version, &members_in, target.unsettled().of_chain(chain));
        }
    }
}

/// The page after `after`.
fn page(was_in: u32, objects: DirtyObjects, after: Option<ObjectName>) -> dirty_regions::ResOk {
    let mut rest: Vec<_> =
        objects.into_iter().filter(|(name, _)| after.is_none_or(|after| *name > after)).collect();
    rest.sort_unstable_by_key(|(name, _)| *name);
    let done = rest.len() <= PAGE;
    let extent = |range: std::ops::Range<u64>| dirty_regions::Extent {
        offset: range.start,
        len: range.end - range.start,
    };
    let object = |(name, regions): (ObjectName, DirtyRegions)| dirty_regions::DirtyObject {
        object: entry(&name),
        extents: regions.ranges().map(extent).collect(),
    };
    dirty_regions::ResOk { was_in, objects: rest.into_iter().take(PAGE).map(object).collect(), done }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_one_another_to_the_end() {
        let of = |inode| ObjectName { inode, column: 0, volume: 1, generation: 1 };
        let count = 2 * PAGE as u64 + 1;
        let objects: DirtyObjects = (0..count).map(|inode| (of(inode), DirtyRegions::all())).collect();
        let (mut after, mut inodes, mut pages) = (None, Vec::new(), 0);
        loop {
            let page = page(7, objects.clone(), after);
            inodes.extend(page.objects.iter().map(|object| object.object.inode));
            after = page.objects.last().map(|object| name(&object.object));
            pages += 1;
            if page.done {
                break;
            }
        }
        assert_eq!((inodes, pages), ((0..count).collect(), 3));
        assert!(page(7, DirtyObjects::new(), None).done);
    }
}
