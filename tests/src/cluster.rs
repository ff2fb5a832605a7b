//! Heorot's servers, as processes of this machine that listen on the lab's network.
//!
//! All that the tests know of the command line, the configuration files and the metrics' labels is here, between marks.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::{Client, FileBytes, Lab, Metrics, Traffic};

/// Where [`Cluster::mount`] mounts.
pub const MOUNT_POINT: &str = "/mnt/h";

const START_TIMEOUT: Duration = Duration::from_secs(30);
const STOP_TIMEOUT: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(20);
/// The beginning tells what went wrong first, the end what followed.
const LOG_SHOWN: (usize, usize) = (30, 40);

/// A metaserver and data servers. Dropping it kills them; if the test is failing, it prints their logs.
pub struct Cluster {
    listen: SocketAddr,
    data_servers: usize,
    folder: PathBuf,
    /// The metaserver first; one process alone if all servers are in it.
    servers: Vec<Server>,
}

/// One `heorot` process.
pub struct Server {
    name: String,
    arguments: Vec<String>,
    admin: SocketAddr,
    log: PathBuf,
    /// Bytes that were in the log when it was started last.
    log_before: usize,
    process: Option<Child>,
}

// ---- What the tests know of the binary ------------------------------------------------------------------------------

const NFS_PORT: u16 = 2049;
const DS_PORT: u16 = 2050; // data server 0; the next ones count on
const MDS_ADMIN_PORT: u16 = 20490;
const DS_ADMIN_PORT: u16 = 20491;
const READY: &str = "ready"; // the word that each process says when it is

const ROLE_METASERVER: (&str, &str) = ("role", "metaserver");
const ROLE_DATA_SERVER: (&str, &str) = ("role", "dataserver");
const CALLER_CLIENT: (&str, &str) = ("caller", "client"); // not a metaserver that reads and writes for a client
const DATA_SERVER_LABEL: &str = "server";
const TARGETS_UP: &str = "heorot_target_up";
const OPERATION_ERRORS: &str = "heorot_operation_errors_total";
const WORK_QUEUE: &str = "heorot_work_queue";
const EXPORTS_IN_FORCE: &str = "layouts to write were asked back";

fn data_server_name(number: usize) -> String {
    format!("ds{number}")
}

/// Clients are root, and come from an address that is not this machine's: without the last flag, root is squashed.
fn up_arguments(data: &Path, data_servers: usize, listen: SocketAddr, admin: SocketAddr) -> Vec<String> {
    let text = format!(
        "up --data {} --data-servers {data_servers} --listen {listen} --admin {admin} --no-root-squash",
        data.display()
    );
    text.split(' ').map(str::to_owned).collect()
}

fn mds_configuration(folder: &Path, listen: SocketAddr, admin: SocketAddr) -> String {
    format!(
        "listen = \"{listen}\"\nadmin = \"{admin}\"\ndata_dir = {:?}\nsecret_file = {:?}\n\
         [[export]]\nclients = \"*\"\nsquash = \"none\"\n",
        folder.join("mds"),
        folder.join("secret"),
    )
}

fn ds_configuration(
    folder: &Path,
    name: &str,
    listen: SocketAddr,
    admin: SocketAddr,
    mds: SocketAddr,
) -> String {
    format!(
        "name = \"{name}\"\nlisten = \"{listen}\"\nadmin = \"{admin}\"\nmetaserver = \"{mds}\"\nsecret_file = {:?}\n\
         data_dir = {:?}\ntargets = [{:?}]\n",
        folder.join("secret"),
        folder.join(name).join("identity"),
        folder.join(name).join("target"),
    )
}

// ---------------------------------------------------------------------------------------------------------------------

impl Cluster {
    /// `heorot up`: everything in one process.
    #[track_caller]
    pub fn up(lab: &Lab, data_servers: usize) -> Cluster {
        let folder = make_folder(lab.folder().join("data"));
        let listen = (lab.address(), NFS_PORT).into();
        let admin = (lab.address(), MDS_ADMIN_PORT).into();
        let arguments = up_arguments(&folder, data_servers, listen, admin);
        let server = Server::new("up", arguments, admin, lab.folder());
        Cluster::started(listen, data_servers, folder, vec![server])
    }

    /// `heorot mds` and `heorot ds`, a process for each server.
    #[track_caller]
    pub fn separate(lab: &Lab, data_servers: usize) -> Cluster {
        let address = lab.address();
        let folder = make_folder(lab.folder().join("data"));
        make_folder(folder.join("mds"));
        let listen = (address, NFS_PORT).into();
        let admin = (address, MDS_ADMIN_PORT).into();
        let configuration = mds_configuration(&folder, listen, admin);
        let mut servers = vec![Server::configured("mds", "mds", admin, &configuration, lab.folder())];
        for (number, port) in (0..data_servers).zip(DS_PORT..) {
            let name = data_server_name(number);
            make_folder(folder.join(&name).join("identity"));
            make_folder(folder.join(&name).join("target"));
            let ds_admin = (address, DS_ADMIN_PORT + port - DS_PORT).into();
            let configuration = ds_configuration(&folder, &name, (address, port).into(), ds_admin, listen);
            servers.push(Server::configured(&name, "ds", ds_admin, &configuration, lab.folder()));
        }
        Cluster::started(listen, data_servers, folder, servers)
    }

    #[track_caller]
    fn started(listen: SocketAddr, data_servers: usize, folder: PathBuf, servers: Vec<Server>) -> Cluster {
        let mut cluster = Cluster { listen, data_servers, folder, servers };
        cluster.start_all();
        cluster
    }

    /// Mounts the root on the client's [`MOUNT_POINT`], with `vers=4.2`, `vers=4.1` or `vers=3` and what goes with it.
    #[track_caller]
    pub fn mount(&self, client: &Client, version: &str) {
        self.mount_at(client, version, MOUNT_POINT);
    }

    /// [`mount`](Cluster::mount) on another folder under the client's /mnt.
    #[track_caller]
    pub fn mount_at(&self, client: &Client, version: &str, mount_point: &str) {
        let (host, port) = (self.listen.ip(), self.listen.port());
        let options = match version {
            "vers=3" => format!("{version},nolock,proto=tcp,mountproto=tcp,port={port},mountport={port}"),
            _ => format!("{version},port={port}"),
        };
        let source = format!("{host}:/");
        client.run(&format!("mkdir -p {mount_point}; mount -t nfs -o {options} {source} {mount_point}"));
    }

    /// Writes other exports into the metaserver's configuration, sends SIGHUP, and waits until they are in force, at the
    /// data servers, too.
    #[track_caller]
    pub fn set_exports(&mut self, exports: &str) {
        let (listen, admin) = (self.listen, self.servers[0].admin);
        let configuration = mds_configuration(&self.folder, listen, admin);
        let rest = configuration.split("[[export]]").next().unwrap_or_default();
        let mds = &mut self.servers[0];
        let file = mds.arguments.last().expect("the configuration file");
        fs::write(file, format!("{rest}{exports}\n")).unwrap_or_else(|e| panic!("write {file}: {e}"));
        let said =
            |mds: &Server| fs::read_to_string(&mds.log).unwrap_or_default().matches(EXPORTS_IN_FORCE).count();
        let (before, asked) = (said(mds), Instant::now());
        mds.send(Signal::HUP);
        while said(mds) == before {
            assert!(asked.elapsed() < START_TIMEOUT * 2, "exports not in force\n{}", mds.log_ends());
            sleep(POLL);
        }
    }

    /// The process that the metaserver is in.
    pub fn mds(&mut self) -> &mut Server {
        &mut self.servers[0]
    }

    /// The process that data server `number` is in.
    pub fn ds(&mut self, number: usize) -> &mut Server {
        let index = if self.servers.len() == 1 { 0 } else { 1 + number };
        &mut self.servers[index]
    }

    /// Starts those that are not running, and waits until all data servers have registered with the metaserver.
    #[track_caller]
    pub fn start_all(&mut self) {
        // The metaserver makes the secret that the data servers need.
        for server in &mut self.servers {
            server.start();
        }
        let asked = Instant::now();
        while Metrics::read(self.servers[0].admin).sum(TARGETS_UP, &[]) < self.data_servers as f64 {
            let waited = asked.elapsed();
            assert!(waited < START_TIMEOUT, "not all data servers registered\n{}", self.status_json());
            sleep(POLL);
        }
    }

    /// `kill -9` of every process, as a power failure of the whole cluster would.
    pub fn kill_all(&mut self) {
        for server in &mut self.servers {
            server.send(Signal::KILL);
        }
        for server in &mut self.servers {
            server.kill();
        }
    }

    /// SIGTERM to every process; each must end by itself, with status 0.
    #[track_caller]
    pub fn stop_all(&mut self) {
        for server in &mut self.servers {
            server.stop();
        }
    }

    /// What the metaserver counted.
    #[track_caller]
    pub fn metrics_mds(&self) -> Metrics {
        Metrics::read(self.servers[0].admin).with(ROLE_METASERVER.0, ROLE_METASERVER.1)
    }

    /// Truncations and removals that have not reached every object.
    pub fn work_queue(&self) -> f64 {
        let metrics = Metrics::read(self.servers[0].admin);
        assert!(metrics.sum(TARGETS_UP, &[]) > 0.0, "the metaserver's own metrics are there");
        metrics.sum(WORK_QUEUE, &[])
    }

    /// What data server `number` counted.
    #[track_caller]
    pub fn metrics_ds(&self, number: usize) -> Metrics {
        let metrics = match self.servers.as_slice() {
            [one] => Metrics::read(one.admin).with(DATA_SERVER_LABEL, &data_server_name(number)),
            many => Metrics::read(many[1 + number].admin),
        };
        metrics.with(ROLE_DATA_SERVER.0, ROLE_DATA_SERVER.1)
    }

    /// File bytes that clients moved so far, by the server that they moved them to or from.
    #[track_caller]
    pub fn traffic(&self) -> Traffic {
        Traffic {
            metaserver: clients(self.metrics_mds()),
            data_servers: (0..self.data_servers).map(|n| clients(self.metrics_ds(n))).collect(),
        }
    }

    /// Runs `heorot ARGUMENTS --admin ADDRESS`, which must succeed, and returns what it printed.
    #[track_caller]
    pub fn admin(&self, arguments: &[&str]) -> String {
        let output = Command::new(binary())
            .args(arguments)
            .args(["--admin", &self.servers[0].admin.to_string()])
            .output()
            .unwrap_or_else(|e| panic!("run {}: {e}", binary().display()));
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "heorot {}: {error}", arguments.join(" "));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// What `heorot status --json` prints.
    #[track_caller]
    pub fn status_json(&self) -> String {
        self.admin(&["status", "--json"])
    }

    /// The folder that holds everything these servers keep.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for server in &self.servers {
                let refused = Metrics::try_read(server.admin).map(|metrics| metrics.show(OPERATION_ERRORS));
                let refused = refused.unwrap_or_else(|e| e.to_string());
                eprintln!("--- operations that {} refused\n{refused}", server.name);
                eprintln!("--- log of {}\n{}", server.name, server.log_ends());
            }
        }
        self.kill_all();
    }
}

impl Server {
    fn new(name: &str, arguments: Vec<String>, admin: SocketAddr, logs: &Path) -> Server {
        let log = logs.join(format!("{name}.log"));
        Server { name: name.to_owned(), arguments, admin, log, log_before: 0, process: None }
    }

    fn configured(name: &str, role: &str, admin: SocketAddr, configuration: &str, folder: &Path) -> Server {
        let file = folder.join(format!("{name}.toml"));
        fs::write(&file, configuration).unwrap_or_else(|e| panic!("write {}: {e}", file.display()));
        let arguments = vec![role.to_owned(), "--config".to_owned(), file.display().to_string()];
        Server::new(name, arguments, admin, folder)
    }

    /// Starts it and waits until it can be reached.
    #[track_caller]
    pub fn start(&mut self) {
        self.launch();
        self.wait_until_ready();
    }

    /// `kill -9`, and waits until it is gone.
    pub fn kill(&mut self) {
        self.send(Signal::KILL);
        if let Some(mut process) = self.process.take() {
            let _ = process.wait();
        }
    }

    /// SIGTERM: it must end by itself, with status 0.
    #[track_caller]
    pub fn stop(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        let pid = Pid::from_child(&process);
        kill_process(pid, Signal::TERM).unwrap_or_else(|e| panic!("stop {}: {e}", self.name));
        let asked = Instant::now();
        loop {
            match process.try_wait() {
                Ok(Some(status)) if status.success() => return,
                Ok(Some(status)) => panic!("{} ended with {status}\n{}", self.name, self.log_ends()),
                Ok(None) if asked.elapsed() < STOP_TIMEOUT => sleep(POLL),
                other => {
                    self.process = Some(process);
                    self.kill();
                    panic!(
                        "{} did not end within {STOP_TIMEOUT:?}: {other:?}\n{}",
                        self.name,
                        self.log_ends()
                    );
                }
            }
        }
    }

    /// Its process id, if it was started.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Child::id)
    }

    /// Whether its process is there.
    pub fn is_running(&mut self) -> bool {
        self.process.as_mut().is_some_and(|process| matches!(process.try_wait(), Ok(None)))
    }

    /// The first and the last lines that it logged.
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

    #[track_caller]
    fn launch(&mut self) {
        if self.is_running() {
            return;
        }
        let log = File::options().create(true).append(true).open(&self.log);
        let log = log.unwrap_or_else(|e| panic!("open {}: {e}", self.log.display()));
        self.log_before = log.metadata().map_or(0, |metadata| metadata.len() as usize);
        let log_too = log.try_clone().expect("a second handle of the log");
        // setpriv: killed with the thread that started it, should that end without dropping it.
        let process = Command::new("setpriv")
            .args(["--pdeathsig", "KILL"])
            .arg(binary())
            .args(&self.arguments)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(log_too)
            .spawn()
            .unwrap_or_else(|e| panic!("start {}: {e}: run `make setup`", self.name));
        self.process = Some(process);
    }

    /// Until it says so.
    #[track_caller]
    fn wait_until_ready(&mut self) {
        let started = Instant::now();
        loop {
            // Looked at before the log: what it said last is then in it.
            let running = self.is_running();
            let log = fs::read(&self.log).unwrap_or_default();
            let said = String::from_utf8_lossy(&log[self.log_before..]).into_owned();
            if said.split_whitespace().any(|word| word == READY) {
                return;
            }
            let command = self.arguments.join(" ");
            assert!(running, "{} ended: heorot {command}\n{}", self.name, self.log_ends());
            let waited = started.elapsed();
            assert!(
                waited < START_TIMEOUT,
                "{} is not ready: heorot {command}\n{}",
                self.name,
                self.log_ends()
            );
            sleep(POLL);
        }
    }

    /// To all processes that it started, too.
    fn send(&self, signal: Signal) {
        if let Some(process) = &self.process {
            let _ = kill_process_group(Pid::from_child(process), signal);
        }
    }
}

/// `HEOROT_BIN`, or the release build: a debug build is too slow to be timed by a kernel.
#[track_caller]
fn binary() -> PathBuf {
    let path = std::env::var_os("HEOROT_BIN").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release/heorot"),
        PathBuf::from,
    );
    assert!(path.exists(), "{} is missing: run `make build`", path.display());
    path
}

#[track_caller]
fn make_folder(folder: PathBuf) -> PathBuf {
    fs::create_dir_all(&folder).unwrap_or_else(|e| panic!("make {}: {e}", folder.display()));
    folder
}

/// Without what metaservers moved for clients.
#[track_caller]
fn clients(metrics: Metrics) -> FileBytes {
    metrics.with(CALLER_CLIENT.0, CALLER_CLIENT.1).file_bytes()
}
