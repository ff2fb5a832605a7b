//! Process that opens the directory of the killed process.

use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use namespace::{Command, Expect, Proposal, Stamp, read};
use replica::Replica;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::Failure;
use crate::machine::{CALLERS, Plan, Watch, file_name, peak_mib};

/// Duration of the measurement of each kind of read.
const MEASURED: Duration = Duration::from_secs(5);
/// Files that are removed, the first ones.
pub const REMOVED_MAX: u64 = 200_000;

pub fn read(plan: &Plan) -> Result<(), Failure> {
    let asked = Instant::now();
    let replica = plan.open()?;
    println!("| open after kill -9, replay of the log included | {:.2} s |", asked.elapsed().as_secs_f64());
    let inodes = read::counts(&*replica.view()?)?;
    if inodes < plan.files + plan.directories {
        return Err(format!("only {inodes} inodes are there").into());
    }
    println!("| inodes found then | {inodes} |");
    let on_disk = plan.store_file().metadata()?.blocks() * 512;
    println!("| bytes on disk for each | {} |", on_disk / inodes);
    for threads in [1, 2] {
        let watch = Watch::start();
        let found = on_threads(threads, &|seed| lookups(plan, &replica, seed))?;
        watch.row(
            &format!("name and inode of a random file looked up, caches cold at first, threads: {threads}"),
            found,
        );
    }
    let watch = Watch::start();
    let listed = lists(plan, &replica, false)?;
    watch.row("entries of random directories listed", listed);
    let watch = Watch::start();
    let listed = lists(plan, &replica, true)?;
    watch.row("the same with the inode of each", listed);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    removes(&runtime, plan, &replica)?;
    runtime.block_on(crate::snapshot::snapshot(plan, &replica))?;
    println!("| peak memory of the process that read | {} MiB |", peak_mib());
    println!("done");
    replica.stop();
    Ok(())
}

fn on_threads(threads: u64, work: &(dyn Fn(u64) -> Result<u64, Failure> + Sync)) -> Result<u64, Failure> {
    std::thread::scope(|scope| {
        let running: Vec<_> = (1..=threads).map(|seed| scope.spawn(move || work(seed))).collect();
        running.into_iter().map(|thread| thread.join().map_err(|_| "a thread panicked")?).sum()
    })
}

/// Random numbers good enough to choose files (xorshift).
fn next(random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random
}

fn lookups(plan: &Plan, replica: &Replica, seed: u64) -> Result<u64, Failure> {
    let (mut random, mut count, begun) = (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), 0, Instant::now());
    while begun.elapsed() < MEASURED {
        let file = next(&mut random) % plan.files;
        // One view for each read, as in an operation.
        let view = replica.view()?;
        let directory = plan.directory(plan.directory_of(file));
        let inode = read::lookup(&*view, directory, &file_name(file))?.ok_or("a file is missing")?;
        read::inode(&*view, inode)?.ok_or("an inode is missing")?;
        count += 1;
    }
    Ok(count)
}

fn lists(plan: &Plan, replica: &Replica, inodes: bool) -> Result<u64, Failure> {
    let (mut random, mut count, begun) = (0x2545_f491_4f6c_dd1d, 0, Instant::now());
    let view = replica.view()?;
    while begun.elapsed() < MEASURED {
        let directory = plan.directory(next(&mut random) % plan.directories);
        let mut failed = None;
        read::list(&*view, directory, 0, |entry| {
            count += 1;
            if inodes && let Err(e) = read::inode(&*view, entry.inode) {
                failed = Some(e);
            }
            if failed.is_some() || begun.elapsed() > MEASURED {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        failed.map_or(Ok(()), Err)?;
    }
    Ok(count)
}

/// Removes some files of the first directories, whose names are cold.
fn removes(runtime: &Runtime, plan: &Plan, replica: &Replica) -> Result<(), Failure> {
    let count = plan.files.min(REMOVED_MAX);
    let watch = Watch::start();
    runtime.block_on(async {
        let mut tasks = JoinSet::new();
        for caller in 0..CALLERS {
            let (plan, replica) = (plan.clone(), replica.clone());
            tasks.spawn(async move {
                for file in (caller..count).step_by(CALLERS as usize) {
                    let (dir, name) = (plan.directory(plan.directory_of(file)), file_name(file));
                    let command = Command::Remove { dir, name, expect: Expect::NotDirectory };
                    replica.propose(Proposal::new(Stamp::default(), None, command)).await?;
                }
                Ok::<_, Failure>(())
            });
        }
        while let Some(outcome) = tasks.join_next().await {
            outcome??;
        }
        Ok::<_, Failure>(())
    })?;
    watch.row(&format!("files removed, {CALLERS} callers"), count);
    Ok(())
}
