//! Supervisor: runs servers as child processes, restarts killed ones, and ends them with itself.
//!
//! ```text
//! parent ── stdin, a Unix socket ──────────────────▶ child: stops when it closes
//!           with the listening socket of a data server (`held_socket.rs`)
//!        ◀── stdout: "ready" ──────────────────────
//!        ── SIGTERM, SIGHUP ───────────────────────▶
//! ```
//!
//! Children have process groups of their own: Ctrl-C reaches only the parent, which then stops them in order.

use std::io::Write;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::node::held_socket::{self, HeldSocket};
use crate::process::fd_store::{self, Kept};
use command_line::signals::Hangups;
use command_line::{Failure, TAKEN_OUT};

/// Line on a child's standard output when it serves.
const READY: &str = "ready";
/// Delay before a restart; doubled after each short run.
const AGAIN_AFTER: Duration = Duration::from_millis(100);
const AGAIN_AFTER_MAX: Duration = Duration::from_secs(30);
/// Run time after which the exit of a server is not due to its configuration.
const LIVED: Duration = Duration::from_secs(60);
/// Time that the socket of a server which is not ready is held: longer than a start takes, with a disk's
/// recovery. A client waits meanwhile, and then goes through a metaserver.
const HELD_TIME_MAX: Duration = Duration::from_secs(60);
/// Time limit of a stop; after it the server hangs.
const STOP_TIME_MAX: Duration = Duration::from_secs(15);

/// Reports from a child that it serves.
pub(crate) fn say_ready() {
    // If the parent is gone, the child notices the end of its standard input.
    let _ = writeln!(std::io::stdout(), "{READY}");
}

/// Server to run.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    /// Prefix of each line in the server's log.
    pub name: String,
    /// Command that runs the server: "mds" or "ds".
    pub role: &'static str,
    pub config: PathBuf,
    /// Address whose listening socket the supervisor holds for the server.
    pub held: Option<SocketAddr>,
}

/// Server and its process.
struct Server {
    part: Part,
    pid: Option<Pid>,
    began: Instant,
    /// Whether the server has been ready at least once.
    proven: bool,
    pause: Duration,
    again_at: Option<Instant>,
    socket: Option<HeldSocket>,
    /// Time at which the socket is closed, unless the server is ready before.
    closes_at: Option<Instant>,
    /// See [`TAKEN_OUT`].
    taken_out: bool,
}

enum Event {
    Ready(usize, Pid),
    Ended(usize, Pid, std::io::Result<ExitStatus>),
}

/// Supervisor of all servers of one parent.
pub(crate) struct Supervisor {
    servers: Vec<Server>,
    /// Listening sockets of an earlier process of this service.
    kept: Vec<Kept>,
    tell: mpsc::UnboundedSender<Event>,
    events: mpsc::UnboundedReceiver<Event>,
}

impl Default for Supervisor {
    fn default() -> Self {
        let (tell, events) = mpsc::unbounded_channel();
        Self { servers: vec![], kept: fd_store::take(), tell, events }
    }
}

impl Supervisor {
    /// Starts one more server. They stop in the order of their starts.
    pub(crate) fn start(&mut self, part: Part) -> Result<(), Failure> {
        let index = self.servers.len();
        self.servers.push(Server {
            part,
            pid: None,
            began: Instant::now(),
            proven: false,
            pause: AGAIN_AFTER,
            again_at: None,
            socket: None,
            closes_at: None,
            taken_out: false,
        });
        self.spawn(index).map(drop)
    }

    /// Process id of each running server.
    pub(crate) fn pids(&self) -> Vec<(String, Option<i32>)> {
        self.servers
            .iter()
            .map(|s| (s.part.name.clone(), s.pid.map(|pid| pid.as_raw_nonzero().get())))
            .collect()
    }

    /// Whether the named server runs.
    pub(crate) fn runs(&self, name: &str) -> bool {
        self.servers.iter().any(|server| server.part.name == name && server.pid.is_some())
    }

    /// Starts the process of a server.
    fn spawn(&mut self, index: usize) -> Result<Pid, Failure> {
        let server = &mut self.servers[index];
        server.open_socket(&mut self.kept);
        let part = &server.part;
        let failed = |e: std::io::Error| Failure::new(format!("{}: cannot be started: {e}", part.name));
        let program = program().map_err(failed)?;
        let (stdin, of_child) = UnixStream::pair().map_err(failed)?;
        let mut child = Command::new(program)
            .arg0("heorot")
            .args([part.role, "--part", &part.name, "--config"])
            .arg(&part.config)
            .stdin(OwnedFd::from(of_child))
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let pid = pid.ok_or_else(|| failed(std::io::ErrorKind::NotFound.into()))?;
        // One that has ended already says so by its end.
        let _ = held_socket::send(server.socket.as_ref(), &stdin);
        (server.pid, server.began) = (Some(pid), Instant::now());
        let tell = self.tell.clone();
        tokio::spawn(async move {
            follow(index, pid, &mut child, &tell).await;
            drop(stdin); // held open until the child has ended, or this process has
        });
        Ok(pid)
    }

    /// Waits until all servers serve. Closes sockets of servers that are not here any more.
    ///
    /// # Errors
    /// When a server exits before it served; its log has the reason.
    pub(crate) async fn all_ready(&mut self) -> Result<(), Failure> {
        self.kept.drain(..).for_each(|kept| fd_store::forget(&kept.name));
        while !self.servers.iter().all(|server| server.proven) {
            self.step().await?;
        }
        Ok(())
    }

    /// Restarts killed servers until all were stopped.
    pub(crate) async fn watch(&mut self, mut hangups: Option<Hangups>) -> Result<(), Failure> {
        while self.servers.iter().any(|server| server.pid.is_some() || server.again_at.is_some()) {
            let hangup = async {
                match &mut hangups {
                    Some(hangups) => hangups.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                outcome = self.step() => outcome?,
                () = hangup => self.servers.iter().for_each(|server| server.send(Signal::HUP)),
            }
        }
        Err(match self.servers.iter().all(|server| server.taken_out) {
            true => Failure::taken_out("there is no server here that the cluster wants"),
            false => Failure::new("all servers were stopped"),
        })
    }

    /// Waits for the next event. Cancel-safe.
    async fn step(&mut self) -> Result<(), Failure> {
        let again =
            self.servers.iter().flat_map(|server| [server.again_at, server.closes_at]).flatten().min();
        let wait = async {
            match again {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(event) = self.events.recv() => self.note(event),
            () = wait => {
                self.start_again();
                Ok(())
            }
        }
    }

    fn start_again(&mut self) {
        for index in 0..self.servers.len() {
            let now = Instant::now();
            let server = &mut self.servers[index];
            if server.closes_at.is_some_and(|at| at <= now) && server.pid.is_some() {
                server.closes_at = Some(now + HELD_TIME_MAX); // it is starting, and has the socket itself
            } else if server.closes_at.is_some_and(|at| at <= now) {
                tracing::warn!(server = %server.part.name, "server does not come back, its address refuses connections from now on");
                server.close_socket();
            }
            if server.again_at.is_some_and(|at| at <= now) {
                server.again_at = None;
                match self.spawn(index) {
                    Ok(pid) => {
                        let name = &self.servers[index].part.name;
                        tracing::info!(server = %name, pid = pid.as_raw_nonzero(), "server restarted");
                    }
                    // For lack of processes, memory or descriptors, perhaps. The other servers go on.
                    Err(error) => {
                        let server = &mut self.servers[index];
                        tracing::error!(
                            server = %server.part.name, %error,
                            "server not restarted, trying again in {:?}", server.pause
                        );
                        server.again_at = Some(Instant::now() + server.pause);
                        server.pause = (2 * server.pause).min(AGAIN_AFTER_MAX);
                    }
                }
            }
        }
    }

    fn note(&mut self, event: Event) -> Result<(), Failure> {
        let (index, pid, ended) = match event {
            Event::Ready(index, pid) => (index, pid, None),
            Event::Ended(index, pid, status) => (index, pid, Some(status)),
        };
        let server = &mut self.servers[index];
        if server.pid != Some(pid) {
            return Ok(());
        }
        let Some(status) = ended else {
            (server.proven, server.closes_at) = (true, None);
            return Ok(());
        };
        server.pid = None;
        let name = &server.part.name;
        let status =
            status.map_err(|e| Failure::new(format!("{name}: its process cannot be waited for: {e}")))?;
        let pid = pid.as_raw_nonzero();
        if status.success() {
            // An operator stopped it.
            let (role, config) = (server.part.role, server.part.config.display());
            tracing::warn!(server = %name, "stopped; start it again with: heorot {role} --config {config}");
            server.proven = true;
            server.close_socket();
            return Ok(());
        }
        if status.code() == Some(TAKEN_OUT.into()) {
            tracing::warn!(server = %name, "exited permanently, not restarting; its own log says why");
            server.close_socket();
            (server.proven, server.taken_out) = (true, true);
            return Ok(());
        }
        if !server.proven && status.code().is_some() {
            return Err(Failure::new(format!("{name} could not be started: its own line, above, says why")));
        }
        server.pause = if server.began.elapsed() > LIVED { AGAIN_AFTER } else { server.pause };
        tracing::warn!(server = %name, pid, %status, "server ended, restarting in {:?}", server.pause);
        server.again_at = Some(Instant::now() + server.pause);
        if server.socket.is_some() {
            server.closes_at.get_or_insert(Instant::now() + HELD_TIME_MAX);
        }
        server.pause = (2 * server.pause).min(AGAIN_AFTER_MAX);
        Ok(())
    }

    /// Stops all servers, metaservers first: a metaserver must not find its data servers dead while clients
    /// still send requests. Servers of one role stop at the same time.
    pub(crate) async fn stop(mut self) {
        self.servers.iter_mut().for_each(|server| server.again_at = None);
        for role in ["mds", "ds"] {
            let ours = |server: &&Server| server.part.role == role;
            self.servers.iter().filter(ours).for_each(|server| server.send(Signal::TERM));
            let ended = async {
                while self.servers.iter().any(|server| server.part.role == role && server.pid.is_some()) {
                    match self.events.recv().await {
                        Some(Event::Ended(index, ..)) => self.servers[index].pid = None,
                        Some(Event::Ready(..)) => {}
                        None => return,
                    }
                }
            };
            if tokio::time::timeout(STOP_TIME_MAX, ended).await.is_err() {
                for server in self.servers.iter().filter(ours).filter(|server| server.pid.is_some()) {
                    tracing::warn!(server = %server.part.name, "server does not stop, killing it; nothing acknowledged is lost");
                    server.send(Signal::KILL);
                }
            }
        }
    }
}

impl Server {
    /// Listens at the server's address, for as long as it can be expected to serve soon. If that fails, the
    /// server tries it itself, and says why it cannot.
    fn open_socket(&mut self, kept: &mut Vec<Kept>) {
        if self.socket.is_none()
            && let Some(address) = self.part.held
        {
            self.socket = HeldSocket::open(&self.part.name, address, kept).ok();
            self.closes_at = self.socket.is_some().then(|| Instant::now() + HELD_TIME_MAX);
        }
    }

    fn close_socket(&mut self) {
        self.closes_at = None;
        if let Some(socket) = self.socket.take() {
            socket.close();
        }
    }

    fn send(&self, signal: Signal) {
        // The process may have ended already.
        let _ = self.pid.map(|pid| kill_process(pid, signal));
    }
}

/// The program of this process, also after its file was replaced or removed: then it is run by its open file,
/// and a restarted server has the version of its supervisor.
fn program() -> std::io::Result<PathBuf> {
    let path = std::env::current_exe()?;
    // Linux appends this to the name of a file that is gone (proc_pid_exe(5)).
    let is_gone = path.as_os_str().as_encoded_bytes().ends_with(b" (deleted)");
    Ok(if is_gone { PathBuf::from("/proc/self/exe") } else { path })
}

/// Reports the events of a child until it ends.
async fn follow(index: usize, pid: Pid, child: &mut Child, tell: &mpsc::UnboundedSender<Event>) {
    if let Some(stdout) = child.stdout.take() {
        let mut lines = BufReader::new(stdout).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if line == READY {
                let _ = tell.send(Event::Ready(index, pid));
            }
        }
    }
    let _ = tell.send(Event::Ended(index, pid, child.wait().await));
}
