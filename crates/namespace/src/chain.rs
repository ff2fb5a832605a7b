//! Chains: ordered lists of targets that keep the same columns ([decision
//! 10](../../../docs/decisions/0010-chains.md)).
//!
//! ```text
//!            ┌──────────── Away ◀───────────┐ silent, restarted, failed
//!            ▼ (it is there again)          │
//!        Refilling ── has all data ──▶ In ──┘        the first that is In is the head
//! ```
//!
//! A column without copies is on the chain of one target, whose id is that of the target, and which has no record
//! here. Each change of a record raises the chain's version: a data server obeys the calls of one version.
//!
//! **The last member that is in stays in.** It alone has all data that were acknowledged, so nothing may go on
//! without it: the chain waits for it.
//!
//! **A process that starts again has forgotten unsynced writes.** A member is in by its process. When its data
//! server reports another one, the member counts as away ([`present_chain`]), until the leader has it refilled.
//! When all members that were in have started again, the first that is there leads, with another write verifier.
//!
//! **A chain of one target takes columns that exist.** See [`open`].
//!
//! **A backup knows old members.** After a restore the members that were in are in doubt, until data servers have told
//! which ones were in last ([`ChainStep::Adopt`]).

pub(crate) mod open;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use store::{StoreError, View};

use crate::plan::{Plan, Stop};
use crate::record::get;
use crate::{DataServer, DataServerId, Error, PoolId, Reply, TargetId, Time, cluster_map, keys, pools};

/// Maximum of members of a chain: copies of a column.
pub const COPIES_MAX: usize = 3;
/// Maximum of chains: 64 for each of a thousand targets. All are in the memory of each metaserver.
pub const CHAINS_MAX: u32 = 65_536;
/// Versions between two restores from backups: those after a restore are later than all of a history that ended
/// with it, and of which a data server may know still.
const VERSIONS_OF_HISTORY: u32 = 1 << 16;
/// Maximum of versions that data servers may tell of: no chain changes that often.
const VERSION_MAX: u32 = u32::MAX / 2;
/// Maximum of chains that one command makes or changes: with the index, within
/// [`crate::RECORDS_OF_COMMAND_MAX`] records.
pub const CHAINS_OF_COMMAND_MAX: usize = 128;

/// Id of a chain, or of the target that is the only member of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ChainId(pub u64);

impl From<TargetId> for ChainId {
    fn from(target: TargetId) -> Self {
        Self(target.0)
    }
}

/// State of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum MemberState {
    /// It has all data.
    In,
    /// It gets all writes, and the data that it lacks from the head.
    Refilling,
    /// It gets nothing.
    Away,
    /// As `Away`: it was in when a backup was taken, which the group was restored from since.
    Doubted,
}

/// Member of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainMember {
    /// Its target.
    pub target: TargetId,
    /// Its state.
    pub state: MemberState,
    /// [`DataServer::process`] that got this state.
    pub process: u64,
    /// Time of the change to this state.
    pub since: Time,
}

/// A chain of several targets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chain {
    /// Its id.
    pub id: ChainId,
    /// Number of changes, from 1.
    pub version: u32,
    /// Write verifier of its members. Another one: unstable writes may be lost.
    pub verifier: u64,
    /// Wanted number of members. While one takes the place of another that still serves, there is one more.
    pub copies: u8,
    /// Members: those that are in, the head first, then the others.
    pub members: Vec<ChainMember>,
    /// Member whose place another one takes, though it serves: [`ChainStep::Move`]. The only member: the chain is
    /// open ([`Chain::is_open`]). [`open::CLOSING`]: it is closed, and gets no other members yet.
    pub leaving: Option<TargetId>,
    /// Its pool: its members are there, or on their way.
    pub pool: PoolId,
}

impl Chain {
    /// The first member that is in.
    #[must_use]
    pub fn head(&self) -> Option<TargetId> {
        self.with_state(MemberState::In).next()
    }

    /// Targets of the members in this state, in order.
    pub fn with_state(&self, state: MemberState) -> impl Iterator<Item = TargetId> + '_ {
        self.members.iter().filter(move |member| member.state == state).map(|member| member.target)
    }

    /// True if the target is a member, in whatever state.
    #[must_use]
    pub fn has(&self, target: TargetId) -> bool {
        self.members.iter().any(|member| member.target == target)
    }

    /// True if a restore from a backup put its members in doubt, and no member is known to have all data yet.
    #[must_use]
    pub fn is_in_doubt(&self) -> bool {
        self.head().is_none() && self.with_state(MemberState::Doubted).next().is_some()
    }

    /// The chain as it is when targets have these processes now; none: the target has no data server.
    #[must_use]
    pub fn with_processes(mut self, process_of: impl Fn(TargetId) -> Option<u64>) -> Self {
        for member in &mut self.members {
            if process_of(member.target) != Some(member.process) {
                member.state = MemberState::Away;
            }
        }
        self
    }
}

/// Change of one chain. It has no effect if the chain has another version by now, or is not in the state that it
/// is for: the proposer looks again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainChange {
    /// The chain.
    pub chain: ChainId,
    /// Its version before the change.
    pub version: u32,
    /// The change.
    pub step: ChainStep,
}

/// Step of a member of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChainStep {
    /// The member gets no more calls. Not the last one that is in.
    Leave(TargetId),
    /// The member is there again, and is refilled.
    Return(TargetId),
    /// The member has been refilled, in the present process of its data server.
    Complete(TargetId),
    /// All members that were in have started again: this one of them is in, with a new write verifier.
    Lead(TargetId),
    /// The first target, which is away, is replaced by the second, which is refilled.
    Replace(TargetId, TargetId),
    /// The target is one member more, and is refilled.
    Add(TargetId),
    /// The second target is one member more, and is refilled, to take the place of the first, which is in.
    Move(TargetId, TargetId),
    /// The target is a member no more: enough others have all data. Ends a [`ChainStep::Move`].
    Drop(TargetId),
    /// The group is restored from a backup: no member is known to have all data. Not a new version: data servers may
    /// know later ones.
    Doubt,
    /// These targets were in last, in this version, by the word of data servers. The first is in, with a new write
    /// verifier; the others are away, as are members of before, where fewer than the wanted number were in.
    Adopt([Option<TargetId>; COPIES_MAX], u32),
    /// The open chain takes no more columns that exist.
    Close,
    /// All objects of the closed chain know of it: it gets the other members that it wants.
    Closed,
    /// The chain gets this many copies, more than it has.
    Copies(u8),
    /// The chain is of this pool, in which a member is: the one that it was of has no targets.
    Pool(PoolId),
}

/// A new chain: its random id, and its targets, which are in one pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewChain {
    /// Its id.
    pub id: ChainId,
    /// Its targets, the head first.
    pub targets: Vec<TargetId>,
}

/// The chain with this id as it is now: members whose process has changed are away.
pub(crate) fn present_chain(view: &dyn View, id: ChainId) -> Result<Option<Chain>, StoreError> {
    let Some(chain) = get::<Chain>(view, &keys::chain(id))? else { return Ok(None) };
    let mut processes = Vec::with_capacity(chain.members.len());
    for member in &chain.members {
        processes.push((member.target, process_of(view, member.target)?));
    }
    let process = |target| processes.iter().find(|(other, _)| *other == target).and_then(|(_, found)| *found);
    Ok(Some(chain.with_processes(process)))
}

fn server_of(view: &dyn View, target: TargetId) -> Result<Option<DataServer>, StoreError> {
    match get::<DataServerId>(view, &keys::target(target))? {
        Some(id) => get(view, &keys::data_server(id)),
        None => Ok(None),
    }
}

fn process_of(view: &dyn View, target: TargetId) -> Result<Option<u64>, StoreError> {
    Ok(server_of(view, target)?.map(|server| server.process))
}

/// Makes chains of empty targets' places, all of their members in.
pub(crate) fn make(plan: &mut Plan<'_>, chains: &[NewChain]) -> Result<Reply, Stop> {
    let mut head = cluster_map::head(plan.view())?;
    if chains.len() > CHAINS_OF_COMMAND_MAX || head.chains as usize + chains.len() > CHAINS_MAX as usize {
        return Err(Error::Invalid.into());
    }
    for NewChain { id, targets } in chains {
        let is_taken = get::<Chain>(plan.view(), &keys::chain(*id))?.is_some()
            || get::<DataServerId>(plan.view(), &keys::target(TargetId(id.0)))?.is_some();
        if is_taken || targets.len() < 2 || targets.len() > COPIES_MAX {
            return Err(Error::Invalid.into());
        }
        let (mut servers, mut members) = (BTreeSet::new(), Vec::with_capacity(targets.len()));
        let pool =
            targets.first().map_or(Ok(PoolId::DEFAULT), |first| pools::pool_of(plan.view(), *first))?;
        for target in targets {
            let server = server_of(plan.view(), *target)?.ok_or(Error::NoDevice)?;
            if !servers.insert(server.id) || pools::pool_of(plan.view(), *target)? != pool {
                return Err(Error::Invalid.into());
            }
            let (state, since) = (MemberState::In, plan.now());
            members.push(ChainMember { target: *target, state, process: server.process, since });
            plan.mark(&keys::chain_of_target(*target, *id));
        }
        let verifier = plan.random();
        let copies = members.len() as u8;
        plan.put(
            &keys::chain(*id),
            &Chain { id: *id, version: 1, verifier, copies, members, leaving: None, pool },
        )?;
        head.chains += 1;
    }
    head.version += u64::from(!chains.is_empty());
    plan.put(&keys::map_head(), &head)?;
    Ok(Reply::Done)
}

/// Changes chains.
pub(crate) fn change(plan: &mut Plan<'_>, changes: &[ChainChange]) -> Result<Reply, Stop> {
    if changes.len() > CHAINS_OF_COMMAND_MAX {
        return Err(Error::Invalid.into());
    }
    let mut is_news = false;
    for ChainChange { chain: id, version, step } in changes {
        let Some(chain) = present_chain(plan.view(), *id)?.filter(|chain| chain.version == *version) else {
            continue;
        };
        let before: Vec<TargetId> = chain.members.iter().map(|member| member.target).collect();
        let Some(mut chain) = step_of(plan, chain, *step)? else { continue };
        chain.version += u32::from(*step != ChainStep::Doubt);
        // In, then refilled, then away, each in the order of before.
        chain.members.sort_by_key(|member| member.state);
        plan.put(&keys::chain(*id), &chain)?;
        for target in before.iter().filter(|target| !chain.has(**target)) {
            plan.delete(&keys::chain_of_target(*target, *id));
        }
        for member in chain.members.iter().filter(|member| !before.contains(&member.target)) {
            plan.mark(&keys::chain_of_target(member.target, *id));
        }
        is_news = true;
    }
    if is_news {
        cluster_map::changed(plan)?;
    }
    Ok(Reply::Done)
}

/// The chain after a step; none: the step is not for this state.
fn step_of(plan: &Plan<'_>, mut chain: Chain, step: ChainStep) -> Result<Option<Chain>, Stop> {
    let process = |target| process_of(plan.view(), target);
    let recorded: Chain = get(plan.view(), &keys::chain(chain.id))?.ok_or(Error::NoEntry)?;
    // `chain` has members away whose process has changed. Without a head it would be recorded so: no member could lead.
    let keeps_members =
        matches!(step, ChainStep::Close | ChainStep::Closed | ChainStep::Copies(_) | ChainStep::Pool(_));
    if keeps_members && chain.head().is_none() {
        return Ok(None);
    }
    let (target, from, to) = match step {
        ChainStep::Leave(target) => {
            let is_last = chain.with_state(MemberState::In).all(|other| other == target);
            let was_away =
                |member: &ChainMember| member.target == target && member.state == MemberState::Away;
            if is_last || recorded.members.iter().any(was_away) {
                return Ok(None);
            }
            // A process that started again is away in `chain` already, and now for good.
            (target, None, MemberState::Away)
        }
        ChainStep::Return(target) => (target, Some(MemberState::Away), MemberState::Refilling),
        ChainStep::Complete(target) => (target, Some(MemberState::Refilling), MemberState::In),
        ChainStep::Lead(target) => {
            let was_in = |member: &ChainMember| member.target == target && member.state == MemberState::In;
            if chain.head().is_some() || !recorded.members.iter().any(was_in) {
                return Ok(None);
            }
            chain.verifier = plan.random();
            (target, None, MemberState::In)
        }
        ChainStep::Doubt => return Ok(Some(doubted(recorded))),
        ChainStep::Close => return Ok(open::close(chain)),
        ChainStep::Closed => return Ok(open::closed(chain)),
        ChainStep::Copies(copies) => return Ok(open::with_copies(chain, copies)),
        ChainStep::Pool(pool) => return in_pool(plan, chain, pool),
        ChainStep::Adopt(members, version) => return adopted(plan, recorded, &members, version),
        ChainStep::Drop(target) => {
            let others = chain.with_state(MemberState::In).filter(|other| *other != target).count();
            let before = chain.members.len();
            chain.members.retain(|member| member.target != target);
            chain.leaving = None;
            let is_enough = others >= usize::from(chain.copies) && chain.members.len() < before;
            return Ok(is_enough.then_some(chain));
        }
        ChainStep::Move(from, _)
            if chain.members.len() != usize::from(chain.copies)
                || !chain.with_state(MemberState::In).any(|member| member == from) =>
        {
            return Ok(None);
        }
        ChainStep::Add(by) | ChainStep::Move(_, by) => {
            let is_full = chain.members.len() > usize::from(chain.copies) || chain.is_of_one_for_now();
            let Some(process) = process(by)?.filter(|_| !is_full && !chain.has(by) && chain.head().is_some())
            else {
                return Ok(None);
            };
            let (state, since) = (MemberState::Refilling, plan.now());
            chain.members.push(ChainMember { target: by, state, process, since });
            if let ChainStep::Move(from, _) = step {
                chain.leaving = Some(from);
            }
            return Ok(Some(chain));
        }
        ChainStep::Replace(target, by) => {
            let is_free = process(by)?.is_some() && !chain.has(by);
            let place = chain.members.iter_mut().find(|member| member.target == target);
            let Some(place) = place.filter(|place| is_free && place.state == MemberState::Away) else {
                return Ok(None);
            };
            place.target = by;
            (by, Some(MemberState::Away), MemberState::Refilling)
        }
    };
    if chain.head().is_none() && to == MemberState::Refilling {
        return Ok(None); // by which member?
    }
    let process = process(target)?;
    let member = chain.members.iter_mut().find(|member| member.target == target);
    let Some(member) = member.filter(|member| from.is_none_or(|from| member.state == from)) else {
        return Ok(None);
    };
    let Some(process) = process.or((to == MemberState::Away).then_some(member.process)) else {
        return Ok(None);
    };
    *member = ChainMember { target, state: to, process, since: plan.now() };
    Ok(Some(chain))
}

/// None: it is of this pool, or no member is there.
fn in_pool(plan: &Plan<'_>, chain: Chain, pool: PoolId) -> Result<Option<Chain>, Stop> {
    for member in chain.members.iter().filter(|_| chain.pool != pool) {
        if pools::pool_of(plan.view(), member.target)? == pool {
            return Ok(Some(Chain { pool, ..chain }));
        }
    }
    Ok(None)
}

fn doubted(mut chain: Chain) -> Chain {
    for member in chain.members.iter_mut().filter(|member| member.state == MemberState::In) {
        member.state = MemberState::Doubted;
    }
    // One that is open, or being closed, stays so.
    chain.leaving = chain.leaving.filter(|_| chain.members.len() == 1);
    chain
}

/// None: the chain is not in doubt, the first of `members` has no data server, or there is no such version.
fn adopted(
    plan: &Plan<'_>,
    mut chain: Chain,
    members: &[Option<TargetId>],
    version: u32,
) -> Result<Option<Chain>, Stop> {
    if !chain.is_in_doubt() || version > VERSION_MAX {
        return Ok(None);
    }
    let was_there = chain.members.iter().map(|member| member.target);
    let wanted: Vec<TargetId> = members.iter().copied().flatten().chain(was_there).collect();
    let known = members.iter().flatten().count().max(usize::from(chain.copies));
    let (mut servers, mut adopted) = (BTreeSet::new(), Vec::<ChainMember>::new());
    for target in wanted {
        let is_there = adopted.iter().any(|member| member.target == target);
        if is_there || adopted.len() >= known {
            continue;
        }
        let server = server_of(plan.view(), target)?;
        let state = match (&server, adopted.is_empty()) {
            (Some(_), true) => MemberState::In,
            (None, true) => return Ok(None),
            (..) => MemberState::Away,
        };
        if server.as_ref().is_none_or(|server| servers.insert(server.id)) {
            let process = server.map_or(0, |server| server.process);
            adopted.push(ChainMember { target, state, process, since: plan.now() });
        }
    }
    chain.leaving = chain.leaving.filter(|_| adopted.len() == 1);
    chain.members = adopted;
    chain.verifier = plan.random();
    chain.version = chain.version.max(version) | (VERSIONS_OF_HISTORY - 1);
    Ok(Some(chain))
}

/// True if the id is that of a chain of several targets, or of a target that a data server has.
pub(crate) fn is_known(view: &dyn View, id: ChainId) -> Result<bool, StoreError> {
    Ok(get::<DataServerId>(view, &keys::target(TargetId(id.0)))?.is_some()
        || get::<Chain>(view, &keys::chain(id))?.is_some())
}
