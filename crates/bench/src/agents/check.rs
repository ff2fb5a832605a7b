//! Checks of received messages: of a phase by the agent that will execute it, and of an agent's results by
//! the coordinator that will add them up.

use std::time::Duration;

use crate::agents::message::Hello;
use crate::phase::{AgentDone, Phase};
use crate::result::Machine;
use crate::task::{Found, Names, Order, Records, Task, Transfer, Tree, Walk};
use crate::trouble::Trouble;

/// Maximal number of workers of one agent.
const WORKERS_MAX: usize = 4096;
/// Maximal record length: a worker has one record, or one whole file, in memory.
const RECORD_BYTES_MAX: u64 = 1 << 30;
/// Maximal number of shuffled records, whose numbers are in memory.
const SHUFFLED_MAX: u64 = 1 << 27;
/// Maximal length of a path (`PATH_MAX`).
const PATH_BYTES_MAX: usize = 4096;
/// Maximal count or length, so that sums over many agents do not overflow.
const AMOUNT_MAX: u64 = 1 << 56;
/// Maximal length of texts for terminals and results.
const TEXT_BYTES_MAX: usize = 4096;
/// Maximal duration of a phase.
const PHASE_TIME_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// Checks that a phase harms neither the agent nor files outside its directory.
pub fn phase(phase: &Phase) -> Result<(), Trouble> {
    let tasks = match phase.tasks.as_slice() {
        [tasks] => tasks,
        lists => return refused(format!("{} lists of tasks, instead of its own", lists.len())),
    };
    if tasks.len() > WORKERS_MAX {
        return refused(format!("{} workers: {WORKERS_MAX} are the most on one agent", tasks.len()));
    }
    if phase.limit.is_some_and(|limit| limit.after > PHASE_TIME_MAX) {
        return refused("a phase of more than 30 days".to_owned());
    }
    tasks.iter().try_for_each(task)
}

/// Checks that an agent with this number of workers can have these results.
pub fn done(done: &AgentDone, workers: usize) -> Result<(), Trouble> {
    // Without results: the workers were stopped before they started.
    if done.workers.len() != workers && !done.workers.is_empty() {
        return Err(Trouble(format!("it reports {} workers of {workers}", done.workers.len())));
    }
    for worker in &done.workers {
        let time =
            worker.seconds.is_finite() && (0.0..=PHASE_TIME_MAX.as_secs_f64()).contains(&worker.seconds);
        let amounts = [worker.bytes, worker.operations, worker.verified_bytes];
        if !time || !worker.latencies.are_sound() || amounts.iter().any(|amount| *amount > AMOUNT_MAX) {
            return Err(Trouble("it reports amounts that nobody can have moved".to_owned()));
        }
    }
    Ok(())
}

/// Checks the name of a machine, which is shown on a terminal.
pub fn hello(hello: &Hello) -> Result<(), Trouble> {
    let Machine { host, kernel, target, .. } = &hello.machine;
    if host.is_empty() || [host, kernel, target].into_iter().any(|text| plain(text) != *text) {
        return Err(Trouble("it says of its machine what cannot be shown".to_owned()));
    }
    Ok(())
}

/// Line from the other side, shortened and without terminal control characters.
pub fn plain(line: &str) -> String {
    let mut plain = String::with_capacity(line.len().min(TEXT_BYTES_MAX));
    for c in line.chars() {
        if plain.len() >= TEXT_BYTES_MAX {
            break;
        }
        plain.push(if c.is_control() { ' ' } else { c });
    }
    plain
}

fn task(task: &Task) -> Result<(), Trouble> {
    match task {
        Task::Rest => Ok(()),
        Task::Make(dir) | Task::Clear(dir) => path(dir),
        Task::Transfer(Transfer { path: file, direction: _, records, order, seed: _ }) => {
            let Records { start, record_bytes, stride, count } = *records;
            path(file)?;
            amount("records of a file", count)?;
            bytes("a record", record_bytes)?;
            if record_bytes == 0 {
                return refused("records of 0 bytes".to_owned());
            }
            let end =
                count.checked_mul(stride.max(record_bytes)).and_then(|length| length.checked_add(start));
            amount("the end of a file", end.unwrap_or(u64::MAX))?;
            if *order == Order::Shuffled && count > SHUFFLED_MAX {
                return refused(format!("{count} records in no order: {SHUFFLED_MAX} are the most"));
            }
            Ok(())
        }
        Task::Names(Names { operation: _, dirs, prefix, first, count, file_bytes, seed: _ }) => {
            if dirs.is_empty() {
                return refused("names in no directory".to_owned());
            }
            dirs.iter().try_for_each(|dir| root_or_path(dir))?;
            path(prefix)?;
            if prefix.contains('/') {
                return refused(format!("names that begin with {prefix:?}"));
            }
            amount("the number of a name", first.saturating_add(*count))?;
            bytes("a file", *file_bytes)
        }
        Task::Walk(Walk { dirs, name_has: _, found }) => {
            dirs.iter().try_for_each(|dir| root_or_path(dir))?;
            found.iter().try_for_each(|Found { bytes: _, since }| path(since))
        }
        Task::Tree(Tree { operation: _, dir, files, seed: _ }) => {
            root_or_path(dir)?;
            if *files > SHUFFLED_MAX {
                return refused(format!("a tree of {files} files: {SHUFFLED_MAX} are the most"));
            }
            Ok(())
        }
    }
}

/// Checks that a path stays below the agent's directory.
fn path(path: &str) -> Result<(), Trouble> {
    let plain = |name: &str| !name.is_empty() && name != "." && name != ".." && !name.contains('\0');
    if path.len() <= PATH_BYTES_MAX && path.split('/').all(plain) {
        return Ok(());
    }
    refused(format!("the path {path:?}, which is not below its directory"))
}

fn root_or_path(dir: &str) -> Result<(), Trouble> {
    if dir.is_empty() { Ok(()) } else { path(dir) }
}

fn bytes(what: &str, bytes: u64) -> Result<(), Trouble> {
    if bytes <= RECORD_BYTES_MAX {
        return Ok(());
    }
    refused(format!("{what} of {bytes} bytes: {RECORD_BYTES_MAX} are the most"))
}

fn amount(what: &str, amount: u64) -> Result<(), Trouble> {
    if amount <= AMOUNT_MAX { Ok(()) } else { refused(format!("{what}: {amount}; {AMOUNT_MAX} is the most")) }
}

fn refused(what: String) -> Result<(), Trouble> {
    Err(Trouble(format!("an agent refuses {what}")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::phase::{Done, Limit, Then};
    use crate::result::{Cache, Unit};
    use crate::task::{Direction, NameOperation, TreeOperation};

    fn one(task: Task) -> Phase {
        Phase {
            name: "write".into(),
            at: BTreeMap::new(),
            unit: Unit::Bytes,
            tasks: vec![vec![task]],
            cache: Cache::AsIs,
            verify: false,
            limit: None,
            counts: true,
        }
    }

    fn transfer(path: &str, records: Records, order: Order) -> Task {
        Task::Transfer(Transfer { path: path.into(), direction: Direction::Write, records, order, seed: 1 })
    }

    fn names(dirs: &[&str], prefix: &str, count: u64, file_bytes: u64) -> Task {
        Task::Names(Names {
            operation: NameOperation::Create,
            dirs: dirs.iter().map(|dir| (*dir).into()).collect(),
            prefix: prefix.into(),
            first: 1,
            count,
            file_bytes,
            seed: 1,
        })
    }

    #[test]
    fn what_runs_ask_for_is_done() {
        let tree = Tree { operation: TreeOperation::Unpack, dir: "d".into(), files: 1000, seed: 1 };
        let found = Some(Found { bytes: 3901, since: "d/stamp".into() });
        let walk = Walk { dirs: vec![String::new(), "d".into()], name_has: "01".into(), found };
        for task in [
            Task::Rest,
            Task::Make("d".into()),
            transfer("d/f", Records::run(0, 1 << 40, 1 << 20), Order::Forward),
            transfer("d/f", Records::run(47_008, 47_008, 47_008), Order::Shuffled),
            names(&["", "d/e"], "f.", 1_000_000, 3901),
            Task::Walk(walk),
            Task::Tree(tree),
            Task::Clear("d".into()),
        ] {
            assert_eq!(phase(&one(task.clone())), Ok(()), "{task:?}");
        }
    }

    #[test]
    fn paths_that_leave_the_directory_are_refused() {
        let long = "a/".repeat(3000) + "a";
        for bad in ["/etc/passwd", "..", "a/../../b", "a//b", "a/", ".", "", "a\0b", &long] {
            for task in [
                Task::Make(bad.into()),
                Task::Clear(bad.into()),
                transfer(bad, Records::run(0, 1, 1), Order::Forward),
                names(&["d"], bad, 1, 0),
                Task::Walk(Walk {
                    dirs: vec![],
                    name_has: String::new(),
                    found: Some(Found { bytes: 1, since: bad.into() }),
                }),
            ] {
                let line = phase(&one(task)).unwrap_err().to_string();
                assert!(line.starts_with("an agent refuses the path"), "{bad:?}: {line}");
            }
            if !bad.is_empty() {
                phase(&one(names(&["d", bad], "f", 1, 0))).unwrap_err();
                let tree = Tree { operation: TreeOperation::Remove, dir: bad.into(), files: 1, seed: 1 };
                phase(&one(Task::Tree(tree))).unwrap_err();
                let walk = Walk { dirs: vec![bad.into()], name_has: String::new(), found: None };
                phase(&one(Task::Walk(walk))).unwrap_err();
            }
        }
        phase(&one(names(&["d"], "a/b", 1, 0))).unwrap_err();
        phase(&one(names(&[], "a", 1, 0))).unwrap_err();
    }

    #[test]
    fn amounts_that_would_end_the_agent_are_refused() {
        let records = |start, record_bytes, stride, count| Records { start, record_bytes, stride, count };
        for task in [
            transfer("f", records(0, 0, 0, 1), Order::Forward),
            transfer("f", records(0, 1 << 40, 1 << 40, 1), Order::Forward),
            transfer("f", records(u64::MAX, 1, 1, 1), Order::Forward),
            transfer("f", records(0, 1, u64::MAX, 2), Order::Forward),
            transfer("f", records(0, 1, 0, 1 << 40), Order::Shuffled),
            names(&["d"], "f", u64::MAX, 0),
            names(&["d"], "f", 1, 1 << 40),
            Task::Tree(Tree { operation: TreeOperation::Unpack, dir: "d".into(), files: u64::MAX, seed: 1 }),
        ] {
            let line = phase(&one(task.clone())).unwrap_err().to_string();
            assert!(line.starts_with("an agent refuses"), "{task:?}: {line}");
        }
        let mut crowd = one(Task::Rest);
        crowd.tasks = vec![vec![Task::Rest; WORKERS_MAX + 1]];
        phase(&crowd).unwrap_err();
        crowd.tasks = vec![vec![], vec![]];
        phase(&crowd).unwrap_err();
        let limit = Some(Limit { after: Duration::MAX, then: Then::Stop });
        phase(&Phase { limit, ..one(Task::Rest) }).unwrap_err();
    }

    #[test]
    fn a_terminal_is_shown_no_control_characters_and_no_novels() {
        let machine = |host: &str| Machine {
            host: host.into(),
            kernel: "Linux 6.1.176".into(),
            cpus: 2,
            memory_bytes: 1 << 30,
            target: "/mnt on /mnt: nfs4, 10.0.0.2:/, rw".into(),
            clock: None,
        };
        let greets =
            |host: &str| hello(&Hello { machine: machine(host), free_bytes: None, has_caches: true });
        assert_eq!(greets("client1"), Ok(()));
        for host in ["", "a\u{1b}[2J", "a\nheorot: all is well", &"a".repeat(5000)] {
            greets(host).unwrap_err();
        }
        assert_eq!(plain("no room\u{1b}[2J\r\n"), "no room [2J  ");
    }

    #[test]
    fn reports_that_cannot_be_are_refused() {
        let report = |worker| AgentDone { workers: vec![worker], ..AgentDone::default() };
        let right = Done { seconds: 1.5, bytes: 1 << 40, ..Done::default() };
        assert_eq!(done(&report(right.clone()), 1), Ok(()));
        done(&report(right.clone()), 2).unwrap_err();
        for wrong in [
            Done { seconds: f64::MAX, ..right.clone() },
            Done { seconds: -1.0, ..right.clone() },
            Done { bytes: u64::MAX, ..right.clone() },
            Done { operations: u64::MAX, ..right.clone() },
            Done { latencies: serde_json::from_str(r#"{"counts":{"65535":1}}"#).unwrap(), ..right.clone() },
        ] {
            done(&report(wrong), 1).unwrap_err();
        }
    }
}
