//! Metaservers and data servers, each a process with its own address.

#[path = "../process/places.rs"]
pub mod places;

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use serde_json::Value;
use tempfile::TempDir;

pub const PORT: u16 = 2049;
pub const ADMIN_PORT: u16 = 20490;
const CONSENSUS_PORT: u16 = 2052;
/// Time limit of every wait.
pub const LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

/// Mounted client for reads and writes.
pub type Client = Arc<dyn nfs_rs::Mount>;

/// Loopback address that no other test uses, so that all tests can use the same ports.
pub fn own_ip() -> Ipv4Addr {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, high | 1, low, NEXT.fetch_add(1, Ordering::Relaxed) as u8)
}

/// The program; HEOROT_OLD_BIN: another version of it.
fn program() -> OsString {
    std::env::var_os("HEOROT_OLD_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_heorot").into())
}

/// Process, killed at the end of its test if it still runs.
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `heorot ARGS`, with its log in a file.
    pub fn start(args: &[&str], log: &Path) -> Self {
        Self::start_with(args, log, &[])
    }

    /// Starts `heorot ARGS` with environment variables.
    pub fn start_with(args: &[&str], log: &Path, environment: &[(&str, &str)]) -> Self {
        places::note(args);
        let out = std::fs::File::options().create(true).append(true).open(log).unwrap();
        let mut command = Command::new(program());
        command.args(args).env("HEOROT_LOG", "info").envs(environment.iter().copied()).stdin(Stdio::null());
        let child = command.stdout(out.try_clone().unwrap()).stderr(out).spawn().unwrap();
        Self { child, log: log.to_owned() }
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn wait_for_log(&mut self, text: &str) {
        until(&format!("{text:?} in the log"), || {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "it ended: {ended:?}\n{}", self.log());
            self.log().contains(text)
        });
    }

    /// Waits for the exit.
    pub fn ends(&mut self) -> ExitStatus {
        let mut ended = None;
        until("it ends", || {
            ended = self.child.try_wait().unwrap();
            ended.is_some()
        });
        ended.unwrap()
    }

    /// Sends a signal. After SIGSTOP all threads have stopped on return: on a busy machine they run on until
    /// the one that takes the signal gets a processor.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).unwrap();
        if signal == Signal::STOP {
            let stopped = waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED).unwrap();
            assert!(stopped.is_some_and(|status| status.stopped()), "{stopped:?}");
        }
    }

    /// Sends SIGTERM and waits for the exit.
    pub fn stop(mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.ends()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- {}\n{}", self.log.display(), self.log());
        }
    }
}

pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let asked = Instant::now();
    while !done() {
        assert!(asked.elapsed() < LIMIT, "not in time: {what}");
        sleep(POLL);
    }
}

/// Runs `heorot ARGS`: returns its output, or its error line.
pub fn run(args: &[&str]) -> Result<String, String> {
    let Output { status, stdout, stderr } =
        Command::new(program()).args(args).env("HEOROT_LOG", "off").output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().trim_end().to_owned();
    // The exit status of `heorot status` is the verdict of the cluster.
    let is_answer = status.success() || args.first() == Some(&"status") && !stdout.is_empty();
    if is_answer { Ok(text(stdout)) } else { Err(text(stderr)) }
}

/// Runs `heorot ARGS` with the admin interface of the server at `ip`.
pub fn ask(ip: Ipv4Addr, args: &[&str]) -> Result<String, String> {
    run(&[args, &["--admin", &places::of(ip)]].concat())
}

/// Value of a metric of the server at `ip`, as the sum of its lines; 0 without a line.
pub fn metric(ip: Ipv4Addr, name: &str) -> f64 {
    let mut stream = TcpStream::connect((ip, ADMIN_PORT)).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {ip}\r\nConnection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    let values = page.lines().filter_map(|line| line.strip_prefix(name)).filter_map(|line| {
        (line.starts_with(['{', ' '])).then(|| line.rsplit(' ').next()?.parse::<f64>().ok())?
    });
    values.sum()
}

/// Mounts the root with v4.2.
pub async fn mount(ip: Ipv4Addr) -> Client {
    let url = format!("nfs://{ip}:{PORT}/?version=4.2&noresvport=true");
    Arc::from(nfs_rs::parse_url_and_mount(&url).await.unwrap_or_else(|e| panic!("mount {url}: {e}")))
}

/// Group of metaservers, and data servers that are configured with the first one only.
pub struct Cluster {
    pub metaservers: Vec<(Ipv4Addr, Option<Process>)>,
    pub data_servers: Vec<Option<Process>>,
    pub data_server_ips: Vec<Ipv4Addr>,
    /// Last: the servers print their logs when they are dropped by a test that fails.
    pub dir: TempDir,
}

impl Cluster {
    pub fn start(metaservers: usize, data_servers: usize) -> Self {
        let mut cluster = Self {
            dir: tempfile::tempdir().unwrap(),
            metaservers: vec![],
            data_servers: vec![],
            data_server_ips: vec![],
        };
        (0..metaservers).for_each(|_| cluster.add_metaserver());
        for n in 0..data_servers {
            cluster.add_data_server(n);
        }
        until("all data servers are known everywhere", || {
            (0..metaservers)
                .all(|n| (0..data_servers).all(|ds| cluster.node(n, &format!("ds{ds}"))["seen_ms"].is_u64()))
        });
        cluster
    }

    /// Starts one more metaserver: the first founds the group, the others join it.
    pub fn add_metaserver(&mut self) {
        let (n, ip, secret) = (self.metaservers.len(), own_ip(), self.file("secret"));
        self.metaservers.push((ip, None));
        let join = match n {
            0 => String::new(),
            _ => format!("join = \"{}:{CONSENSUS_PORT}\"\n", self.metaservers[0].0),
        };
        let text = format!(
            "listen = \"{ip}:{PORT}\"\nadmin = \"{ip}:{ADMIN_PORT}\"\nname = \"mds{n}\"\n\
             consensus = \"{ip}:{CONSENSUS_PORT}\"\n{join}secret_file = {secret:?}\ndata_dir = {:?}\n",
            self.file(&format!("mds{n}")),
        );
        std::fs::write(self.file(&format!("mds{n}.toml")), text).unwrap();
        self.start_metaserver(n);
    }

    /// Starts data server `n`, the next one, with its target in `target<n>`.
    pub fn add_data_server(&mut self, n: usize) {
        self.add_data_server_with(n, "");
    }

    /// The same, with more lines of its configuration.
    pub fn add_data_server_with(&mut self, n: usize, lines: &str) {
        let (first, ip, secret) = (self.metaservers[0].0, own_ip(), self.file("secret"));
        let text = format!(
            "name = \"ds{n}\"\nlisten = \"{ip}:{PORT}\"\nadmin = \"{ip}:{ADMIN_PORT}\"\nmetaserver = \"{first}:{PORT}\"\n\
             secret_file = {secret:?}\ndata_dir = {:?}\ntargets = [{:?}]\n{lines}",
            self.file(&format!("ds{n}")),
            self.file(&format!("target{n}")),
        );
        std::fs::write(self.file(&format!("ds{n}.toml")), text).unwrap();
        self.data_server_ips.push(ip);
        self.data_servers.push(None);
        self.start_data_server(n);
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn process(&self, role: &str, name: &str) -> Process {
        let config = self.file(&format!("{name}.toml"));
        Process::start(&[role, "--config", config.to_str().unwrap()], &self.file(&format!("{name}.log")))
    }

    pub fn start_metaserver(&mut self, n: usize) {
        let _ = std::fs::remove_file(self.file(&format!("mds{n}.log")));
        let mut process = self.process("mds", &format!("mds{n}"));
        process.wait_for_log("ready");
        self.metaservers[n].1 = Some(process);
    }

    pub fn start_data_server(&mut self, n: usize) {
        let mut process = self.process("ds", &format!("ds{n}"));
        process.wait_for_log("registered");
        self.data_servers[n] = Some(process);
    }

    /// Sends SIGTERM to a metaserver and waits for its exit.
    pub fn stop_metaserver(&mut self, n: usize) {
        let status = self.metaservers[n].1.take().unwrap().stop();
        assert_eq!(status.code(), Some(0));
    }

    /// Status by the first metaserver that answers; null: none does.
    pub fn status(&self) -> Value {
        let live = self.metaservers.iter().filter(|(_, process)| process.is_some());
        let mut texts = live.filter_map(|(ip, _)| ask(*ip, &["status", "--json"]).ok());
        texts.next().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
    }

    /// True if all chains have all members, by one status: chains go from one state to the next.
    pub fn is_whole(&self) -> bool {
        let chains = &self.status()["chains"];
        ["refilling", "moving", "incomplete", "waiting"].iter().all(|state| chains[*state] == 0)
    }

    /// Number of memberships in chains that the targets of the named data server have.
    pub fn chains_of(&self, name: &str) -> u64 {
        let list = self.ask(0, &["target", "list", "--json"]).unwrap_or_default();
        let list: Value = serde_json::from_str(&list).expect("a list of targets");
        let its = list.as_array().unwrap().iter().filter(|target| target["server"] == name);
        its.map(|target| target["chains"].as_u64().expect("a number")).sum()
    }

    pub fn ask(&self, n: usize, args: &[&str]) -> Result<String, String> {
        ask(self.metaservers[n].0, args)
    }

    /// Entry of the named server in the list of metaserver `n`; null without one.
    pub fn node(&self, n: usize, name: &str) -> Value {
        let list = self.ask(n, &["node", "list", "--json"]).unwrap_or_default();
        let list: Value = serde_json::from_str(&list).unwrap_or_default();
        let found = list.as_array().and_then(|all| all.iter().find(|node| node["name"] == name).cloned());
        found.unwrap_or_default()
    }
}
