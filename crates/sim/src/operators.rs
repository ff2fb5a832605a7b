//! What operators do to data servers while clients work, and how disks fill: a data server drains and is taken back, and
//! copies move from full disks to emptier ones.

use cluster::{NodeChange, NodeRoles};
use namespace::{DataServer as KnownServer, NodeKey, NodeState};

use crate::cluster::Cluster;
use crate::object_disk::{BLOCKS, FREE_BLOCKS};
use crate::rng::Rng;

/// Free parts in sixteen of a disk: a half is the data server's reserve.
const FREE_PARTS: std::ops::RangeInclusive<u64> = 9..=15;
/// Longest time in which a change is made.
const CHANGE_MS_MAX: u64 = 20_000;
/// Time after which it is asked for again.
const AGAIN_MS: u64 = 1_000;
/// Longest time in which a data server that drains is empty.
const EMPTY_MS_MAX: u64 = 60_000;
/// Interval of the looks whether it is.
const LOOK_MS: u64 = 50;

/// A data server that an operator had drain.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Draining {
    number: usize,
    /// True if it is to serve again.
    is_over: bool,
}

impl Cluster {
    /// An operator's change, or none. One data server drains at a time.
    pub(crate) fn operate(&mut self, rng: &mut Rng) {
        let number = rng.below(self.data_servers.len());
        let serves =
            |cluster: &Self, number| cluster.known(number).is_some_and(|(_, s)| s == NodeState::Serving);
        // A request may have come to no metaserver, or is under way.
        if let Some(Draining { number, is_over: true }) = self.draining
            && serves(self, number)
        {
            self.draining = None;
        }
        match rng.below(4) {
            0 if self.draining.is_none() && (0..self.data_servers.len()).all(|n| serves(self, n)) => {
                self.draining = Some(Draining { number, is_over: false });
                self.ask_for(number, NodeChange::Drain, rng);
            }
            1 => {
                if let Some(Draining { number, is_over }) = &mut self.draining {
                    *is_over = true;
                    let number = *number;
                    self.ask_for(number, NodeChange::Undrain, rng);
                }
            }
            2 => self.fill_disk(number, rng.within(FREE_PARTS)),
            _ => {}
        }
    }

    fn fill_disk(&self, number: usize, parts: u64) {
        let server = &self.data_servers[number];
        if let Some(disk) = server.disk() {
            disk.set_free(BLOCKS / 16 * parts);
            self.shared.note(|| format!("data server {}: {parts} parts in 16 are free", server.address));
        }
    }

    /// Asks one of the metaservers for a change of a data server.
    fn ask_for(&self, number: usize, change: NodeChange, rng: &mut Rng) {
        let name = self.data_servers[number].name();
        let member = &self.members[rng.below(self.members.len())];
        let Some(metaserver) = member.metaserver() else { return };
        let (shared, id) = (self.shared.clone(), member.id);
        self.shared.note(|| format!("member {id} is asked: {change:?} {name}"));
        member.spawn(move |_| async move {
            let done = metaserver.change_node(&name, NodeRoles::DataServer, change, false).await;
            shared.note(|| format!("member {id} answers: {change:?} {name}: {done:?}"));
        });
    }

    /// The data server in the newest cluster map.
    fn known(&self, number: usize) -> Option<(KnownServer, NodeState)> {
        let map = self.newest()?.0.cluster().map();
        let name = self.data_servers[number].name();
        let known = map.present_data_servers().find(|known| known.name == name)?.clone();
        let state = map.state(NodeKey::DataServer(known.id));
        Some((known, state))
    }

    fn becomes(
        &mut self,
        number: usize,
        state: NodeState,
        change: NodeChange,
        rng: &mut Rng,
    ) -> Result<(), String> {
        let is_so = |cluster: &Self| cluster.known(number).is_some_and(|(_, now)| now == state);
        let end_ms = self.shared.now_ms() + CHANGE_MS_MAX;
        while !is_so(self) {
            if self.shared.now_ms() >= end_ms {
                return Err(format!("{change:?} of {} is not done", self.data_servers[number].name()));
            }
            self.ask_for(number, change, rng);
            self.until(AGAIN_MS, is_so);
        }
        Ok(())
    }

    /// Ends what was begun: all disks are equally full, and no data server drains. Or one does, to the end: it has no
    /// objects, and is no member of a chain.
    pub(crate) fn operators_come_to_rest(&mut self) -> Result<(), String> {
        let mut rng = self.rng.fork();
        for number in 0..self.data_servers.len() {
            if let Some(disk) = self.data_servers[number].disk() {
                disk.set_free(FREE_BLOCKS);
            }
            self.becomes(number, NodeState::Serving, NodeChange::Undrain, &mut rng)?;
        }
        if rng.below(2) == 0 {
            return Ok(());
        }
        let number = rng.below(self.data_servers.len());
        self.becomes(number, NodeState::Draining, NodeChange::Drain, &mut rng)?;
        // A look reads hundreds of directories.
        let is_look = |cluster: &Self| cluster.shared.now_ms().is_multiple_of(LOOK_MS);
        if !self.until(EMPTY_MS_MAX, |cluster| is_look(cluster) && cluster.left_on(number).is_none()) {
            return Err(self.left_on(number).unwrap_or_default());
        }
        Ok(())
    }

    /// What a data server that drains still has.
    fn left_on(&self, number: usize) -> Option<String> {
        let (known, _) = self.known(number)?;
        let map = self.newest()?.0.cluster().map();
        let is_member =
            |chain: &&namespace::Chain| chain.members.iter().any(|m| known.targets.contains(&m.target));
        let chains = map.chains.iter().filter(is_member).count();
        let objects = self.data_servers[number].objects();
        let is_empty = chains == 0 && objects.is_empty();
        (!is_empty).then(|| format!("{} drains, and has {chains} chains and {objects:?}", known.name))
    }
}
