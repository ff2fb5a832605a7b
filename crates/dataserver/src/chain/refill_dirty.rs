//! Refilling a member by dirty logs: what it may lack, by the logs of the head and its own.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nfs::CallFailure;
use wire::data::{ObjectEntry, Procedure, Status, dirty_regions};

use super::Chains;
use super::compare::Was;
use super::dirty_log::{DirtyObjects, OBJECTS_MAX};
use super::refill::{Refill, Stopped};
use super::regions::DirtyRegions;
use crate::list::{entry, name};
use crate::object::ObjectName;
use crate::peers::Use;
use crate::target::Target;

/// Objects of a page: with 64 extents each, 270 KiB.
const PAGE: usize = 256;
/// Time that a member waits to hear of the version in which it is refilled.
const HEAR_TIME_MAX: Duration = Duration::from_secs(2);
/// Time limit of a page.
const PAGE_TIME_MAX: Duration = Duration::from_secs(5);
/// Passes over objects that forwarded changes have made at the member meanwhile.
const PASSES_MAX: usize = 16;
/// Versions of a chain from here on, and from each multiple on, come after a restore of the metaservers from a backup:
/// a chain goes on with members that the records of targets lead to, and all others are compared whole.
const RESTORE_BITS: u32 = 16;

impl Refill {
    /// Refills the member by logs. Returns the number of objects that were compared; none: the logs do not tell what
    /// the member lacks, and all must be compared.
    pub(super) async fn fill_by_logs(&self) -> Result<Option<u64>, Stopped> {
        let log = self.chains.dirty.since_member(self.chain.id, self.member.target);
        let Some((since, mut dirty)) = log else { return Ok(None) };
        if since >> RESTORE_BITS != self.chain.version >> RESTORE_BITS {
            return Ok(None);
        }
        let Some(of_member) = self.log_of_member(since).await? else { return Ok(None) };
        for (name, regions) in of_member {
            let to = dirty.entry(name).or_default();
            for range in regions.ranges() {
                to.add(range);
            }
        }
        let (mut compared, mut whole) = (0, BTreeSet::new());
        let mut next: Vec<(ObjectName, DirtyRegions)> = dirty.into_iter().collect();
        for _ in 0..PASSES_MAX {
            for (name, regions) in &next {
                self.still_leads()?;
                match self.object(*name, Some(regions)).await? {
                    Was::Missing => self.remove_if_missing(*name).await?,
                    Was::New => {
                        whole.insert(*name);
                    }
                    Was::There | Was::Elsewhere => {}
                }
                if regions.are_all() {
                    whole.insert(*name);
                }
                compared += 1;
            }
            // A change that came meanwhile may have made an object that was not there.
            let Some(of_member) = self.log_of_member(since).await? else { return Ok(None) };
            let is_new =
                |(name, regions): &(ObjectName, DirtyRegions)| regions.are_all() && !whole.contains(name);
            next = of_member.into_iter().filter(is_new).collect();
            if next.is_empty() {
                return Ok(Some(compared));
            }
        }
        Ok(None)
    }

    /// Tells the member that it is compared whole.
    pub(super) async fn compares_all(&self) -> Result<(), Stopped> {
        self.log_of_member(u32::MAX).await.map(drop)
    }

    /// The member's log. None: it is not known, or no log.
    async fn log_of_member(&self, since: u32) -> Result<Option<DirtyObjects>, Stopped> {
        let mut log = DirtyObjects::new();
        let mut after: Option<ObjectEntry> = None;
        loop {
            self.still_leads()?;
            let Some(page) = self.page_of_member(since, after).await? else { return Ok(None) };
            self.heads.store(page.heads, Ordering::Relaxed);
            let is_empty = page.objects.is_empty();
            for object in page.objects {
                let of = name(&object.object);
                let is_next = after.is_none_or(|after| name(&after) < of);
                if !page.is_known || !is_next || log.len() > OBJECTS_MAX {
                    return Ok(None);
                }
                after = Some(object.object);
                let regions = log.entry(of).or_default();
                for extent in &object.extents {
                    regions.add(extent.offset..extent.offset.saturating_add(extent.len));
                }
            }
            match (page.is_known, page.done) {
                (false, _) => return Ok(None),
                (true, true) => return Ok(Some(log)),
                (true, false) if is_empty => return Ok(None),
                (true, false) => {}
            }
        }
    }

    /// A page of the member's log. None: it is of an earlier version of Heorot, and has none.
    async fn page_of_member(
        &self,
        since: u32,
        after: Option<ObjectEntry>,
    ) -> Result<Option<dirty_regions::ResOk>, Stopped> {
        let (chain, version, target) = (self.chain.id, self.chain.version, self.member.target);
        let args = dirty_regions::Args { target, chain, version, since, after };
        let peer = self.chains.peers.get(self.member.address, Use::Fetch);
        let answer: Result<dirty_regions::Res, _> =
            peer.call(Procedure::DirtyRegions as u32, &args, PAGE_TIME_MAX).await;
        match answer {
            Ok(page) => page.map(Some).map_err(|status| Stopped::Failed(Some(status))),
            Err(CallFailure::Rejected(_) | CallFailure::Malformed) => Ok(None),
            Err(_) => Err(Stopped::Failed(None)),
        }
    }
}

impl Chains {
    /// What the member here, on `target`, may have otherwise than the others of its chain.
    pub(crate) async fn dirty_regions(
        self: &Arc<Self>,
        target: &Arc<Target>,
        args: &dirty_regions::Args,
    ) -> dirty_regions::Res {
        // What was under way when the member was taken out is in its log only once it has heard of that.
        let heard = self.table.later_than(args.chain, args.version.saturating_sub(1));
        let _ = tokio::time::timeout(HEAR_TIME_MAX, heard).await;
        let chain = self.table.get(args.chain).filter(|chain| chain.version == args.version);
        let chain = chain.ok_or(Status::ChainWaits)?;
        let own = chain.member(target.id()).filter(|member| member.is_refilling).ok_or(Status::StaleChain)?;
        let heads = self.table.heads_that_refill(own.address);
        let unknown = dirty_regions::ResOk { is_known: false, objects: vec![], done: true, heads };
        let was_in = target.chain_records().was_in(args.chain);
        if was_in == 0 || was_in < args.since {
            self.dirty.is_compared_whole(args.chain);
            self.begin_names(target, chain);
            return Ok(unknown);
        }
        let page = self.dirty.own(args.chain, args.after.as_ref().map(name), PAGE);
        Ok(page.map_or(unknown, |(objects, has_more)| dirty_regions::ResOk {
            is_known: true,
            objects: objects.iter().map(to_wire).collect(),
            done: !has_more,
            heads,
        }))
    }

    /// Begins the logs of the chains of a target, with what its former process has left.
    pub(crate) fn begin_logs(&self, target: &Target) {
        self.dirty.serves(target.id());
        for kept in target.chain_records().kept() {
            let left = target.dirty_log_file().of_chain(kept.chain);
            self.dirty.begin(kept, left);
        }
        target.dirty_log_file().begin(Arc::clone(&self.dirty));
    }
}

fn to_wire((name, regions): &(ObjectName, DirtyRegions)) -> dirty_regions::DirtyObject {
    let extent = |range: std::ops::Range<u64>| dirty_regions::Extent {
        offset: range.start,
        len: range.end - range.start,
    };
    dirty_regions::DirtyObject { object: entry(name), extents: regions.ranges().map(extent).collect() }
}
