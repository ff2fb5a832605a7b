//! Process of a server, on the machine's own network or in a namespace.

use std::ffi::OsString;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};

use crate::{Error, Namespace, Result, cpu_seconds, interrupt, remains};

const START_TIMEOUT: Duration = Duration::from_secs(60); // ganesha takes seconds on a busy machine
const STOP_TIMEOUT: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(20);
/// Lines of a log in an error message: the first ones have the cause, the last ones the consequences.
const LOG_SHOWN: (usize, usize) = (30, 40);

/// Server process and its log; killed on drop.
pub struct Server {
    name: String,
    command: Vec<OsString>,
    namespace: Option<String>,
    ready: Ready,
    log: PathBuf,
    /// Length of the log at the last start, in bytes.
    log_before: usize,
    process: Option<Child>,
}

/// Sign that a server serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ready {
    /// A word in its output.
    Says(&'static str),
    /// A line in its output, for a process that forwards the output of others.
    SaysLine(&'static str),
    /// Listening on this address.
    Listens(SocketAddr),
}

impl Server {
    /// Server, not started yet. Its output goes to `log`.
    pub fn new(
        name: &str,
        command: Vec<OsString>,
        namespace: Option<&Namespace>,
        ready: Ready,
        log: PathBuf,
    ) -> Server {
        let namespace = namespace.map(|namespace| namespace.name.clone());
        Server { name: name.to_owned(), command, namespace, ready, log, log_before: 0, process: None }
    }

    /// Name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Command line.
    pub fn command(&self) -> &[OsString] {
        &self.command
    }

    /// Path of the log.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Process id, if started.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Child::id)
    }

    /// User and system seconds of the process until now, including those of its ended threads.
    ///
    /// # Errors
    /// When it does not run.
    pub fn cpu_seconds(&self) -> Result<f64> {
        let pid = self.pid().ok_or_else(|| Error::Impossible(format!("{} does not run", self.name)))?;
        cpu_seconds(pid)
    }

    /// Whether the process runs.
    pub fn is_running(&mut self) -> bool {
        self.process.as_mut().is_some_and(|process| matches!(process.try_wait(), Ok(None)))
    }

    /// Starts the process and waits until it serves; no effect if it runs.
    ///
    /// # Errors
    /// When the process does not start.
    pub fn start(&mut self) -> Result<()> {
        self.begin()?;
        self.wait_until_ready()
    }

    /// Starts the process without waiting; no effect if it runs.
    ///
    /// # Errors
    /// When the process does not start.
    pub fn begin(&mut self) -> Result<()> {
        if self.is_running() { Ok(()) } else { self.launch() }
    }

    /// Kills the process (`kill -9`) and waits for its end.
    pub fn kill(&mut self) {
        self.send(Signal::KILL);
        if let Some(mut process) = self.process.take() {
            let _ = process.wait();
        }
    }

    /// Sends SIGTERM: the process must exit with status 0.
    ///
    /// # Errors
    /// When it does not; the process is then killed.
    pub fn stop(&mut self) -> Result<()> {
        let Some(mut process) = self.process.take() else { return Ok(()) };
        let asked = Instant::now();
        let _ = kill_process(Pid::from_child(&process), Signal::TERM);
        loop {
            match process.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => {
                    return Err(Error::Ended { name: self.name.clone(), status, log: self.log_ends() });
                }
                Ok(None) if asked.elapsed() < STOP_TIMEOUT => sleep(POLL),
                _ => {
                    self.process = Some(process);
                    self.kill();
                    return Err(self.error(format!("did not end within {STOP_TIMEOUT:?}")));
                }
            }
        }
    }

    /// Sends a signal to the process and all processes that it started. After SIGSTOP all threads of the
    /// process have stopped on return: on a busy machine they run on until one gets a processor to take it.
    pub fn send(&self, signal: Signal) {
        let Some(process) = &self.process else { return };
        let pid = Pid::from_child(process);
        let sent = kill_process_group(pid, signal).is_ok();
        if sent && signal == Signal::STOP {
            let stopped_or_ended = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            let _ = waitid(WaitId::Pid(pid), stopped_or_ended);
        }
    }

    /// First and last lines of the log.
    pub fn log_ends(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let (first, last) = LOG_SHOWN;
        if lines.len() <= first + last {
            return lines.join("\n");
        }
        let left_out = lines.len() - first - last;
        let (head, tail) = (&lines[..first], &lines[lines.len() - last..]);
        format!("{}\n... {left_out} lines ...\n{}", head.join("\n"), tail.join("\n"))
    }

    fn launch(&mut self) -> Result<()> {
        let log = File::options().create(true).append(true).open(&self.log);
        let log = log.map_err(Error::file("open", &self.log))?;
        self.log_before = log.metadata().map_or(0, |metadata| metadata.len() as usize);
        let log_too = log.try_clone().map_err(Error::file("open", &self.log))?;
        let mut command = in_namespace(self.namespace.as_deref());
        let process = command
            .args(&self.command)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(log_too)
            .spawn()
            .map_err(Error::io(format!("start {}", self.line())))?;
        self.process = Some(process);
        Ok(())
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let started = Instant::now();
        loop {
            // Check this before the log, so that the log has the process's last lines.
            let running = self.is_running();
            if self.is_ready() {
                return Ok(());
            }
            interrupt::check()?;
            if !running {
                return Err(self.error(format!("ended: {}", self.line())));
            }
            if started.elapsed() > START_TIMEOUT {
                return Err(self.error(format!("is not ready after {START_TIMEOUT:?}: {}", self.line())));
            }
            sleep(POLL);
        }
    }

    fn is_ready(&self) -> bool {
        let said = || {
            let log = fs::read(&self.log).unwrap_or_default();
            String::from_utf8_lossy(log.get(self.log_before..).unwrap_or_default()).into_owned()
        };
        match self.ready {
            Ready::Says(ready) => said().split_whitespace().any(|word| word == ready),
            Ready::SaysLine(ready) => said().lines().any(|line| line == ready),
            Ready::Listens(address) => TcpStream::connect(address).is_ok(),
        }
    }

    fn line(&self) -> String {
        let words: Vec<_> = self.command.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }

    fn error(&self, why: String) -> Error {
        Error::Server { name: self.name.clone(), why, log: self.log_ends() }
    }
}

/// Beginning of a command line: the command runs in a namespace, or on the machine's own network, and is
/// killed when the thread that started it ends.
pub(crate) fn in_namespace(namespace: Option<&str>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]);
    if let Some(namespace) = namespace {
        let mut net = OsString::from("--net=");
        net.push(remains::namespace_path(namespace));
        command.arg("nsenter").arg(net).arg("--");
    }
    command
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
