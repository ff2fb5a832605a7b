//! Process that creates everything, and is killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use namespace::{
    ChainId, Command, DataServer, DataServerId, DeviceId, InodeId, NewNode, Proposal, Reply, Stamp, TargetId,
};
use replica::Replica;
use tokio::task::JoinSet;

use crate::Failure;
use crate::machine::{CALLERS, Plan, Watch, create, file_name, peak_mib, striped};

pub fn fill(plan: &Plan) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let replica = plan.open()?;
        let device = device(&replica).await?;
        let slowest = Arc::new(AtomicU64::new(0));

        let watch = Watch::start();
        let named = |n: u64| create(InodeId::ROOT, format!("dir-{n:06}").into_bytes(), NewNode::Directory, n);
        // In order: their inode numbers are then known.
        all(&replica, 0..plan.directories, 1, &slowest, named).await?;
        watch.row("directories made, one caller, each synced", plan.directories);

        let watch = Watch::start();
        slowest.store(0, Ordering::Relaxed);
        let in_plan = plan.clone();
        let file = move |n: u64| {
            create(in_plan.directory(in_plan.directory_of(n)), file_name(n), striped(device, n), n)
        };
        all(&replica, 0..plan.files, CALLERS, &slowest, file.clone()).await?;
        watch.row(&format!("files made, {CALLERS} callers"), plan.files);
        println!("| slowest of these | {:.0?} |", Duration::from_micros(slowest.load(Ordering::Relaxed)));
        println!("| peak memory of the process that made them | {} MiB |", peak_mib());
        println!("filled");
        all(&replica, plan.files..u64::MAX, CALLERS, &slowest, file).await
    })
}

async fn device(replica: &Replica) -> Result<DeviceId, Failure> {
    let targets: Vec<TargetId> = (1..=4).map(TargetId).collect();
    let server = DataServer {
        id: DataServerId(1),
        name: "ds".into(),
        addresses: vec!["127.0.0.1:2050".into()],
        service_address: None,
        zone: String::new(),
        targets: targets.clone(),
        process: 1,
    };
    let chains = targets.into_iter().map(ChainId::from).collect();
    let proposal = |command| Proposal::new(Stamp::default(), None, command);
    replica.propose(proposal(Command::PutDataServer { server, known: None })).await?;
    match replica.propose(proposal(Command::DefineDevice { chains })).await? {
        Reply::Device { id } => Ok(id),
        other => Err(format!("no device: {other:?}").into()),
    }
}

/// Proposes `make` of each number, from concurrent callers that wait for each reply.
async fn all(
    replica: &Replica,
    numbers: std::ops::Range<u64>,
    callers: u64,
    slowest_micros: &Arc<AtomicU64>,
    make: impl Fn(u64) -> Proposal + Clone + Send + 'static,
) -> Result<(), Failure> {
    let next = Arc::new(AtomicU64::new(numbers.start));
    let mut tasks = JoinSet::new();
    for _ in 0..callers {
        let (replica, next, make) = (replica.clone(), Arc::clone(&next), make.clone());
        let (slowest, end) = (Arc::clone(slowest_micros), numbers.end);
        tasks.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= end {
                    return Ok::<_, Failure>(());
                }
                let asked = Instant::now();
                match replica.propose(make(number)).await? {
                    Reply::Created { .. } => {}
                    other => return Err(format!("create {number}: {other:?}").into()),
                }
                slowest.fetch_max(asked.elapsed().as_micros() as u64, Ordering::Relaxed);
            }
        });
    }
    while let Some(outcome) = tasks.join_next().await {
        outcome??;
    }
    Ok(())
}
