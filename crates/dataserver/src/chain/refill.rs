//! Refilling: the head of a chain gives a member all that it lacks.
//!
//! ```text
//! for each object of the chain at the head      make it, epochs, length ─▶ compare each MiB, send what differs
//! for each object of the chain at the member    remove it, if the head has none
//! report {chain, version, target}               with each registration, until the chain has a later version
//! ```
//!
//! A member that was in before, and that dirty logs know of, is refilled by them: only dirty objects are looked at, and
//! only their dirty regions compared (`chain::refill_dirty`).
//!
//! The member gets all new changes meanwhile. Each step holds the lock of its range at the head, so no change
//! of the range is under way, and the bytes that are compared are those of all members. What was compared
//! once stays equal. A change that began under the version before ends only when the member has it, too
//! (`chain::forward`). A new version begins the refilling anew: it reads again, and sends only what differs.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::Instant;
use wire::cluster::register::Refilled;
use wire::data::{Procedure, Status, list};

use super::Chains;
use super::table::{Chain, Member};
use crate::list::name;
use crate::object::ObjectName;
use crate::peers::Use;
use crate::target::Target;
use crate::targets::Targets;

/// Chains that are refilled at a time: each holds 2 MiB and some MiB of dirty logs, and has one region on its way.
const CHAINS_AT_A_TIME: usize = 8;
/// Objects of a page of the list.
const PAGE: u32 = 256;
/// Time limit of a page: a member reads the marks of all its objects up to the end of the page.
const LIST_TIME_MAX: Duration = Duration::from_secs(60);
/// Pause before a chain is begun again whose member did not answer.
const RETRY: Duration = Duration::from_secs(1);
/// Reason why the refilling of a member ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stopped {
    /// The chain has another version, or the server no lease.
    Changed,
    /// The member answered so, or not at all (none), or the own disk failed.
    Failed(Option<Status>),
}

impl From<crate::ObjectError> for Stopped {
    fn from(error: crate::ObjectError) -> Self {
        Stopped::Failed(Some(crate::data_program::refusal(error)))
    }
}

/// A member that is refilled, and the head that refills it.
pub(super) struct Refill {
    pub chains: Arc<Chains>,
    pub target: Arc<Target>,
    pub chain: Arc<Chain>,
    pub member: Member,
    /// Data servers that refill targets of the member's data server.
    pub heads: AtomicU32,
}

/// Members that were refilled, by chain, and the version.
#[derive(Default)]
pub(super) struct RefilledMembers(Mutex<BTreeMap<u64, (u32, Vec<u64>)>>);

impl RefilledMembers {
    pub(super) fn has(&self, chain: &Chain, target: u64) -> bool {
        let all = self.0.lock();
        all.get(&chain.id).is_some_and(|(version, done)| *version == chain.version && done.contains(&target))
    }

    fn add(&self, chain: &Chain, target: u64) {
        let mut all = self.0.lock();
        let (version, done) = all.entry(chain.id).or_default();
        if *version != chain.version {
            (*version, *done) = (chain.version, Vec::new());
        }
        done.push(target);
    }
}

impl Chains {
    /// Members that have been refilled, in the current versions of their chains.
    pub(crate) fn refilled_members(&self) -> Vec<Refilled> {
        let mut all = self.refilled.0.lock();
        all.retain(|id, (version, _)| self.table.get(*id).is_some_and(|chain| chain.version == *version));
        let of_chain = |(id, (version, targets)): (&u64, &(u32, Vec<u64>))| {
            let (chain, version) = (*id, *version);
            targets.iter().map(move |target| Refilled { chain, version, target: *target }).collect::<Vec<_>>()
        };
        all.iter().flat_map(of_chain).collect()
    }

    /// Refills members of the chains that this server's targets lead, for ever.
    pub(crate) async fn refill(self: Arc<Self>, targets: Arc<Targets>) {
        let mut running = JoinSet::new();
        let mut refilled: BTreeMap<u64, SocketAddr> = BTreeMap::new();
        let mut news = self.table.news();
        loop {
            let led = self.table.led_by(&targets.ids());
            self.share_pace(&led);
            self.forget_names();
            while running.len() < CHAINS_AT_A_TIME
                && let Some(refill) = self.next_refill(&led, &targets, &refilled)
            {
                refilled.insert(refill.chain.id, refill.member.address);
                running.spawn(refill.run());
            }
            self.metrics.refilling.set(running.len() as i64);
            tokio::select! {
                biased;
                // Also each extension of the lease: once a second.
                () = news.changed() => {}
                Some(ended) = running.join_next() => match ended {
                    Ok(chain) => drop(refilled.remove(&chain)),
                    Err(error) => {
                        tracing::error!(%error, "the refilling of a member of a chain ended");
                        running.shutdown().await;
                        refilled.clear();
                    }
                },
            }
        }
    }
}

impl Chains {
    /// The next member to refill, of a data server that is refilled least now: the links of all are used. `refilled`: those
    /// that are under way, by chain.
    fn next_refill(
        self: &Arc<Self>,
        led: &[(u64, Arc<Chain>)],
        targets: &Targets,
        refilled: &BTreeMap<u64, SocketAddr>,
    ) -> Option<Refill> {
        let lacking = led.iter().filter(|(_, chain)| !refilled.contains_key(&chain.id));
        let lacking = lacking.filter_map(|(target, chain)| {
            let member = self.lacking(*target, chain).next()?;
            Some((targets.get(*target)?, chain, member))
        });
        let under_way = |member: &Member| refilled.values().filter(|at| **at == member.address).count();
        let (target, chain, member) = lacking.min_by_key(|(.., member)| under_way(member))?;
        Some(Refill {
            chains: Arc::clone(self),
            target,
            chain: Arc::clone(chain),
            member: member.clone(),
            heads: AtomicU32::new(1),
        })
    }

    /// Shares the time that clients leave among the data servers that are refilled.
    fn share_pace(&self, led: &[(u64, Arc<Chain>)]) {
        let lacking = led.iter().flat_map(|(target, chain)| self.lacking(*target, chain));
        let members: BTreeSet<SocketAddr> = lacking.map(|member| member.address).collect();
        self.pace.refills(members.len());
    }

    /// Sets the limit of all refills of this server, in bytes per second.
    pub(crate) fn set_refill_rate(&self, rate: u64) {
        self.pace.set_rate(rate);
    }
}

impl Refill {
    /// Refills the member. Returns the chain's id.
    async fn run(self) -> u64 {
        let (id, version) = (self.chain.id, self.chain.version);
        let began = Instant::now();
        tracing::debug!(chain = %format!("{id:016x}"), version, member = %self.member.address, "refills a member");
        let filled = self.fill().await;
        self.chains.progress.ended(id);
        match filled {
            Ok((objects, is_by_logs)) => {
                self.chains.refilled.add(&self.chain, self.member.target);
                if is_by_logs {
                    self.chains.metrics.refills_by_logs.inc();
                }
                tracing::debug!(
                    chain = %format!("{id:016x}"), version, member = %self.member.address, objects, is_by_logs,
                    seconds = began.elapsed().as_secs(), "refilled a member"
                );
            }
            Err(Stopped::Changed) => {}
            Err(Stopped::Failed(status)) => {
                tracing::warn!(
                    chain = %format!("{id:016x}"), version, member = %self.member.address, ?status,
                    "refilling a member failed, trying again"
                );
                let _ = tokio::time::timeout(RETRY, self.chains.table.later_than(id, version)).await;
            }
        }
        id
    }

    /// Refills the member. Returns the number of objects that were compared, and whether dirty logs named them.
    async fn fill(&self) -> Result<(u64, bool), Stopped> {
        self.still_leads()?;
        match self.fill_by_logs().await? {
            Some(objects) => Ok((objects, true)),
            None => {
                self.compares_all().await?;
                self.chains.progress.begins(self.chain.id);
                Ok((self.all().await?, false))
            }
        }
    }

    async fn all(&self) -> Result<u64, Stopped> {
        let mut objects = 0;
        match self.chains.names_of(&self.target, &self.chain).await? {
            Some(names) => {
                for name in names.iter() {
                    self.still_leads()?;
                    self.object(*name, None).await?;
                    objects += 1;
                }
            }
            None => objects = self.all_by_pages().await?,
        }
        self.remove_others().await?;
        Ok(objects)
    }

    /// The objects of a chain that are too many to be listed before.
    async fn all_by_pages(&self) -> Result<u64, Stopped> {
        let mut objects = 0;
        let mut after = None;
        loop {
            self.still_leads()?;
            let chain = self.chain.id;
            let page = self.target.run(move |o| o.list_of_chain(after, PAGE, chain)).await?;
            for entry in &page.objects {
                self.object(name(entry), None).await?;
                objects += 1;
            }
            after = page.next();
            if after.is_none() {
                return Ok(objects);
            }
        }
    }

    /// Removes the objects of the chain that only the member has: they were removed while it was away.
    async fn remove_others(&self) -> Result<(), Stopped> {
        let peer = self.chains.peers.get(self.member.address, Use::Fetch);
        let mut args =
            list::Args { target: self.member.target, after: None, max: PAGE, chain: self.chain.id };
        loop {
            let answer: Result<list::Res, _> = peer.call(Procedure::List as u32, &args, LIST_TIME_MAX).await;
            let page = answer.map_err(|_| Stopped::Failed(None))?.map_err(|e| Stopped::Failed(Some(e)))?;
            let names: Vec<ObjectName> = page.objects.iter().map(name).collect();
            for name in names {
                self.remove_if_missing(name).await?;
            }
            args.after = page.next();
            if args.after.is_none() {
                return Ok(());
            }
        }
    }

    /// An error unless this server leads the chain, in the same version.
    pub(super) fn still_leads(&self) -> Result<(), Stopped> {
        match self.chains.table.serving(self.chain.id, self.target.id()) {
            Ok(chain) if chain.version == self.chain.version => Ok(()),
            _ => Err(Stopped::Changed),
        }
    }
}
