//! `heorot bench` as a program: alone, with agents, without a mount, and with an early end.

use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tests::Up;

/// Options of a long run that fits any disk: random records, one after the other, repeatedly.
const ENDLESS: [&str; 4] = ["--size", "64MiB", "--records", "4KiB"];

/// Loopback address that no other test uses, so that all tests can use the same ports.
fn own_ip() -> Ipv4Addr {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, high | 0x80, low, NEXT.fetch_add(1, Ordering::Relaxed) as u8)
}

/// `heorot bench …`, killed at the end of its test if it still runs.
struct Bench {
    child: Child,
    stderr: BufReader<ChildStderr>,
}

impl Bench {
    fn start(args: &[&str]) -> Self {
        let mut command = Command::new(tests::binary());
        command.arg("bench").args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Self { child, stderr }
    }

    /// Reads standard error up to a line with `part`.
    fn says(&mut self, part: &str) -> String {
        let mut said = String::new();
        loop {
            let mut line = String::new();
            assert!(self.stderr.read_line(&mut line).unwrap() > 0, "it ended without {part:?}: {said}");
            if line.contains(part) {
                return line;
            }
            said += &line;
        }
    }

    /// Waits for the first measurement: the first line of standard output.
    fn measures(&mut self) -> String {
        let mut line = String::new();
        let mut stdout = BufReader::with_capacity(1, self.child.stdout.as_mut().unwrap());
        stdout.read_line(&mut line).unwrap();
        line
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Exit code, and the rest of standard error.
    fn ends(mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), said)
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Directories of a test: the measured one, and one for results.
struct Place {
    dir: tempfile::TempDir,
    address: String,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("measured")).unwrap();
        Self { dir, address: format!("{}:4000", own_ip()) }
    }

    fn measured(&self) -> String {
        self.dir.path().join("measured").display().to_string()
    }

    fn results_path(&self) -> PathBuf {
        self.dir.path().join("results.json")
    }

    fn results(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.results_path()).unwrap()).unwrap()
    }

    /// Starts a run with agents.
    fn coordinator(&self, run: &str, agents: &str, more: &[&str]) -> Bench {
        let results = self.results_path().display().to_string();
        let args = [run, "--agents", agents, "--listen", &self.address, "--output", &results];
        let mut bench = Bench::start(&[&args, more].concat());
        bench.says("waiting for ");
        bench
    }

    fn agent(&self) -> Bench {
        Bench::start(&["join", &self.address, &self.measured(), "--not-a-mount"])
    }

    fn alone(&self, target: &str, run: &str, more: &[&str]) -> Bench {
        let results = self.results_path().display().to_string();
        Bench::start(&[&[run, target, "--not-a-mount", "--output", &results], more].concat())
    }

    fn left_behind(&self) -> Vec<PathBuf> {
        std::fs::read_dir(Path::new(&self.measured())).unwrap().map(|entry| entry.unwrap().path()).collect()
    }
}

#[test]
fn two_agents_measure_one_directory_together() {
    let place = Place::new();
    let sizes = ["--clients", "1,2", "--size", "4MiB", "--direct"];
    let mut coordinator = place.coordinator("separate-write", "2", &sizes);
    let agents = [place.agent(), place.agent()];
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    assert!(coordinator.says("agent 2 of 2: ").contains(&format!("{host} (127.")));
    assert!(coordinator.says("clock of ").contains(" ms, to within "));
    let (code, said) = coordinator.ends();
    assert_eq!(code, Some(0), "{said}");
    for agent in agents {
        let (code, said) = agent.ends();
        assert_eq!(code, Some(0), "{said}");
    }
    let results = place.results();
    assert_eq!(results["partial"], false);
    let machines = results["machines"].as_array().unwrap();
    assert_eq!(machines.len(), 2);
    for machine in machines {
        assert_eq!(machine["host"], host.as_str());
        assert!(machine["clock"]["error_us"].as_f64().unwrap() > 0.0, "{machine}");
        assert!(machine["target"].as_str().unwrap().starts_with(&place.measured()), "{machine}");
    }
    let measurements = results["measurements"].as_array().unwrap();
    let by_two = measurements.iter().find(|one| one["at"]["clients"] == 2).unwrap();
    assert_eq!((&by_two["bytes"], &by_two["workers"][1].is_f64()), (&Value::from(8 << 20), &true));
    assert_eq!(place.left_behind(), Vec::<PathBuf>::new());
}

#[test]
fn an_agent_may_come_before_the_run() {
    let place = Place::new();
    let agent = Bench::start(&["join", &place.address, &place.measured(), "--not-a-mount", "--wait", "60"]);
    let sizes = ["--size", "1MiB", "--records", "64KiB"];
    let (code, said) = place.coordinator("record-size", "1", &sizes).ends();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(agent.ends().0, Some(0));
}

#[test]
fn agents_that_were_given_different_file_systems_are_told_so() {
    let (place, elsewhere) = (Place::new(), Place::new());
    let coordinator = place.coordinator("record-size", "2", &[]);
    let agents =
        [place.agent(), Bench::start(&["join", &place.address, &elsewhere.measured(), "--not-a-mount"])];
    let (code, said) = coordinator.ends();
    assert_eq!(code, Some(1), "{said}");
    let line = said.lines().last().unwrap();
    assert!(line.starts_with("heorot: not every agent sees what one of them made: "), "{line}");
    assert!(
        line.ends_with("agents must measure the same file system: look at what each was given"),
        "{line}"
    );
    for agent in agents {
        assert_eq!(agent.ends().0, Some(1));
    }
}

#[test]
fn ctrl_c_gives_a_partial_result_and_exit_code_130() {
    let place = Place::new();
    let mut bench = place.alone(&place.measured(), "record-size", &ENDLESS);
    bench.measures();
    bench.signal(Signal::INT);
    let (code, said) = bench.ends();
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("heorot: ended by Ctrl-C: the results are marked partial\n"), "{said}");
    let results = place.results();
    assert_eq!((&results["partial"], &results["ended_by"]), (&Value::from(true), &Value::from("Ctrl-C")));
    let measurements = results["measurements"].as_array().unwrap();
    assert_eq!(measurements[0]["partial"], false, "what was done before is whole");
    assert_eq!(measurements.last().unwrap()["partial"], true);
    assert_eq!(place.left_behind(), Vec::<PathBuf>::new());
}

#[test]
fn ctrl_c_at_the_coordinator_ends_the_agents_too() {
    let place = Place::new();
    let mut coordinator = place.coordinator("record-size", "2", &ENDLESS);
    let agents = [place.agent(), place.agent()];
    coordinator.measures();
    coordinator.signal(Signal::INT);
    let (code, said) = coordinator.ends();
    assert_eq!(code, Some(130), "{said}");
    assert_eq!(place.results()["partial"], true);
    for agent in agents {
        let (code, said) = agent.ends();
        assert_eq!(code, Some(1), "{said}");
        assert!(said.ends_with("ended the run: Ctrl-C\n"), "{said}");
    }
    assert_eq!(place.left_behind(), Vec::<PathBuf>::new());
}

/// For both cases: the killed agent made the folder of the run, and would have removed it, or another one
/// did.
#[test]
fn an_agent_that_is_killed_ends_the_run_with_a_partial_result_that_names_it_and_leaves_nothing() {
    for first_is_killed in [true, false] {
        an_agent_is_killed(first_is_killed);
    }
}

fn an_agent_is_killed(first_is_killed: bool) {
    let place = Place::new();
    let mut coordinator = place.coordinator("record-size", "2", &ENDLESS);
    let mut first = place.agent();
    first.says("joined ");
    let second = place.agent();
    let (killed, other) = if first_is_killed { (first, second) } else { (second, first) };
    coordinator.measures();
    killed.signal(Signal::KILL);
    let (code, said) = coordinator.ends();
    assert_eq!(code, Some(1), "{said}");
    let line = said.lines().last().unwrap();
    assert!(line.starts_with("heorot: agent ") && line.contains(" is gone: "), "{said}");
    let results = place.results();
    assert_eq!(results["partial"], true);
    assert_eq!(results["ended_by"], line.trim_start_matches("heorot: "));
    assert!(!results["measurements"].as_array().unwrap().is_empty());
    let (code, said) = other.ends();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(" is gone: "), "{said}");
    assert_eq!(place.left_behind(), Vec::<PathBuf>::new());
}

#[test]
fn a_coordinator_that_is_killed_ends_its_agents() {
    let place = Place::new();
    let mut coordinator = place.coordinator("record-size", "1", &ENDLESS);
    let agent = place.agent();
    coordinator.measures();
    coordinator.signal(Signal::KILL);
    let (code, said) = agent.ends();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.lines().last().unwrap().contains("is gone"), "{said}");
}

#[test]
fn what_cannot_be_is_one_line_that_says_what_to_do() {
    let place = Place::new();
    let measured = place.measured();
    let taken = TcpListener::bind(&place.address).unwrap();
    let free = format!("{}:4000", own_ip());
    let nfs = format!("nfs://{free}/");
    let cases: [(&[&str], &str); 6] = [
        (&["join", &free, &measured, "--not-a-mount"], "waiting there?"),
        (&["join", &free, &measured], "--not-a-mount"),
        (&["record-size", "--agents", "1", "--listen", &place.address], "with --listen"),
        (&["record-size", &nfs], "is an NFS server there, and may this machine mount that path?"),
        (&["record-size", "nfs://host/?version=2"], "version=2 is not 3, 4.1 or 4.2"),
        (&["record-size", &measured, "--size", "1GiB", "--records", "0"], "heorot: "),
    ];
    for (args, part) in cases {
        let (code, said) = Bench::start(args).ends();
        assert_eq!(code, Some(1), "{args:?}: {said}");
        assert!(said.lines().count() == 1 && said.contains(part), "{args:?}: {said}");
    }
    drop(taken);
    let (code, said) = Bench::start(&["record-size"]).ends();
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("<DIR|URL>"), "{said}");
}

#[test]
fn an_nfs_server_is_measured_without_a_mount_by_each_version() {
    let place = Place::new();
    let up = Up::start();
    for version in ["3", "4.1", "4.2"] {
        let url = format!("nfs://{}/?version={version}", up.nfs);
        let runs: [(&str, &[&str]); 3] = [
            ("record-size", &["--size", "3MiB", "--records", "64KiB,1MiB", "--verify"]),
            ("processes", &["--processes", "3", "--size", "1MiB", "--verify"]),
            ("mdtest", &["--files", "30", "--processes", "2"]),
        ];
        for (run, more) in runs {
            let (code, said) = place.alone(&url, run, more).ends();
            assert_eq!(code, Some(0), "{run} {url}: {said}");
            let results = place.results();
            assert_eq!(results["partial"], false);
            let measurements = results["measurements"].as_array().unwrap();
            assert!(measurements.iter().any(|one| one["cache"] == "none"), "{results}");
            assert!(measurements.iter().all(|one| one["cache"] != "dropped"), "{results}");
            assert!(results["machines"][0]["target"].as_str().unwrap().starts_with(&url), "{results}");
        }
    }
}

#[test]
fn agents_measure_an_nfs_server_without_a_mount() {
    let place = Place::new();
    let up = Up::start();
    let url = format!("nfs://{}/", up.nfs);
    let sizes = ["--clients", "2", "--size", "2MiB", "--verify"];
    let coordinator = place.coordinator("shared-read", "2", &sizes);
    let agents = [(); 2].map(|()| Bench::start(&["join", &place.address, &url]));
    let (code, said) = coordinator.ends();
    assert_eq!(code, Some(0), "{said}");
    for agent in agents {
        assert_eq!(agent.ends().0, Some(0));
    }
    let results = place.results();
    let measurements = results["measurements"].as_array().unwrap();
    let read = measurements.iter().find(|one| one["verified_bytes"] == 4 << 20);
    assert!(read.is_some(), "{results}");
}

#[test]
fn without_a_terminal_lines_tell_how_far_it_is_and_quiet_tells_nothing() {
    let place = Place::new();
    let up = Up::start();
    // A round trip for each record: long enough for several progress lines.
    let long = ["--size", "512MiB", "--records", "4KiB"];
    let mut bench = place.alone(&format!("nfs://{}/", up.nfs), "record-size", &long);
    let line = bench.says(" MB/s");
    assert!(line.starts_with("write, record_bytes 4096: ") && line.contains(" of 512 MiB in "), "{line}");
    bench.signal(Signal::TERM);
    assert_eq!(bench.ends().0, Some(130));
    let (code, said) = place
        .alone(&place.measured(), "record-size", &["--size", "2MiB", "--records", "2MiB", "--quiet"])
        .ends();
    assert_eq!((code, said.as_str()), (Some(0), ""));
}

/// An agent that ends during the wait leaves the team.
#[test]
fn waiting_for_agents_ends_with_ctrl_c() {
    let place = Place::new();
    let mut coordinator = place.coordinator("record-size", "2", &[]);
    let agent = place.agent();
    coordinator.says("agent 1 of 2: ");
    // Not SIGINT, which stays ignored if the tests run in the background with SIGINT ignored.
    agent.signal(Signal::TERM);
    agent.ends();
    coordinator.says("has left again");
    coordinator.signal(Signal::INT);
    let (code, said) = coordinator.ends();
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("ended when 0 of 2 agents had come"), "{said}");
    assert!(!place.results_path().exists());
}
