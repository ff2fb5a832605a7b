//! Stories of chains, each from a seed: members are killed, lose what they had not synced, are cut off, dropped and
//! taken back, one beside the other, and all at once, while writers change objects and read what must be there.
//!
//! The data servers are real, on threads, so a seed gives the faults and the changes, and not the order of each
//! instruction. `HEOROT_CHAIN_SEED=n` tells one story; `HEOROT_CHAIN_SEEDS=n` as many, from HEOROT_CHAIN_FIRST on.

mod meddler;
mod model;
mod power;
mod proxy;
mod writer;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::Builder;
use tokio::task::JoinHandle;
use wire::data::MemberState;

use self::meddler::Meddler;
use self::model::CELL;
use self::power::Loss;
use self::proxy::Proxy;
use self::writer::{Shared, Writer};
use crate::caller::Caller;
use crate::{Away, CHAIN, In, LEASE, Refilling, World};

const SEEDS: u64 = 40;
/// All is well between rounds, and is judged.
const ROUNDS: u64 = 4;
/// Faults and mends of a round, at most.
const STEPS_MAX: u64 = 7;
const WRITERS: u64 = 2;
/// First inodes of the writers are this far apart.
const INODES: u64 = 1000;
/// A story that takes longer has failed: something waits for ever.
const TIME_MAX: Duration = Duration::from_secs(120);
const TIME_MAX_OF_JUDGE: Duration = Duration::from_secs(20);

struct Story {
    world: World,
    /// Members are called through them.
    proxies: Vec<Proxy>,
    shared: Shared,
    /// It chooses.
    choice: Caller,
    states: Vec<MemberState>,
    alive: Vec<bool>,
    /// Members that have not heard of the current version yet.
    are_late: Vec<usize>,
    /// What was written up to then is on the member's disk for good.
    synced: Vec<u64>,
    /// What the disk of a dead member loses before its next start.
    losses: Vec<Vec<Loss>>,
    /// What happened, printed with a failure.
    told: Vec<String>,
    /// Cells lost, and members that dirty logs refilled.
    lost: usize,
    by_logs: u64,
}

impl Story {
    async fn begin(seed: u64) -> Self {
        let members = 2 + seed as usize % 2;
        let (mut world, shared) = (World::of(members).await, Shared::default());
        let mut proxies = Vec::new();
        for node in 0..members {
            world.refills(node);
            proxies.push(Proxy::of(world.nodes[node].server.address()).await);
            world.instead.insert(node, proxies[node].address());
        }
        world.change(&vec![In; members]);
        let choice = Caller::new(&shared.members, seed);
        let (states, alive, synced) = (vec![In; members], vec![true; members], vec![0; members]);
        let mut story = Self {
            world,
            proxies,
            shared,
            choice,
            are_late: vec![],
            states,
            alive,
            synced,
            losses: vec![vec![]; members],
            told: vec![],
            lost: 0,
            by_logs: 0,
        };
        story.tell_callers();
        story
    }

    fn tell_callers(&mut self) {
        let can_be_called = |node: &usize| self.alive[*node] && self.states[*node] != Away;
        let members = (0..self.states.len())
            .filter(can_be_called)
            .map(|node| (self.world.address(node), self.world.nodes[node].target));
        *self.shared.members.lock() = members.collect();
    }

    /// The leader changes the chain. Some members hear of it later than others.
    fn change(&mut self) {
        let hears = (0..self.states.len()).filter(|node| self.states[*node] != Away);
        let (late, now): (Vec<_>, Vec<_>) = hears.partition(|_| self.choice.below(4) == 0);
        self.world.change_for(&self.states, &now);
        self.told.push(format!("version {}: {:?}, late: {late:?}", self.world.version, self.states));
        self.are_late = late;
        self.tell_callers();
    }

    /// Members that are late hear of the current version.
    fn tell_late(&mut self) {
        for node in std::mem::take(&mut self.are_late) {
            if self.alive[node] && self.states[node] != Away {
                self.world.tell(node, &self.states);
                self.told.push(format!("{node} hears of version {}", self.world.version));
            }
        }
    }

    fn serving(&self) -> usize {
        (0..self.states.len()).filter(|node| self.alive[*node] && self.states[*node] == In).count()
    }

    fn kill(&mut self, node: usize, loses: bool) {
        self.world.nodes[node].kill();
        if loses && self.states[node] == In {
            self.losses[node] = self.what_may_be_lost(node);
        }
        self.by_logs += self.world.nodes[node].ds.chain_metrics().refills_by_logs.get();
        self.told.push(format!("{node} dies; what it loses: {}", self.losses[node].len()));
        self.alive[node] = false;
        self.tell_callers();
    }

    async fn start(&mut self, node: usize) {
        self.world.nodes[node].kill();
        // A disk loses nothing any more when the power is back.
        self.lose(node);
        self.world.restart(node).await;
        self.world.refills(node);
        self.proxies[node].lead_to(self.world.nodes[node].server.address());
        self.alive[node] = true;
        self.told.push(format!("{node} is back"));
    }

    async fn settle(&mut self, node: usize) {
        let ds = Arc::clone(&self.world.nodes[node].ds);
        tokio::task::spawn_blocking(move || ds.settle(&|| false)).await.expect("it settles");
        // What was written meanwhile may be settled or not.
        self.synced[node] = self.shared.tick();
        self.told.push(format!("{node} has settled"));
    }

    /// All members die, and the chain comes back with one of the last that were in.
    async fn all_die(&mut self, lose: bool) {
        let last: Vec<usize> = (0..self.states.len()).filter(|node| self.states[*node] == In).collect();
        for node in (0..self.states.len()).filter(|node| self.alive[*node]).collect::<Vec<_>>() {
            self.kill(node, lose);
        }
        // Also of one that died before the others.
        if self.losses.iter().any(|losses| !losses.is_empty()) {
            self.shared.losses.fetch_add(1, Ordering::SeqCst);
        }
        for node in 0..self.states.len() {
            self.start(node).await;
        }
        self.states.fill(Away);
        self.states[last[self.choice.below(last.len() as u64) as usize]] = In;
        self.change();
    }

    /// The leader takes members in that are refilled, and out that have left.
    fn look(&mut self) {
        for node in 0..self.states.len() {
            let target = self.world.nodes[node].target;
            let is_refilled = |head: &usize| {
                let refilled = self.world.nodes[*head].ds.refilled();
                self.alive[*head]
                    && self.states[*head] == In
                    && refilled.iter().any(|refilled| {
                        (refilled.chain, refilled.version, refilled.target)
                            == (CHAIN, self.world.version, target)
                    })
            };
            if self.states[node] == Refilling
                && self.alive[node]
                && (0..self.states.len()).any(|n| is_refilled(&n))
            {
                let by_logs = |served: &crate::Served| served.ds.chain_metrics().refills_by_logs.get();
                self.told.push(format!(
                    "{node} has all; by logs: {:?}",
                    self.world.nodes.iter().map(by_logs).collect::<Vec<_>>()
                ));
                self.synced[node] = self.shared.tick();
                self.states[node] = In;
                self.change();
            }
        }
        let left = self.world.left();
        assert!(left.is_empty(), "members {left:?} have left");
    }

    /// One fault or mend; nothing, if it cannot be now.
    async fn step(&mut self) {
        let node = self.choice.below(self.states.len() as u64) as usize;
        let others = self.serving() - usize::from(self.alive[node] && self.states[node] == In);
        match (self.choice.below(14), self.alive[node], self.states[node]) {
            (0 | 1, true, _) if others > 0 => self.kill(node, false),
            (2 | 3, true, _) if others > 0 => self.kill(node, true),
            (4, true, In) if others > 0 => {
                self.told.push(format!("{node} is cut off"));
                self.world.nodes[node].clock.advance(LEASE);
                self.states[node] = Away;
                self.change();
            }
            (5, true, _) => self.settle(node).await,
            (6, ..) if self.choice.below(3) == 0 => {
                let lose = self.choice.below(2) == 0;
                self.all_die(lose).await;
            }
            (7, true, Away) => {
                self.told.push(format!("{node} is dropped"));
                self.world.drop_all(node);
            }
            (8 | 9, true, _) => {
                self.told.push(format!("connections of {node} are cut"));
                self.proxies[node].cut();
            }
            (_, false, In | Refilling) => {
                self.states[node] = Away;
                self.change();
            }
            (_, false, Away) => self.start(node).await,
            (_, true, Away) => {
                self.states[node] = Refilling;
                self.change();
            }
            _ => {}
        }
    }

    /// Time for writers, with all members in; then faults and mends, under them.
    async fn round(&mut self) {
        tokio::time::sleep(Duration::from_millis(20 + self.choice.below(100))).await;
        for node in 0..self.states.len() {
            if self.choice.below(2) == 0 {
                self.settle(node).await;
            }
        }
        for _ in 0..=self.choice.below(STEPS_MAX) {
            self.step().await;
            tokio::time::sleep(Duration::from_millis(self.choice.below(30))).await;
            if self.choice.below(2) == 0 {
                self.tell_late();
            }
            self.look();
        }
        self.come_to_rest().await;
    }

    /// All members are mended.
    async fn come_to_rest(&mut self) {
        let began = Instant::now();
        while self.states.iter().any(|state| *state != In)
            || self.alive.contains(&false)
            || !self.are_late.is_empty()
        {
            assert!(began.elapsed() < TIME_MAX, "the members are refilled in vain");
            for node in 0..self.states.len() {
                match (self.alive[node], self.states[node]) {
                    (false, In | Refilling) => {
                        self.states[node] = Away;
                        self.change();
                    }
                    (false, Away) => self.start(node).await,
                    (true, Away) => {
                        self.states[node] = Refilling;
                        self.change();
                    }
                    (true, In | Refilling) => {}
                }
            }
            self.look();
            tokio::time::sleep(Duration::from_millis(5)).await;
            self.tell_late();
        }
    }

    /// First cell in which a member's file differs from the first member's.
    fn difference(&self, inode: u64) -> Option<String> {
        let files: Vec<_> = (0..self.states.len()).map(|node| self.world.bytes_at(node, inode)).collect();
        let other = files.iter().position(|file| *file != files[0])?;
        let lens: Vec<_> = files.iter().map(|file| file.as_ref().map(Vec::len)).collect();
        let cell = |file: &Option<Vec<u8>>, n: usize| {
            let cell = file.as_ref()?.get(n * CELL as usize..)?.get(..8)?;
            Some(u64::from_le_bytes(cell.try_into().expect("eight bytes")))
        };
        let cells = lens.iter().flatten().max().copied().unwrap_or(0).div_ceil(CELL as usize);
        let first = (0..cells).find(|n| cell(&files[0], *n) != cell(&files[other], *n));
        let values: Vec<_> = files.iter().map(|file| cell(file, first.unwrap_or(0))).collect();
        Some(format!("object {inode}, bytes {lens:?}, cell {first:?}: {values:?}"))
    }

    /// Checks the files of all members; nothing is written meanwhile.
    async fn judge(&self) {
        let objects = self.shared.model.lock().clone();
        // Changes whose callers got their answers from another member may still be under way.
        let began = Instant::now();
        while let Some(other) = objects.keys().find_map(|inode| self.difference(*inode)) {
            assert!(began.elapsed() < TIME_MAX_OF_JUDGE, "the members differ: {other}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.shared.model.lock().values_mut().for_each(|object| object.straggles = false);
        let (losses, now) = (self.shared.losses.load(Ordering::SeqCst), self.shared.tick());
        for (inode, mut object) in objects {
            match self.world.bytes_at(0, inode) {
                None => assert!(object.is_removed, "object {inode} is gone"),
                Some(_) if object.is_removed => panic!("object {inode} was removed"),
                Some(bytes) => {
                    object.check(&bytes, losses, now).unwrap_or_else(|why| panic!("object {inode}: {why}"));
                }
            }
        }
    }
}

/// What happened is printed if the story fails.
impl Drop for Story {
    fn drop(&mut self) {
        if std::thread::panicking() || std::env::var_os("HEOROT_CHAIN_SEED").is_some() {
            self.told.iter().for_each(|line| eprintln!("{line}"));
        }
    }
}

/// Returns the number of cells that members lost, and of members that dirty logs refilled.
async fn tell(seed: u64) -> (usize, u64) {
    let mut story = Story::begin(seed).await;
    let mut writers: Vec<_> = (0..WRITERS)
        .map(|n| {
            let writer = Writer::new(&story.shared, seed * WRITERS + n, n * INODES + 1);
            tokio::spawn(writer.work())
        })
        .collect();
    writers.push(tokio::spawn(Meddler::new(&story.shared, seed).work()));
    for _ in 0..ROUNDS {
        story.round().await;
        story.shared.pauses.store(true, Ordering::SeqCst);
        let rest = || {
            assert!(!writers.iter().any(JoinHandle::is_finished), "seed {seed}: a writer has failed");
            story.shared.resting.load(Ordering::SeqCst) == writers.len() as u64
        };
        crate::until("the writers pause", rest).await;
        story.judge().await;
        story.shared.pauses.store(false, Ordering::SeqCst);
    }
    story.shared.ends.store(true, Ordering::SeqCst);
    for writer in writers {
        let ends = tokio::time::timeout(TIME_MAX, writer).await;
        ends.expect("a writer waits for ever").unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    }
    let by_logs = |node: &crate::Served| node.ds.chain_metrics().refills_by_logs.get();
    (story.lost, story.by_logs + story.world.nodes.iter().map(by_logs).sum::<u64>())
}

/// Seeds: the one that the environment names, or as many as it says.
fn seeds() -> Vec<u64> {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let all = |first, count| (first..first + count).collect::<Vec<_>>();
    match (number("HEOROT_CHAIN_SEED"), number("HEOROT_CHAIN_SEEDS")) {
        (Some(seed), _) => vec![seed],
        (None, Some(count)) => all(number("HEOROT_CHAIN_FIRST").unwrap_or(1), count),
        (None, None) => all(1, SEEDS),
    }
}

/// Stories at a time: they mostly wait.
const AT_A_TIME: u64 = 4;

#[test]
fn what_was_acknowledged_is_there_and_members_are_equal_after_every_story() {
    let (all, next) = (seeds(), AtomicUsize::new(0));
    let told = Mutex::new((0, 0));
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(seed) = all.get(next.fetch_add(1, Ordering::SeqCst)).copied() {
                    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
                    let work = AssertUnwindSafe(|| runtime.block_on(tell(seed)));
                    let Ok((lost, by_logs)) = catch_unwind(work) else { panic!("HEOROT_CHAIN_SEED={seed}") };
                    runtime.shutdown_background();
                    let mut told = told.lock();
                    *told = (told.0 + lost, told.1 + by_logs);
                }
            });
        }
    });
    let (lost, by_logs) = *told.lock();
    println!("{lost} cells were lost, {by_logs} members refilled by logs");
    // 34 cells and 3.5 members of each story, usually.
    let few = lost < 5 * all.len() || by_logs < all.len() as u64;
    assert!(all.len() < 12 || !few, "the stories are about them");
}
