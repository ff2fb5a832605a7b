//! Two agents and a coordinator, in one process, over loopback: joint phases, and refusals.
//!
//! The target is in memory, so that a story can set the speed of each agent.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bench::agents::{self, Coordinator};
use bench::phase::{AgentDone, Limit, Phase, Then};
use bench::result::{Cache, Unit};
use bench::target::{Attributes, Open, OpenFile, Target};
use bench::task::{Direction, Order, Records, Task, Transfer};
use bench::team::Team;
use bench::trouble::Trouble;
use bench::work::Progress;
use parking_lot::Mutex;

const VERSION: &str = "1.2.3";
const RECORD_BYTES: u64 = 4096;

/// File system with a delay for each open and each record.
#[derive(Clone, Default)]
struct Memory {
    open: Duration,
    record: Duration,
    /// Time of each record's write.
    written: Arc<Mutex<Vec<Instant>>>,
}

impl Target for Memory {
    fn describe(&self) -> String {
        "memory".into()
    }
    fn free_bytes(&self) -> Option<u64> {
        None
    }
    fn fetched_bytes(&self) -> Option<u64> {
        None
    }
    fn forget_names(&self) -> io::Result<()> {
        unreachable!("no story asks")
    }
    fn open(&self, path: &str, _open: Open) -> io::Result<Box<dyn OpenFile>> {
        if path == "missing" {
            return Err(io::ErrorKind::NotFound.into());
        }
        thread::sleep(self.open);
        Ok(Box::new(self.clone()))
    }
    fn stat(&self, _path: &str) -> io::Result<Attributes> {
        unreachable!("no story asks")
    }
    fn rename(&self, _from: &str, _to: &str) -> io::Result<()> {
        unreachable!("no story asks")
    }
    fn unlink(&self, _path: &str) -> io::Result<()> {
        unreachable!("no story asks")
    }
    fn mkdir(&self, _path: &str) -> io::Result<()> {
        unreachable!("no story asks")
    }
    fn rmdir(&self, _path: &str) -> io::Result<()> {
        unreachable!("no story asks")
    }
    fn list(&self, _path: &str, _each: &mut dyn FnMut(&str, bool)) -> io::Result<()> {
        unreachable!("no story asks")
    }
}

impl OpenFile for Memory {
    fn read_at(&self, _offset: u64, _into: &mut [u8]) -> io::Result<usize> {
        unreachable!("no story asks")
    }
    fn write_at(&self, _offset: u64, _data: &[u8]) -> io::Result<()> {
        self.written.lock().push(Instant::now());
        thread::sleep(self.record);
        Ok(())
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn forget(&self) -> io::Result<()> {
        Ok(())
    }
    fn close(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}

type Agent = JoinHandle<Result<(), Trouble>>;

fn agent(address: SocketAddr, version: &'static str, memory: &Memory) -> Agent {
    let memory = Arc::new(memory.clone());
    thread::spawn(move || agents::join(&address.to_string(), version, memory, Duration::ZERO, &mut |_| {}))
}

fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Team with one agent for each memory, and the lines about their joins.
fn team(memories: &[Memory]) -> (Coordinator, Vec<Agent>, String) {
    let (listener, address) = listen();
    let mut said = String::new();
    let mut say = |line: &str| said = format!("{said}{line}\n");
    let agents = memories.iter().map(|memory| agent(address, VERSION, memory)).collect();
    let team = agents::gather(listener, memories.len(), VERSION, &mut say, &|| false).unwrap();
    (team, agents, said)
}

fn write(path: &str, records: u64) -> Task {
    let records = Records::run(0, records * RECORD_BYTES, RECORD_BYTES);
    let (direction, order) = (Direction::Write, Order::Forward);
    Task::Transfer(Transfer { path: path.into(), direction, records, order, seed: 1 })
}

fn phase(tasks: Vec<Vec<Task>>, limit: Option<Limit>) -> Phase {
    let (name, cache) = ("write".into(), Cache::FsyncAtEnd);
    let (at, unit) = (BTreeMap::new(), Unit::Bytes);
    Phase { name, at, unit, tasks, cache, verify: false, limit, counts: true }
}

fn watching(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn operations(agents: &[AgentDone]) -> Vec<u64> {
    agents.iter().flat_map(|agent| &agent.workers).map(|worker| worker.operations).collect()
}

/// Error line of an agent.
fn ended(agent: Agent) -> String {
    agent.join().unwrap().unwrap_err().to_string()
}

#[test]
fn agents_start_together_however_long_one_takes_to_get_ready() {
    let quick = Memory::default();
    let slow = Memory { open: Duration::from_millis(300), ..Memory::default() };
    let (mut team, agents, said) = team(&[quick.clone(), slow.clone()]);
    assert!(said.contains("agent 2 of 2: ") && said.contains(" CPUs, ") && said.contains("memory"), "{said}");
    let began = Instant::now();
    let tasks = vec![vec![write("a", 10), write("b", 5)], vec![write("c", 20)]];
    let done = team.run(&phase(tasks, None), &mut watching).unwrap();
    let mut counts = operations(&done);
    counts.sort_unstable();
    assert_eq!(counts, [5, 10, 20]);
    for memory in [&quick, &slow] {
        let first = memory.written.lock()[0];
        assert!(first - began >= slow.open, "it wrote before all were ready");
    }
    for machine in team.machines() {
        let clock = machine.clock.unwrap();
        // The clock is compared with itself.
        assert!(clock.ahead_us.abs() < 1e6, "{clock:?}");
        assert!(clock.error_us > 0.0 && clock.error_us < 1e6, "{clock:?}");
    }
    team.ended_by(None);
    drop(team);
    for agent in agents {
        assert_eq!(agent.join().unwrap(), Ok(()));
    }
}

#[test]
fn after_the_time_all_agents_go_on_to_the_highest_count_of_any() {
    let slow = Memory { record: Duration::from_millis(5), ..Memory::default() };
    let slower = Memory { record: Duration::from_millis(25), ..Memory::default() };
    let (mut team, _agents, _) = team(&[slow.clone(), slower.clone()]);
    let limit = Limit { after: Duration::from_millis(250), then: Then::WearOut };
    let tasks = vec![vec![write("a", 1 << 30), write("b", 1 << 30)], vec![write("c", 1 << 30)]];
    let done = team.run(&phase(tasks, Some(limit)), &mut watching).unwrap();
    let counts = operations(&done);
    assert_eq!(counts.len(), 3);
    assert!(counts[0] > 10 && counts.iter().all(|count| *count == counts[0]), "{counts:?}");
    // Once more: nothing remains from the previous phase.
    let tasks = vec![vec![write("a", 7)], vec![write("c", 7), Task::Rest]];
    let done = team.run(&phase(tasks, Some(limit)), &mut watching).unwrap();
    let mut counts = operations(&done);
    counts.sort_unstable();
    assert_eq!(counts, [0, 7, 7], "done before the time");
}

#[test]
fn what_was_done_until_somebody_stopped_it_is_the_result_and_agents_hear_why() {
    let memory = Memory { record: Duration::from_millis(5), ..Memory::default() };
    let (mut team, agents, _) = team(&[memory.clone(), memory]);
    let mut seen = Progress::default();
    let tasks = vec![vec![write("a", 1 << 30)], vec![write("b", 1 << 30)]];
    let done = team.run(&phase(tasks, None), &mut |progress| {
        seen = progress;
        if progress.operations < 20 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    assert_eq!(seen.bytes, seen.operations * RECORD_BYTES);
    let counts = operations(&done.unwrap());
    assert!(counts.iter().sum::<u64>() >= 20 && counts.iter().all(|count| *count > 0), "{counts:?}");
    team.ended_by(Some("Ctrl-C".into()));
    drop(team);
    for agent in agents {
        let line = ended(agent);
        assert!(line.ends_with("ended the run: Ctrl-C"), "{line}");
    }
}

#[test]
fn one_agents_trouble_ends_the_phase_for_all_and_names_the_agent() {
    let memory = Memory { record: Duration::from_millis(5), ..Memory::default() };
    let (mut team, _agents, _) = team(&[memory.clone(), memory]);
    let host = team.machines()[0].host.clone();
    let began = Instant::now();
    let tasks = vec![vec![write("missing", 1)], vec![write("b", 1 << 30)]];
    let line = team.run(&phase(tasks, None), &mut watching).unwrap_err().to_string();
    assert!(line.starts_with(&format!("{host} (127.0.0.1:")) && line.contains("open missing"), "{line}");
    assert!(began.elapsed() < Duration::from_secs(30), "the other was stopped");
    let tasks = vec![vec![write("a", 1)], vec![write("../b", 1)]];
    let line = team.run(&phase(tasks, None), &mut watching).unwrap_err().to_string();
    assert!(line.contains("an agent refuses the path \"../b\""), "{line}");
    // Both agents still work.
    let tasks = vec![vec![write("a", 1)], vec![write("b", 2)]];
    assert_eq!(team.run(&phase(tasks, None), &mut watching).unwrap().len(), 2);
}

#[test]
fn another_version_is_refused_on_both_sides_and_the_wait_goes_on() {
    let (listener, address) = listen();
    let other = agent(address, "9.9.9", &Memory::default());
    let right = thread::spawn(move || {
        let line = ended(other);
        assert_eq!(
            line,
            format!("join {address}: it has heorot 1.2.3, this is 9.9.9: install the same version on both")
        );
        agents::join(&address.to_string(), VERSION, Arc::new(Memory::default()), Duration::ZERO, &mut |_| {})
    });
    let mut said = String::new();
    let mut say = |line: &str| said = format!("{said}{line}\n");
    let mut team = agents::gather(listener, 1, VERSION, &mut say, &|| false).unwrap();
    let line = "was sent away: it has heorot 9.9.9, this is 1.2.3: install the same version on both\n";
    assert!(said.contains(line), "{said}");
    team.ended_by(None);
    drop(team);
    assert_eq!(right.join().unwrap(), Ok(()));
}

#[test]
fn strangers_are_sent_away_and_do_no_harm() {
    let (listener, address) = listen();
    let greeting = b"heorot bench 1.2.3\n";
    let frame = |length: u32, json: &str| [&greeting[..], &length.to_be_bytes(), json.as_bytes()].concat();
    let escape = "{\"hello\":{\"machine\":{\"host\":\"\\u001b[2J\",\"kernel\":\"\",\"cpus\":1,\"memory_bytes\":1,\"target\":\"\"},\"has_caches\":true}}";
    let unasked = serde_json::json!({"progress": {"bytes": 1, "operations": 1}}).to_string();
    let strangers = [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0; 100_000],
        frame(0x7fff_ffff, "{"),
        frame(0xffff_ffff, ""),
        frame(5, "{...}"),
        frame(u32::try_from(unasked.len()).unwrap(), &unasked),
        frame(u32::try_from(escape.len()).unwrap(), escape),
        greeting.to_vec(),
        vec![],
    ];
    let count = strangers.len();
    let spoke = thread::spawn(move || {
        for bytes in strangers {
            let mut stream = TcpStream::connect(address).unwrap();
            // A refused connection may be closed before all is written.
            let _ = stream.write_all(&bytes);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest);
        }
        // A silent connection that stays open.
        let silent = TcpStream::connect(address).unwrap();
        let joined = agents::join(
            &address.to_string(),
            VERSION,
            Arc::new(Memory::default()),
            Duration::ZERO,
            &mut |_| {},
        );
        drop(silent);
        joined
    });
    let mut said = Vec::new();
    let mut say = |line: &str| said.push(line.to_owned());
    let mut team = agents::gather(listener, 1, VERSION, &mut say, &|| false).unwrap();
    let away: Vec<_> = said.iter().filter(|line| line.contains(" was sent away: ")).collect();
    assert_eq!(away.len(), count, "{said:?}");
    assert!(away.iter().any(|line| line.ends_with("it announced 2147483647 bytes; 65536 are the most here")));
    assert!(
        away.iter().any(|line| line.ends_with("it says of its machine what cannot be shown")),
        "{away:?}"
    );
    let done = team.run(&phase(vec![vec![write("a", 3)]], None), &mut watching).unwrap();
    assert_eq!(operations(&done), [3]);
    team.ended_by(None);
    drop(team);
    assert_eq!(spoke.join().unwrap(), Ok(()));
}

#[test]
fn an_agent_that_is_gone_ends_the_phase_and_later_ones_that_need_it() {
    let memory = Memory { record: Duration::from_millis(5), ..Memory::default() };
    let (listener, address) = listen();
    let (proxy, through) = listen();
    let cut = Arc::new(AtomicBool::new(false));
    let cutting = Arc::clone(&cut);
    // Connection that the test can cut.
    thread::spawn(move || {
        let near = proxy.accept().unwrap().0;
        let far = TcpStream::connect(address).unwrap();
        let copies = [(near.try_clone(), far.try_clone()), (far.try_clone(), near.try_clone())];
        for (from, to) in copies {
            let (mut from, mut to) = (from.unwrap(), to.unwrap());
            thread::spawn(move || io::copy(&mut from, &mut to));
        }
        while !cutting.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(1));
        }
        near.shutdown(std::net::Shutdown::Both).unwrap();
        far.shutdown(std::net::Shutdown::Both).unwrap();
    });
    let agents = [agent(address, VERSION, &memory), agent(through, VERSION, &memory)];
    let mut team = agents::gather(listener, 2, VERSION, &mut |_| {}, &|| false).unwrap();
    let tasks = vec![vec![write("a", 1 << 30)], vec![write("b", 1 << 30)]];
    let line = team.run(&phase(tasks, None), &mut |progress| {
        cut.store(progress.operations > 0, Ordering::Relaxed);
        ControlFlow::Continue(())
    });
    let line = line.unwrap_err().to_string();
    assert!(line.starts_with("agent ") && line.contains(" is gone: "), "{line}");
    // The other agent is stopped, and remains for the cleanup.
    let tasks = [vec![vec![write("a", 1)], vec![]], vec![vec![], vec![write("b", 1)]]];
    let outcomes = tasks.map(|tasks| team.run(&phase(tasks, None), &mut watching).is_ok());
    assert!(outcomes == [true, false] || outcomes == [false, true], "{outcomes:?}");
    drop(team);
    let lines = agents.map(ended);
    // Either the read or the write detects the loss.
    assert!(lines.iter().any(|line| line.contains(" is gone: ")), "{lines:?}");
    assert!(lines.iter().any(|line| line.ends_with("ended the run: the coordinator gave up")), "{lines:?}");
}

#[test]
fn a_coordinator_that_is_not_there_is_one_line_that_says_what_to_look_for() {
    let (listener, address) = listen();
    drop(listener);
    let line = ended(agent(address, VERSION, &Memory::default()));
    let what = "is the coordinator (heorot bench RUN … --agents N --listen ADDR) waiting there?";
    assert!(line.starts_with(&format!("join {address}: ")) && line.ends_with(what), "{line}");
}

#[test]
fn waiting_for_agents_can_be_ended() {
    let (listener, address) = listen();
    let agent = agent(address, VERSION, &Memory::default());
    let came = AtomicBool::new(false);
    let mut say = |_: &str| came.store(true, Ordering::Relaxed);
    let line = agents::gather(listener, 2, VERSION, &mut say, &|| came.load(Ordering::Relaxed));
    assert_eq!(line.err().unwrap().to_string(), "ended when 1 of 2 agents had come");
    let line = ended(agent);
    assert!(line.ends_with("ended the run: ended when 1 of 2 agents had come"), "{line}");
}
