//! Chains of this server's targets, and its lease, as the leader of the metaservers told them. A process
//! that starts serves no column with copies until it has a lease and its chains: the records of chains on its targets
//! serve restores alone.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use host::Clock;
use parking_lot::Mutex;
use wire::data::{self, MemberState, WriteVerifier};

use super::dirty_log::DirtyLog;
use super::news::{News, NewsReader};

/// Chains that are kept: 64 for each of 1024 targets, far more than one server has.
const CHAINS_MAX: usize = 65_536;
/// Members of a chain that are believed: three copies, and members that are being replaced.
const MEMBERS_MAX: usize = 16;

/// Pause before a call to another member is repeated.
const RETRY: Duration = Duration::from_millis(100);

/// A member that takes part in the changes of its chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub target: u64,
    pub address: SocketAddr,
    /// True if it is being refilled: it gets all changes, and serves nothing.
    pub is_refilling: bool,
}

/// A chain in one version.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    pub id: u64,
    pub version: u32,
    pub verifier: WriteVerifier,
    /// In the order of forwarding: the members that are in, then those that are being refilled. So a member
    /// that has all data stands before every one that has not, and takes its place without a gap.
    members: Vec<Member>,
    /// Targets of members that are away.
    away: Vec<u64>,
}

impl Chain {
    /// None: a member's address is no address, or there are too many members.
    fn new(told: &data::Chain) -> Option<Self> {
        if told.members.len() > MEMBERS_MAX {
            return None;
        }
        let mut members = Vec::with_capacity(told.members.len());
        for state in [MemberState::In, MemberState::Refilling] {
            for member in told.members.iter().filter(|member| member.state == state) {
                let address = std::str::from_utf8(&member.address).ok()?.parse().ok()?;
                let is_refilling = state == MemberState::Refilling;
                members.push(Member { target: member.target, address, is_refilling });
            }
        }
        let away = told.members.iter().filter(|member| member.state == MemberState::Away);
        let away = away.map(|member| member.target).collect();
        Some(Self {
            id: told.id,
            version: told.version,
            verifier: told.verifier.to_be_bytes(),
            members,
            away,
        })
    }

    /// True if a member lacks data, and gets it.
    pub(crate) fn has_refilling(&self) -> bool {
        self.members.iter().any(|member| member.is_refilling)
    }

    /// The member that orders the changes; none: no member is in.
    pub(crate) fn head(&self) -> Option<&Member> {
        self.members.first().filter(|head| !head.is_refilling)
    }

    pub(crate) fn is_head(&self, target: u64) -> bool {
        self.head().is_some_and(|head| head.target == target)
    }

    /// The member with this target; none: it is away, or was never one.
    pub(crate) fn member(&self, target: u64) -> Option<&Member> {
        self.members.iter().find(|member| member.target == target)
    }

    /// The member that a change goes to after `target`.
    pub(crate) fn next(&self, target: u64) -> Option<&Member> {
        let at = self.members.iter().position(|member| member.target == target)?;
        self.members.get(at + 1)
    }

    /// True if the member after `target` is in.
    pub(crate) fn has_next_in(&self, target: u64) -> bool {
        self.next(target).is_some_and(|next| !next.is_refilling)
    }

    /// All members but `target`.
    pub(crate) fn others(&self, target: u64) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(move |member| member.target != target)
    }
}

/// Reason why a target does not serve a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotServing {
    /// It has no lease, or does not know the chain, or the chain has no head: this may pass.
    Waits,
    /// It is no member.
    NoMember,
    /// It is being refilled.
    Refilling,
}

/// The table.
pub(crate) struct ChainTable {
    clock: Arc<dyn Clock>,
    dirty: Arc<DirtyLog>,
    state: Mutex<State>,
    /// True if the server stops.
    takes_no_lease: AtomicBool,
    /// Counts the changes of the table and of the lease.
    news: Arc<News>,
}

#[derive(Default)]
struct State {
    chains: BTreeMap<u64, Arc<Chain>>,
    /// End of the lease by the monotonic clock.
    lease_until: Duration,
    /// Version of the cluster map whose chains are all here; 0: none.
    map_version: u64,
    /// Chains that a target here leaves, with the version that it left and its id: see [`ChainTable::leave`].
    left: BTreeMap<u64, (u32, u64)>,
    /// Chains that no target here is a member of any more, with the last known version.
    dropped: BTreeMap<u64, u32>,
}

impl State {
    fn has_left(&self, chain: &Chain, target: u64) -> bool {
        self.left.get(&chain.id) == Some(&(chain.version, target))
    }
}

impl ChainTable {
    pub(crate) fn new(clock: Arc<dyn Clock>, dirty: Arc<DirtyLog>) -> Self {
        Self {
            clock,
            dirty,
            state: Mutex::default(),
            takes_no_lease: AtomicBool::new(false),
            news: Arc::default(),
        }
    }

    /// Takes over the chains whose version is later than the one that is known. Returns chains, with targets here, whose
    /// members have been taken in and are incomplete: they leave, and their targets must note a loss.
    #[must_use]
    pub(crate) fn tell(&self, chains: &[data::Chain]) -> Vec<(u64, u64)> {
        let mut state = self.state.lock();
        let mut incomplete = Vec::new();
        for told in chains {
            let known = state.chains.get(&told.id).map(|chain| chain.version);
            let is_dropped = state.dropped.get(&told.id).is_some_and(|version| *version >= told.version);
            if is_dropped || known.is_some_and(|version| version >= told.version) {
                continue;
            }
            match Chain::new(told) {
                Some(_) if known.is_none() && state.chains.len() >= CHAINS_MAX => {
                    tracing::error!(chain = told.id, "too many chains: this one is not served here");
                }
                Some(chain) => {
                    state.left.remove(&told.id);
                    state.dropped.remove(&told.id);
                    state.chains.insert(told.id, Arc::new(chain));
                    incomplete.extend(self.dirty.hear(told).map(|target| (told.id, target)));
                }
                None => {
                    tracing::error!(chain = told.id, "malformed members of a chain: the change is ignored")
                }
            }
        }
        for (id, target) in incomplete.iter().copied() {
            tracing::warn!(
                chain = %format!("{id:016x}"), target = %format!("{target:016x}"),
                "a member of a chain lacks an object that nothing told the head of: it leaves the chain and is refilled again"
            );
            leave(&mut state, id, target);
        }
        drop(state);
        self.notify();
        incomplete
    }

    /// Takes over all chains of this version of the cluster map. No target here is a member of the others any more,
    /// unless the version is an earlier one.
    #[must_use]
    pub(crate) fn tell_all(&self, map_version: u64, chains: &[data::Chain]) -> Vec<(u64, u64)> {
        let mut state = self.state.lock();
        if map_version > state.map_version {
            let told: BTreeSet<u64> = chains.iter().map(|chain| chain.id).collect();
            let gone = |chain: &Arc<Chain>| (chain.id, chain.version);
            let gone: Vec<(u64, u32)> =
                state.chains.values().filter(|chain| !told.contains(&chain.id)).map(gone).collect();
            for (id, version) in gone {
                state.chains.remove(&id);
                state.left.remove(&id);
                state.dropped.insert(id, version);
            }
            for id in &told {
                state.dropped.remove(id);
            }
            self.dirty.keep(&told);
            state.map_version = map_version;
        }
        drop(state);
        self.tell(chains)
    }

    /// Stops serving a chain whose member `target` is dropped next. False: another member is not known to be in, or
    /// the chain is not known.
    pub(crate) fn stop(&self, id: u64, version: u32, target: u64) -> bool {
        match self.get(id) {
            Some(chain) if chain.version == version => self.leave(id, target),
            Some(chain) => chain.version > version,
            None => self.state.lock().dropped.contains_key(&id),
        }
    }

    /// True if the target is no member of the chain, as far as all chains are known.
    pub(crate) fn is_no_member(&self, id: u64, target: u64) -> bool {
        let state = self.state.lock();
        state.map_version > 0 && state.chains.get(&id).is_none_or(|chain| chain.member(target).is_none())
    }

    /// Version of the cluster map whose chains are all known; 0: none.
    pub(crate) fn map_version(&self) -> u64 {
        self.state.lock().map_version
    }

    /// Extends the lease. `from`: time by the monotonic clock when it was asked for.
    pub(crate) fn extend_lease(&self, from: Duration, time: Duration) {
        let mut state = self.state.lock();
        if self.takes_no_lease.load(Ordering::SeqCst) {
            return;
        }
        state.lease_until = state.lease_until.max(from.saturating_add(time));
        drop(state);
        self.notify();
    }

    /// Gives the lease up, and takes no other: nothing is served from now on.
    pub(crate) fn give_up_lease(&self) {
        let mut state = self.state.lock();
        self.takes_no_lease.store(true, Ordering::SeqCst);
        state.lease_until = Duration::ZERO;
        drop(state);
        self.notify();
    }

    /// Forgets all: the chains are another incarnation's from now on.
    pub(crate) fn forget(&self) {
        let mut state = self.state.lock();
        *state = State::default();
        self.dirty.forget_all();
        drop(state);
        self.notify();
    }

    fn notify(&self) {
        self.news.tell();
    }

    pub(crate) fn get(&self, id: u64) -> Option<Arc<Chain>> {
        self.state.lock().chains.get(&id).cloned()
    }

    /// All chains that one of `targets` is the head of, while the server has a lease.
    pub(crate) fn led_by(&self, targets: &[u64]) -> Vec<(u64, Arc<Chain>)> {
        let state = self.state.lock();
        if self.clock.monotonic() >= state.lease_until {
            return Vec::new();
        }
        let leads = |chain: &Chain, target| chain.is_head(target) && !state.has_left(chain, target);
        let head = |chain: &Arc<Chain>| targets.iter().copied().find(|target| leads(chain, *target));
        state.chains.values().filter_map(|chain| Some((head(chain)?, Arc::clone(chain)))).collect()
    }

    /// Data servers that refill members at this address, as heads of their chains.
    pub(crate) fn heads_that_refill(&self, address: SocketAddr) -> u32 {
        let state = self.state.lock();
        let is_refilled = |chain: &&Arc<Chain>| {
            chain.members.iter().any(|member| member.is_refilling && member.address == address)
        };
        let refilled = state.chains.values().filter(is_refilled);
        let heads: BTreeSet<SocketAddr> = refilled.filter_map(|chain| Some(chain.head()?.address)).collect();
        u32::try_from(heads.len()).unwrap_or(u32::MAX)
    }

    /// Chains that `target` is a member of, and of which a member is refilled.
    pub(crate) fn refilled_with(&self, target: u64) -> Vec<Arc<Chain>> {
        let state = self.state.lock();
        let is_one = |chain: &&Arc<Chain>| chain.has_refilling() && chain.member(target).is_some();
        state.chains.values().filter(is_one).cloned().collect()
    }

    /// The chain, if `target` is a member of it that serves, and its server has a lease.
    pub(crate) fn serving(&self, id: u64, target: u64) -> Result<Arc<Chain>, NotServing> {
        let state = self.state.lock();
        let is_dropped = || state.dropped.contains_key(&id);
        let chain = state.chains.get(&id).ok_or_else(|| match is_dropped() {
            true => NotServing::NoMember,
            false => NotServing::Waits,
        })?;
        if self.clock.monotonic() >= state.lease_until {
            return Err(NotServing::Waits);
        }
        let member = chain.member(target).ok_or(NotServing::NoMember)?;
        if state.has_left(chain, target) {
            return Err(NotServing::Waits);
        }
        match (member.is_refilling, chain.head()) {
            (_, None) => Err(NotServing::Waits),
            (true, Some(_)) => Err(NotServing::Refilling),
            (false, Some(_)) => Ok(Arc::clone(chain)),
        }
    }

    /// The chain, if `target` serves it, or is being refilled: then it can pass a call on to the head. A member that is
    /// away but hears of its chain is about to be taken back.
    pub(crate) fn reached(&self, id: u64, target: u64) -> Result<Arc<Chain>, NotServing> {
        let is_away = || self.get(id).is_some_and(|chain| chain.away.contains(&target));
        match self.serving(id, target) {
            Err(NotServing::Refilling) => self.get(id).ok_or(NotServing::Waits),
            Err(NotServing::NoMember) if is_away() => Err(NotServing::Waits),
            found => found,
        }
    }

    /// What `find` finds, when the reason why not may pass, after at most `hold`.
    pub(crate) async fn soon(
        &self,
        hold: Duration,
        find: impl Fn() -> Result<Arc<Chain>, NotServing>,
    ) -> Result<Arc<Chain>, NotServing> {
        match find() {
            Err(NotServing::Waits) if !hold.is_zero() => {}
            found => return found,
        }
        let found = async {
            let mut news = self.news.reader();
            loop {
                match find() {
                    Err(NotServing::Waits) => {}
                    found => return found,
                }
                news.changed().await;
            }
        };
        tokio::time::timeout(hold, found).await.unwrap_or(Err(NotServing::Waits))
    }

    /// From now on `target` does not serve the chain any more, until the chain has a later version. False: it is
    /// no member, or no other member is in; then it serves what it has.
    pub(crate) fn leave(&self, id: u64, target: u64) -> bool {
        let leaves = leave(&mut self.state.lock(), id, target);
        if leaves {
            self.notify();
        }
        leaves
    }

    /// True if `target` leaves the chain, in its present version.
    pub(crate) fn has_left(&self, id: u64, target: u64) -> bool {
        let state = self.state.lock();
        state.chains.get(&id).is_some_and(|chain| state.has_left(chain, target))
    }

    /// [`ChainTable::leave`] for all chains of the target.
    pub(crate) fn leave_all(&self, target: u64) {
        let of_target = |chain: &&Arc<Chain>| chain.member(target).is_some();
        let ids: Vec<u64> =
            self.state.lock().chains.values().filter(of_target).map(|chain| chain.id).collect();
        for id in ids {
            self.leave(id, target);
        }
    }

    /// Chains that targets here have left, with the version and the target, as long as that version is known.
    pub(crate) fn left(&self) -> Vec<(u64, u32, u64)> {
        let state = self.state.lock();
        state.left.iter().map(|(id, (version, target))| (*id, *version, *target)).collect()
    }

    /// Waits until the chain has a later version than this, or no target here is a member any more.
    pub(crate) async fn later_than(&self, id: u64, version: u32) {
        let mut news = self.news.reader();
        let is_dropped = || self.state.lock().dropped.contains_key(&id);
        while self.get(id).is_none_or(|chain| chain.version <= version) && !is_dropped() {
            news.changed().await;
        }
    }

    /// Waits until the chain has a later version than this, or for the pause before a call is repeated.
    pub(crate) async fn later_or_pause(&self, id: u64, version: u32) {
        let _ = tokio::time::timeout(RETRY, self.later_than(id, version)).await;
    }

    /// News of each change of the table and of the lease.
    pub(super) fn news(&self) -> NewsReader {
        self.news.reader()
    }

    /// Waits until `target` is not the head of the chain.
    pub(crate) async fn other_head_than(&self, id: u64, target: u64) {
        let mut news = self.news.reader();
        let is_dropped = || self.state.lock().dropped.contains_key(&id);
        while self.get(id).is_none_or(|chain| chain.is_head(target)) && !is_dropped() {
            news.changed().await;
        }
    }
}

fn leave(state: &mut State, id: u64, target: u64) -> bool {
    let Some(chain) = state.chains.get(&id) else { return false };
    let is_in = |member: &Member| !member.is_refilling;
    if chain.member(target).is_none() || !chain.others(target).any(is_in) {
        return false;
    }
    let version = chain.version;
    state.left.insert(id, (version, target));
    true
}

#[cfg(test)]
#[path = "table/tests.rs"]
mod tests;
