//! Client machine: a real Linux kernel as a child process, which runs scripts on request.
//!
//! ```text
//!   host                                         linux.uml, or QEMU
//!   folder/7.sh  written, then "run 7"  ── stdin ──▶ con0 ─▶ init.sh ─▶ bash 7.sh
//!   folder/7.out read                   ◀─ stdout ── con0 ◀─ "done 7 STATUS"
//!   console log                         ◀─ stderr ── con1 ◀─ the kernel's messages
//! ```
//!
//! Files have the scripts and their output, each written once and read once, since the client's view of the
//! host's files (hostfs, 9p) is not coherent; the serial line synchronizes. Several scripts can run at once.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::boot::Boot;
use crate::{Error, Result, command, interrupt};

/// Process 1 of client machines.
pub const INIT: &str = include_str!("init.sh");
const BOOT_TIMEOUT: Duration = Duration::from_secs(300); // 1 to 3 s on a quiet machine, 20 s where QEMU translates
const SIGNAL_POLL: Duration = Duration::from_millis(200); // how soon a wait notices Ctrl-C
const LOOK_TIMEOUT: Duration = Duration::from_secs(10);
const CONSOLE_LINES_MAX: usize = 400; // a panic with its trace is 60

/// Prefix of each script, on its first line, so that the script's line numbers stay right.
const PRELUDE: &str =
    r#"trap 'echo "line $LINENO: exit status $?: $BASH_COMMAND" >&2' ERR; set -E; export LC_ALL=C; "#;

/// Booted client machine, killed on drop.
pub struct Client {
    name: String,
    address: Ipv4Addr,
    machine: Arc<Machine>,
    process: Child,
    readers: Vec<JoinHandle<()>>,
}

/// Running script on a client.
pub struct Running {
    machine: Arc<Machine>,
    id: u32,
    started: Instant,
}

/// Output and exit status of a script.
#[derive(Debug, Clone)]
pub struct Output {
    /// Exit status; 128 + N after signal N.
    pub status: i32,
    /// Standard output and standard error, in the order written.
    pub text: String,
    /// Duration, measured on the host.
    pub took: Duration,
}

impl Client {
    pub(crate) fn boot(boot: &Boot<'_>) -> Result<Client> {
        let (exchange, init) = (boot.exchange(), boot.init());
        fs::create_dir_all(&exchange).map_err(Error::file("make", &exchange))?;
        fs::write(&init, INIT).map_err(Error::file("write", &init))?;
        fs::set_permissions(&init, fs::Permissions::from_mode(0o755)).map_err(Error::file("chmod", &init))?;

        let mut process = boot
            .command()?
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(Error::io(format!("start a client machine with kernel {}", boot.kernel)))?;

        let machine = Arc::new(Machine {
            name: boot.name.to_owned(),
            tap: boot.tap.to_owned(),
            exchange,
            line: Mutex::new(process.stdin.take().expect("piped")),
            state: Mutex::new(State::default()),
            changed: Condvar::new(),
        });
        let answers = process.stdout.take().expect("piped");
        let console = process.stderr.take().expect("piped");
        let readers = vec![
            thread::spawn({
                let machine = machine.clone();
                move || machine.read_answers(answers)
            }),
            thread::spawn({
                let machine = machine.clone();
                move || machine.read_console(console)
            }),
        ];
        Ok(Client { name: boot.name.to_owned(), address: boot.address, machine, process, readers })
    }

    /// Waits until the machine accepts scripts, and returns the release of its kernel, such as `6.1.176`.
    ///
    /// # Errors
    /// When the machine does not boot.
    pub fn wait_booted(&self) -> Result<String> {
        let kernel = self.machine.wait_until(BOOT_TIMEOUT, |state| state.kernel.clone());
        kernel.map_err(|why| why.of(&self.name, "did not boot: ", self.console()))
    }

    /// Host name, which is part of the NFSv4 client owner.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Address in the lab's network.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// The only host folder that the machine may write to. Write each file once and read it once: the
    /// client's view is not coherent.
    pub fn exchange(&self) -> &Path {
        &self.machine.exchange
    }

    /// Starts a bash script (`-eu -o pipefail`) as root. Several can run at once. It may write under /mnt and
    /// /tmp, which are in the client's memory.
    ///
    /// # Errors
    /// When the script cannot be written.
    pub fn spawn(&self, script: &str) -> Result<Running> {
        let id = {
            let mut state = self.machine.state();
            state.last_id += 1;
            state.last_id
        };
        let path = self.machine.file(id, "sh");
        fs::write(&path, format!("{PRELUDE}{script}\n")).map_err(Error::file("write", &path))?;
        self.machine.send(&format!("run {id}"));
        Ok(Running { machine: self.machine.clone(), id, started: Instant::now() })
    }

    /// Runs a script and returns its output.
    ///
    /// # Errors
    /// When the script fails or exceeds the timeout.
    pub fn run(&self, timeout: Duration, script: &str) -> Result<String> {
        let output = self.spawn(script)?.wait(timeout)?;
        if output.status == 0 {
            return Ok(output.text);
        }
        let why = format!("a script failed: {output}--- script\n{script}");
        Err(Error::Client { name: self.name.clone(), why, known: String::new() })
    }

    /// Last lines of the kernel's log.
    pub fn console(&self) -> String {
        self.machine.console()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // User Mode Linux runs each of its processes as a process of the host, all in this process group.
        if let Some(group) = rustix::process::Pid::from_raw(self.process.id().cast_signed()) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.process.wait();
        for reader in self.readers.drain(..) {
            let _ = reader.join();
        }
    }
}

impl Running {
    /// Waits for the end of the script.
    ///
    /// # Errors
    /// When the script exceeds `timeout`, or the client's kernel dies; with the kernel's log and the script's
    /// state.
    pub fn wait(self, timeout: Duration) -> Result<Output> {
        let id = self.id;
        match self.machine.wait_until(timeout, |state| state.done.remove(&id)) {
            Ok(status) => {
                let bytes = fs::read(self.machine.file(id, "out")).unwrap_or_default();
                let text = String::from_utf8_lossy(&bytes).into_owned();
                Ok(Output { status, text, took: self.started.elapsed() })
            }
            Err(why) => {
                let script = fs::read_to_string(self.machine.file(id, "sh")).unwrap_or_default();
                Err(why.of(&self.machine.name, "", format!("{}--- script\n{script}\n", self.look())))
            }
        }
    }

    /// Whether the script has ended: [`wait`](Running::wait) then returns at once.
    pub fn is_done(&self) -> bool {
        self.machine.state().done.contains_key(&self.id)
    }

    /// Kills the script and its processes; [`wait`](Running::wait) still returns its status.
    pub fn kill(&self) {
        self.machine.send(&format!("kill {}", self.id));
    }

    fn look(&self) -> String {
        let id = self.id;
        self.machine.send(&format!("look {id}"));
        let seen = self.machine.wait_until(LOOK_TIMEOUT, |state| state.seen.take_if(|seen| *seen == id));
        let inside = match seen {
            Ok(_) => fs::read_to_string(self.machine.file(id, "look")).unwrap_or_default(),
            Err(_) => self.machine.console(),
        };
        format!("{inside}--- its link, seen from the host\n{}", command::show_link(&self.machine.tap))
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exit status {} after {:.1?}\n--- output\n{}", self.status, self.took, self.text)
    }
}

/// State shared by the threads that read the kernel's lines and those that wait for answers.
struct Machine {
    name: String,
    /// The host's end of its network.
    tap: String,
    exchange: PathBuf,
    line: Mutex<ChildStdin>,
    state: Mutex<State>,
    changed: Condvar,
}

/// Reason for no answer of a machine.
enum NoAnswer {
    Died,
    Late(Duration),
    Interrupted,
}

impl NoAnswer {
    fn of(self, client: &str, what: &str, known: String) -> Error {
        let why = match self {
            NoAnswer::Interrupted => return Error::Interrupted,
            NoAnswer::Died => format!("{what}its kernel died"),
            NoAnswer::Late(timeout) => format!("{what}no answer within {timeout:?}"),
        };
        Error::Client { name: client.to_owned(), why, known }
    }
}

#[derive(Default)]
struct State {
    kernel: Option<String>,
    last_id: u32,
    done: HashMap<u32, i32>,
    seen: Option<u32>,
    console: VecDeque<String>,
    lines_closed: u8,
}

impl Machine {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn file(&self, id: u32, extension: &str) -> PathBuf {
        self.exchange.join(format!("{id}.{extension}"))
    }

    /// Ignores errors: the wait for the answer detects a dead machine.
    fn send(&self, request: &str) {
        let mut line = self.line.lock();
        let _ = writeln!(line, "{request}");
    }

    fn wait_until<T>(
        &self,
        timeout: Duration,
        mut ready: impl FnMut(&mut State) -> Option<T>,
    ) -> std::result::Result<T, NoAnswer> {
        let deadline = Instant::now() + timeout;
        let mut state = self.state();
        loop {
            if let Some(value) = ready(&mut state) {
                return Ok(value);
            }
            if state.lines_closed == 2 {
                return Err(NoAnswer::Died);
            }
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                return Err(NoAnswer::Late(timeout));
            };
            if interrupt::check().is_err() {
                return Err(NoAnswer::Interrupted);
            }
            self.changed.wait_for(&mut state, left.min(SIGNAL_POLL));
        }
    }

    fn read_answers(&self, lines: impl Read) {
        for line in BufReader::new(lines).split(b'\n').map_while(std::io::Result::ok) {
            let line = String::from_utf8_lossy(&line);
            let mut words = line.split_whitespace();
            let mut state = self.state();
            let number = |word: Option<&str>| word.and_then(|word| word.parse::<u32>().ok());
            match words.next() {
                Some("ready") => state.kernel = words.next().map(str::to_owned),
                Some("done") => {
                    if let (Some(id), Some(status)) = (number(words.next()), number(words.next())) {
                        state.done.insert(id, status.cast_signed());
                    }
                }
                Some("seen") => state.seen = number(words.next()),
                _ => state.log(&line),
            }
            self.changed.notify_all();
        }
        self.line_closed();
    }

    fn read_console(&self, lines: impl Read) {
        for line in BufReader::new(lines).split(b'\n').map_while(std::io::Result::ok) {
            self.state().log(&String::from_utf8_lossy(&line));
        }
        self.line_closed();
    }

    fn line_closed(&self) {
        self.state().lines_closed += 1;
        self.changed.notify_all();
    }

    fn console(&self) -> String {
        let state = self.state();
        let lines: Vec<&str> = state.console.iter().map(String::as_str).collect();
        format!("--- console of {}\n{}\n", self.name, lines.join("\n"))
    }
}

impl State {
    fn log(&mut self, line: &str) {
        if self.console.len() == CONSOLE_LINES_MAX {
            self.console.pop_front();
        }
        self.console.push_back(line.trim_end().to_owned());
    }
}
