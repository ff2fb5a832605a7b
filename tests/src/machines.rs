//! Machines for an operator's command lines: [`lab::Machine`] whose failures panic.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Output;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::{Lab, binary, must};

/// Time limit of every wait: a start, a fail-over, or a lease expiry on a busy computer.
const PATIENCE: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(100);

/// Machine with its `heorot run`; drop kills the process, and prints its log if the test fails.
pub struct Machine {
    machine: lab::Machine,
    node: lab::Server,
}

/// Output and exit status of `heorot status`.
#[derive(Debug)]
pub struct Verdict {
    /// Whole text.
    pub text: String,
    /// 0 healthy, 1 degraded, 2 failed, 3 unknown.
    pub exit_status: i32,
    /// Output as JSON; null if unknown.
    pub json: serde_json::Value,
}

impl Machine {
    /// Machine with the installed program only.
    #[track_caller]
    pub fn new(lab: &Lab, name: &str) -> Machine {
        let machine = must(lab::Machine::new(lab.inner(), name));
        must(machine.install(&binary()));
        let node = machine.server(&["heorot", "run"], "ready");
        Machine { machine, node }
    }

    /// [`Machine::new`] whose node runs below a service manager, the program `service_manager` of this crate.
    #[track_caller]
    pub fn with_service_manager(lab: &Lab, name: &str, manager: &std::path::Path) -> Machine {
        let mut machine = Machine::new(lab, name);
        let to = machine.file("/root/service_manager");
        std::fs::copy(manager, &to).unwrap_or_else(|e| panic!("{}: {e}", to.display()));
        machine.node = machine.machine.server(&["./service_manager", "heorot", "run"], "ready");
        machine
    }

    /// Has the service manager restart the node, and waits until it is ready.
    #[track_caller]
    pub fn restart_service(&self) {
        let starts = || self.log().lines().filter(|line| *line == "ready").count();
        let (before, began) = (starts(), Instant::now());
        let pid = self.node.pid().unwrap_or_else(|| panic!("{} runs", self.name()));
        self.sh(&format!("kill -HUP {pid}"));
        while starts() == before {
            assert!(began.elapsed() < PATIENCE, "{} is not ready again:\n{}", self.name(), self.log());
            sleep(POLL);
        }
    }

    /// Host name.
    pub fn name(&self) -> &str {
        self.machine.name()
    }

    /// Address.
    pub fn address(&self) -> Ipv4Addr {
        self.machine.namespace().address
    }

    /// Path on this computer of the machine's `path`.
    pub fn file(&self, path: &str) -> PathBuf {
        self.machine.file(path)
    }

    /// Installs `program` as the machine's /usr/local/bin/heorot; the next start runs it.
    #[track_caller]
    pub fn install(&self, program: &std::path::Path) {
        must(self.machine.install(program));
    }

    /// Runs a command line in /root, which may fail.
    #[track_caller]
    pub fn try_sh(&self, line: &str) -> Output {
        must(self.machine.run(line))
    }

    /// Runs a command line, which must succeed; returns its output.
    #[track_caller]
    pub fn sh(&self, line: &str) -> String {
        let output = self.try_sh(line);
        let [said, error] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        assert!(output.status.success(), "{}# {line}\n{said}{error}", self.name());
        said.into_owned()
    }

    /// Runs a command line, which must fail; returns its errors.
    #[track_caller]
    pub fn refused(&self, line: &str) -> String {
        let output = self.try_sh(line);
        assert!(!output.status.success(), "{}# {line} is to be refused", self.name());
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// Starts `heorot run`, and waits until it is ready.
    #[track_caller]
    pub fn start(&mut self) {
        must(self.node.start());
    }

    /// Starts `heorot run`, without waiting.
    #[track_caller]
    pub fn begin(&mut self) {
        must(self.node.begin());
    }

    /// Restarts `heorot run` with the installed program, after SIGTERM.
    #[track_caller]
    pub fn restart(&mut self) {
        self.stop();
        self.start();
    }

    /// Sends SIGTERM and waits for the exit.
    #[track_caller]
    pub fn stop(&mut self) {
        must(self.node.stop());
    }

    /// Kills the process, like a power failure.
    pub fn kill(&mut self) {
        self.node.kill();
    }

    /// Whole log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.node.log()).unwrap_or_default()
    }

    /// Runs `heorot status`, for text and for JSON.
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

    /// Waits until `heorot status` has `verdict` in its first line, and `reason` somewhere below it; exit
    /// status and JSON must agree.
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

    /// Waits for this first line of `heorot status`.
    #[track_caller]
    pub fn says_failed_first(&self, line: &str) {
        let asked = Instant::now();
        while self.status().text.lines().next() != Some(line) {
            assert!(asked.elapsed() < PATIENCE, "{}: not {line:?}, but\n{}", self.name(), self.status().text);
            sleep(POLL);
        }
    }

    /// Waits until `done` holds for the output of the command line.
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
