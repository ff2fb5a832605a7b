//! A snapshot of all of it while files are made and changed: how long the slowest change waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use namespace::{Command, Proposal, Reply, SetAttributes, Stamp, VolumeId, read};
use replica::Replica;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::Failure;
use crate::machine::{Plan, Watch, create, file_name};
use crate::read::REMOVED_MAX;

/// Concurrent callers that make and change files meanwhile.
const CHANGERS: u64 = 16;
/// Duration of the measurement without a snapshot, and with one.
const MEASURED: Duration = Duration::from_secs(5);
const NAME: &[u8] = b"measured";

/// Changes under way, and the longest wait for one of them since it was asked for.
struct Load {
    stops: Arc<AtomicBool>,
    slowest_micros: Arc<AtomicU64>,
    count: Arc<AtomicU64>,
    tasks: JoinSet<Result<(), Failure>>,
}

impl Load {
    fn begin(plan: &Plan, replica: &Replica) -> Self {
        let (stops, slowest_micros, count) = <(Arc<AtomicBool>, Arc<AtomicU64>, Arc<AtomicU64>)>::default();
        let mut tasks = JoinSet::new();
        for caller in 0..CHANGERS {
            let (plan, replica) = (plan.clone(), replica.clone());
            let (stops, slowest, count) =
                (Arc::clone(&stops), Arc::clone(&slowest_micros), Arc::clone(&count));
            tasks.spawn(async move {
                let mut number = caller;
                while !stops.load(Ordering::Relaxed) {
                    let asked = Instant::now();
                    if let Reply::Refused(error) = replica.propose(change(&plan, &replica, number)?).await? {
                        return Err(format!("change {number}: {error:?}").into());
                    }
                    slowest.fetch_max(asked.elapsed().as_micros() as u64, Ordering::Relaxed);
                    count.fetch_add(1, Ordering::Relaxed);
                    number += CHANGERS;
                }
                Ok(())
            });
        }
        Self { stops, slowest_micros, count, tasks }
    }

    /// Prints what was waited for most since the last call.
    fn row(&self, what: &str) {
        let slowest = Duration::from_micros(self.slowest_micros.swap(0, Ordering::Relaxed));
        println!(
            "| {what}: changes, and the slowest | {}, {slowest:.1?} |",
            self.count.swap(0, Ordering::Relaxed)
        );
    }

    async fn end(mut self) -> Result<(), Failure> {
        self.stops.store(true, Ordering::Relaxed);
        while let Some(outcome) = self.tasks.join_next().await {
            outcome??;
        }
        Ok(())
    }
}

/// A new file, or another mode of one that is there, in turns.
fn change(plan: &Plan, replica: &Replica, number: u64) -> Result<Proposal, Failure> {
    // Files spread over all directories but the first, whose files were removed.
    let file = plan.files - 1 - number.wrapping_mul(7919) % (plan.files - REMOVED_MAX);
    let dir = plan.directory(plan.directory_of(file));
    if number.is_multiple_of(2) {
        let name = format!("late-{number}").into_bytes();
        return Ok(create(dir, name, namespace::NewNode::Fifo, number));
    }
    let inode = read::lookup(&*replica.view()?, dir, &file_name(file))?.ok_or("a file is missing")?;
    let set = SetAttributes { mode: Some(0o600 + (number % 64) as u32), ..SetAttributes::default() };
    Ok(Proposal::new(Stamp::default(), None, Command::SetAttributes { inode, set }))
}

/// Makes a snapshot, and removes it.
pub async fn snapshot(plan: &Plan, replica: &Replica) -> Result<(), Failure> {
    if plan.files <= REMOVED_MAX {
        println!("| no snapshot: it is made with more than {REMOVED_MAX} files | |");
        return Ok(());
    }
    let volume = VolumeId::FIRST;
    let propose = async |command| replica.propose(Proposal::new(Stamp::default(), None, command)).await;
    let load = Load::begin(plan, replica);
    sleep(MEASURED).await;
    load.row("without a snapshot");
    let asked = Instant::now();
    match propose(Command::MakeSnapshot { volume, name: NAME.into() }).await? {
        Reply::Refused(error) => return Err(format!("no snapshot: {error:?}").into()),
        _ => {
            println!("| snapshot of {} inodes | {:.1?} |", read::counts(&*replica.view()?)?, asked.elapsed())
        }
    }
    sleep(MEASURED).await;
    load.row("a snapshot is made, and the time after it");
    let watch = Watch::start();
    let kept = read::history(&*replica.view()?, volume)?.kept;
    propose(Command::RemoveSnapshot { volume, name: NAME.into(), force: true }).await?;
    while read::has_leftovers(&*replica.view()?)? {
        propose(Command::RemoveLeftovers).await?;
    }
    watch.row("records removed that were kept for it", kept);
    load.row("its removal");
    load.end().await
}
