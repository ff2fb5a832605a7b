//! Machines on which an operator types command lines: [`lab::Machine`], where what fails panics.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Output;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::{Lab, binary, must};

/// A start, a fail-over, a lease that ends: nothing that is waited for takes longer on a busy computer.
const PATIENCE: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(100);

/// A machine, and the `heorot run` on it. Dropping it kills that; if the test is failing, it prints its log.
pub struct Machine {
    machine: lab::Machine,
    node: lab::Server,
}

/// What `heorot status` printed and how it ended.
#[derive(Debug)]
pub struct Verdict {
    /// The whole text.
    pub text: String,
    /// 0 healthy, 1 degraded, 2 failed, 3 nothing can be said.
    pub exit_status: i32,
    /// The same as JSON; null if nothing can be said.
    pub json: serde_json::Value,
}

impl Machine {
    /// A machine with the program installed, and nothing else.
    #[track_caller]
    pub fn new(lab: &Lab, name: &str) -> Machine {
        let machine = must(lab::Machine::new(lab.inner(), name));
        must(machine.install(&binary()));
        let node = machine.server(&["heorot", "run"], "ready");
        Machine { machine, node }
    }

    /// Its host name.
    pub fn name(&self) -> &str {
        self.machine.name()
    }

    /// Its address.
    pub fn address(&self) -> Ipv4Addr {
        self.machine.namespace().address
    }

    /// Where `path` of the machine is on this computer.
    pub fn file(&self, path: &str) -> PathBuf {
        self.machine.file(path)
    }

    /// Puts `program` into the machine's /usr/local/bin as heorot; the next start runs it.
    #[track_caller]
    pub fn install(&self, program: &std::path::Path) {
        must(self.machine.install(program));
    }

    /// Runs a command line in /root; whatever comes of it.
    #[track_caller]
    pub fn try_sh(&self, line: &str) -> Output {
        must(self.machine.run(line))
    }

    /// Runs a command line, which must succeed; what it printed.
    #[track_caller]
    pub fn sh(&self, line: &str) -> String {
        let output = self.try_sh(line);
        let [said, error] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        assert!(output.status.success(), "{}# {line}\n{said}{error}", self.name());
        said.into_owned()
    }

    /// Runs a command line, which must fail; what it printed as errors.
    #[track_caller]
    pub fn refused(&self, line: &str) -> String {
        let output = self.try_sh(line);
        assert!(!output.status.success(), "{}# {line} is to be refused", self.name());
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// `heorot run`, until it is ready.
    #[track_caller]
    pub fn start(&mut self) {
        must(self.node.start());
    }

    /// `heorot run`, without waiting.
    #[track_caller]
    pub fn begin(&mut self) {
        must(self.node.begin());
    }

    /// SIGTERM to it, then `heorot run` with the program that is installed by now.
    #[track_caller]
    pub fn restart(&mut self) {
        self.stop();
        self.start();
    }

    /// SIGTERM to it: it must end by itself.
    #[track_caller]
    pub fn stop(&mut self) {
        must(self.node.stop());
    }

    /// Its power goes.
    pub fn kill(&mut self) {
        self.node.kill();
    }

    /// The whole log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.node.log()).unwrap_or_default()
    }

    /// `heorot status`, as text and as JSON.
    #[track_caller]
    pub fn status(&self) -> Verdict {
        let output = self.try_sh("heorot status");
        let json = self.try_sh("heorot status --json");
        Verdict {
            text: String::from_utf8_lossy(&output.stdout).into_owned(),
            exit_status: output.status.code().unwrap_or(-1),
            json: serde_json::from_slice(&json.stdout).unwrap_or_default(),
        }
    }

    /// Waits until `heorot status` says `verdict` in its first line, and `reason` somewhere below it; then
    /// its exit status and its JSON must say the same.
    #[track_caller]
    pub fn says(&self, verdict: &str, reason: &str) -> Verdict {
        let (asked, expected) =
            (Instant::now(), ["healthy", "degraded", "failed"].iter().position(|v| *v == verdict));
        loop {
            let status = self.status();
            let first = status.text.lines().next().unwrap_or_default();
            let agrees = || status.json["health"]["verdict"] == verdict;
            if first == verdict && status.text.contains(reason) && agrees() {
                assert_eq!(usize::try_from(status.exit_status).ok(), expected, "{}", status.text);
                return status;
            }
            let late = asked.elapsed() > PATIENCE;
            assert!(!late, "{}: not {verdict} with {reason:?}, but\n{}", self.name(), status.text);
            sleep(POLL);
        }
    }

    /// Waits until the first line of `heorot status` is this.
    #[track_caller]
    pub fn says_failed_first(&self, line: &str) {
        let asked = Instant::now();
        while self.status().text.lines().next() != Some(line) {
            assert!(asked.elapsed() < PATIENCE, "{}: not {line:?}, but\n{}", self.name(), self.status().text);
            sleep(POLL);
        }
    }

    /// Waits until `done` of what the command line prints.
    #[track_caller]
    pub fn until(&self, line: &str, done: impl Fn(&str) -> bool) -> String {
        let asked = Instant::now();
        loop {
            let output = self.try_sh(line);
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            if output.status.success() && done(&said) {
                return said;
            }
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(asked.elapsed() < PATIENCE, "{}# {line}\n{said}{error}", self.name());
            sleep(POLL);
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("---- log of {}\n{}", self.name(), self.node.log_ends());
        }
    }
}
