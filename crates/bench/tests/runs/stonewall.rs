//! Time limit of a phase, and the action at its end.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use bench::phase::{Done, Limit, Phase, Then};
use bench::result::{Cache, Unit};
use bench::task::{Direction, Order, Records, Task, Transfer};
use bench::team::{Local, Team};

use crate::memory::Memory;

/// Runs workers that write records of these sizes, more than the time allows.
fn run(record_bytes: &[u64], then: Then) -> Vec<Done> {
    let task = |&record_bytes: &u64| {
        Task::Transfer(Transfer {
            path: format!("file-{record_bytes}"),
            direction: Direction::Write,
            // All records at one offset, to bound the memory.
            records: Records { start: 0, record_bytes, stride: 0, count: u64::MAX },
            order: Order::Forward,
            seed: 1,
        })
    };
    let phase = Phase {
        name: "write".into(),
        at: BTreeMap::new(),
        tasks: vec![record_bytes.iter().map(task).collect()],
        unit: Unit::Bytes,
        cache: Cache::FsyncAtEnd,
        verify: false,
        limit: Some(Limit { after: Duration::from_millis(100), then }),
        counts: true,
    };
    let mut team = Local::new(Arc::new(Memory::default()));
    let mut agents = team.run(&phase, &mut |_| ControlFlow::Continue(())).unwrap();
    agents.remove(0).workers
}

#[test]
fn without_wear_out_workers_stop_where_they_are() {
    let done = run(&[512, 1 << 20], Then::Stop);
    assert!(done.iter().all(|done| done.stopped && done.seconds >= 0.1));
    assert!(done[0].operations > done[1].operations, "{} {}", done[0].operations, done[1].operations);
}

#[test]
fn with_wear_out_all_do_as_many_as_the_furthest() {
    let done = run(&[64 << 10, 128 << 10, 256 << 10], Then::WearOut);
    assert!(done[0].operations > 0);
    for worker in &done {
        assert_eq!((worker.operations, worker.stopped), (done[0].operations, false));
    }
}
