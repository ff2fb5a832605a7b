//! Open chains: columns that exist without copies are put on them, and they get their other members when they are closed
//! (`namespace::OpenChain`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use namespace::{
    CHAINS_OF_COMMAND_MAX, Chain, ChainChange, ChainId, ChainStep, Command, MemberState, OpenChain, TargetId,
};

use crate::cluster::Cluster;
use crate::error::ClusterError;

/// Open chains of one target and number of copies: when they are closed, as many others share its data.
const OPEN_OF_TARGET: usize = 16;
/// Open chains of one number of copies, of all targets.
const OPEN_MAX: usize = 4096;
/// Time after which the leader has an open chain closed: the metaserver that puts columns on it may be gone.
const OPEN_TIME_MAX: Duration = Duration::from_secs(60 * 60);

/// Open chains that this metaserver has made, by target, copies and number.
pub(super) type Opened = BTreeMap<(TargetId, u8, usize), ChainId>;

impl Cluster {
    /// An open chain of a target, for columns that get this many copies; it is made if there is none. The same `number`
    /// gives the same one as long as it is open.
    ///
    /// # Errors
    /// [`ClusterError`]; `Refused` when there are too many chains, or no data server has the target.
    pub async fn open_chain(
        &self,
        target: TargetId,
        copies: u8,
        number: usize,
    ) -> Result<ChainId, ClusterError> {
        let targets = self.map().present_data_servers().map(|server| server.targets.len()).sum::<usize>();
        let number = number % (OPEN_MAX / targets.max(1)).clamp(1, OPEN_OF_TARGET);
        let mut opened = self.chains.opened.lock().await;
        let is_open = |chain: &ChainId| self.chains().get(chain).is_some_and(Chain::is_open);
        if let Some(chain) = opened.get(&(target, copies, number)).filter(|chain| is_open(chain)) {
            return Ok(*chain);
        }
        let id = ChainId(self.group.entropy.u64());
        self.group
            .propose(None, Command::OpenChains { chains: vec![OpenChain { id, target, copies }] })
            .await?;
        self.follow_map()?;
        opened.retain(|_, chain| is_open(chain));
        opened.insert((target, copies, number), id);
        Ok(id)
    }

    /// Chains that are open, or not closed to the end, of this number of copies, of a target or of all.
    #[must_use]
    pub fn open_chains(&self, target: Option<TargetId>, is_wanted: impl Fn(u8) -> bool) -> BTreeSet<ChainId> {
        let is_it = |chain: &&Chain| {
            let is_of_target = target.is_none_or(|target| chain.has(target));
            chain.is_of_one_for_now() && is_wanted(chain.copies) && is_of_target
        };
        self.chains().values().filter(is_it).map(|chain| chain.id).collect()
    }

    /// Those of them that have been so for too long.
    #[must_use]
    pub fn forgotten_open_chains(&self) -> BTreeSet<ChainId> {
        let now = self.group.now().seconds;
        let is_old = |chain: &&Chain| {
            let since = chain.members.first().map_or(now, |member| member.since.seconds);
            let is_old = now.saturating_sub(since) >= OPEN_TIME_MAX.as_secs().cast_signed();
            chain.is_of_one_for_now() && is_old
        };
        self.chains().values().filter(is_old).map(|chain| chain.id).collect()
    }

    /// Has chains of one target take no more columns.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn close_chains(&self, chains: &BTreeSet<ChainId>) -> Result<(), ClusterError> {
        self.step_all(chains.iter(), ChainStep::Close, Chain::is_open).await
    }

    /// Has them get their other members: all objects on them know of it, as seen in these versions.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn chains_are_closed(&self, chains: &BTreeMap<ChainId, u32>) -> Result<(), ClusterError> {
        let is_as_seen = |chain: &Chain| chain.is_closing() && chains.get(&chain.id) == Some(&chain.version);
        self.step_all(chains.keys(), ChainStep::Closed, is_as_seen).await
    }

    /// Has a chain get more copies, with all columns on it, also those of files that would have had fewer.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn raise_copies(&self, chain: ChainId, copies: u8) -> Result<(), ClusterError> {
        let is_it = |chain: &Chain| chain.copies < copies && !chain.is_of_one_for_now();
        self.step_all(std::iter::once(&chain), ChainStep::Copies(copies), is_it).await?;
        // Its only member may have started again meanwhile.
        match self.chains().get(&chain).is_some_and(|chain| chain.copies == copies) {
            true => Ok(()),
            false => Err(ClusterError::Refused(namespace::Error::Delay)),
        }
    }

    async fn step_all<'a>(
        &self,
        chains: impl Iterator<Item = &'a ChainId>,
        step: ChainStep,
        is_for: impl Fn(&Chain) -> bool,
    ) -> Result<(), ClusterError> {
        let now = self.chains();
        let concerned = chains.filter_map(|id| now.get(id)).filter(|chain| is_for(chain));
        let change = |chain: &Chain| ChainChange { chain: chain.id, version: chain.version, step };
        let steps: Vec<_> = concerned.map(change).collect();
        for changes in steps.chunks(CHAINS_OF_COMMAND_MAX) {
            self.group.propose(None, Command::ChangeChains { changes: changes.to_vec() }).await?;
        }
        self.follow_map()
    }

    /// Number of chains whose only member that has all data is one of these targets, which are not lost.
    #[must_use]
    pub fn count_sole_members(&self, targets: &BTreeSet<TargetId>) -> u64 {
        let lost = self.data_servers.lost_targets();
        let is_sole = |chain: &&Chain| {
            let mut with_data = chain.with_state(MemberState::In);
            let only = with_data.next().filter(|only| targets.contains(only) && !lost.contains(only));
            only.is_some() && with_data.next().is_none()
        };
        self.chains().values().filter(is_sole).count() as u64
    }

    /// True if the chain is that of one target, for columns without copies.
    #[must_use]
    pub fn is_of_target_alone(&self, chain: ChainId) -> bool {
        !self.chains().contains_key(&chain)
    }
}
