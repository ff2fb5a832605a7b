//! Heorot's servers, as processes of this machine that listen on the lab's network.
//!
//! Everything that the tests assume about the command line, the configuration files and the names of labels is in this
//! file, between the marks.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::{Client, Lab, Metrics, Traffic};

/// Where [`Cluster::mount`] mounts.
pub const MOUNT_POINT: &str = "/mnt/h";

const START_TIMEOUT: Duration = Duration::from_secs(30);
const STOP_TIMEOUT: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(20);
const LOG_TAIL_LINES: usize = 60;

/// A metaserver and data servers. Dropping it kills them; if the test is failing, it prints the ends of their logs.
pub struct Cluster {
    address: Ipv4Addr,
    data_servers: usize,
    folder: PathBuf,
    /// The metaserver first; one process alone if all servers are in it.
    servers: Vec<Server>,
}

/// One `heorot` process.
pub struct Server {
    name: String,
    arguments: Vec<String>,
    listen: SocketAddr,
    admin: SocketAddr,
    log: PathBuf,
    process: Option<Child>,
}

// ---- What is assumed of the binary ----------------------------------------------------------------------------------

const NFS_PORT: u16 = 2049;
const DS_PORT: u16 = 2050; // data server 0; the next ones count on
const MDS_ADMIN_PORT: u16 = 9049;
const DS_ADMIN_PORT: u16 = 9050;

const ROLE_METASERVER: (&str, &str) = ("role", "metaserver");
const ROLE_DATA_SERVER: (&str, &str) = ("role", "data-server");
const DATA_SERVER_LABEL: &str = "server"; // its value is the number, from 0

/// Clients are root, and come from an address that is not this machine's: without the last flag, root is squashed.
fn up_arguments(data: &Path, data_servers: usize, listen: Ipv4Addr) -> Vec<String> {
    let text = format!(
        "up --data {} --data-servers {data_servers} --listen {listen}:{NFS_PORT} --admin {listen}:{MDS_ADMIN_PORT} --no-root-squash",
        data.display()
    );
    text.split(' ').map(str::to_owned).collect()
}

fn mds_configuration(
    data: &Path,
    listen: SocketAddr,
    admin: SocketAddr,
    data_servers: &[SocketAddr],
) -> String {
    let mut text = format!(
        "data = {data:?}\nlisten = \"{listen}\"\nadmin = \"{admin}\"\nroot_squash = false\ncluster_secret_file = {:?}\n",
        secret(data)
    );
    for (number, address) in data_servers.iter().enumerate() {
        text += &format!("\n[[data_server]]\nid = {number}\naddress = \"{address}\"\n");
    }
    text
}

fn ds_configuration(number: usize, data: &Path, listen: SocketAddr, admin: SocketAddr) -> String {
    format!(
        "id = {number}\nlisten = \"{listen}\"\nadmin = \"{admin}\"\ncluster_secret_file = {:?}\n\n[[target]]\npath = {data:?}\n",
        secret(data)
    )
}

fn secret(data: &Path) -> PathBuf {
    data.with_file_name("secret")
}

/// The folders below which a cluster's data servers keep objects, and nothing else does.
fn target_folders(cluster: &Cluster) -> Vec<PathBuf> {
    (0..cluster.data_servers).map(|number| cluster.folder.join(format!("ds{number}"))).collect()
}

// ---------------------------------------------------------------------------------------------------------------------

impl Cluster {
    /// `heorot up`: everything in one process.
    #[track_caller]
    pub fn up(lab: &Lab, data_servers: usize) -> Cluster {
        let address = lab.address();
        let folder = make_folder(lab.folder().join("data"));
        let server = Server::new(
            "up",
            up_arguments(&folder, data_servers, address),
            (address, NFS_PORT).into(),
            (address, MDS_ADMIN_PORT).into(),
            lab.folder(),
        );
        let mut cluster = Cluster { address, data_servers, folder, servers: vec![server] };
        cluster.start_all();
        cluster
    }

    /// `heorot mds` and `heorot ds`, a process for each server.
    #[track_caller]
    pub fn separate(lab: &Lab, data_servers: usize) -> Cluster {
        let address = lab.address();
        let folder = make_folder(lab.folder().join("data"));
        let secret_file = secret(&folder.join("mds"));
        write(&secret_file, "a secret of thirty-two characters");
        let ds_listens: Vec<SocketAddr> =
            (DS_PORT..).take(data_servers).map(|port| (address, port).into()).collect();

        let (listen, admin) = ((address, NFS_PORT).into(), (address, MDS_ADMIN_PORT).into());
        let mut servers = vec![Server::configured(
            "mds",
            "mds",
            listen,
            admin,
            &mds_configuration(&make_folder(folder.join("mds")), listen, admin, &ds_listens),
            lab.folder(),
        )];
        for (number, listen) in ds_listens.into_iter().enumerate() {
            let name = format!("ds{number}");
            let admin = (address, DS_ADMIN_PORT + number as u16).into();
            let configuration = ds_configuration(number, &make_folder(folder.join(&name)), listen, admin);
            servers.push(Server::configured(&name, "ds", listen, admin, &configuration, lab.folder()));
        }
        let mut cluster = Cluster { address, data_servers, folder, servers };
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
        let options = match version {
            "vers=3" => {
                format!("{version},nolock,proto=tcp,mountproto=tcp,port={NFS_PORT},mountport={NFS_PORT}")
            }
            _ => format!("{version},port={NFS_PORT}"),
        };
        let source = format!("{}:/", self.address);
        client.run(&format!("mkdir -p {mount_point}; mount -t nfs -o {options} {source} {mount_point}"));
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

    /// Starts those that are not running, data servers first, and waits until all can be reached.
    #[track_caller]
    pub fn start_all(&mut self) {
        for server in self.servers.iter_mut().rev() {
            server.launch();
        }
        for server in &mut self.servers {
            server.wait_until_ready();
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

    /// What data server `number` counted.
    #[track_caller]
    pub fn metrics_ds(&self, number: usize) -> Metrics {
        let metrics = match self.servers.as_slice() {
            [one] => Metrics::read(one.admin).with(DATA_SERVER_LABEL, &number.to_string()),
            many => Metrics::read(many[1 + number].admin),
        };
        metrics.with(ROLE_DATA_SERVER.0, ROLE_DATA_SERVER.1)
    }

    /// File bytes that clients moved so far, by the server that they moved them to or from.
    #[track_caller]
    pub fn traffic(&self) -> Traffic {
        Traffic {
            metaserver: self.metrics_mds().file_bytes(),
            data_servers: (0..self.data_servers).map(|n| self.metrics_ds(n).file_bytes()).collect(),
        }
    }

    /// What `heorot status --json` prints.
    #[track_caller]
    pub fn status_json(&self) -> String {
        let admin = self.servers[0].admin.to_string();
        let output = Command::new(binary())
            .args(["status", "--json", "--server", &admin])
            .output()
            .unwrap_or_else(|e| panic!("run {}: {e}", binary().display()));
        assert!(output.status.success(), "heorot status: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Bytes on disk that the data servers' storage targets take, counted by looking.
    pub fn target_bytes(&self) -> u64 {
        target_folders(self).iter().map(|folder| allocated_bytes(folder)).sum()
    }

    /// The folder that holds everything these servers keep.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.kill_all();
        if std::thread::panicking() {
            for server in &self.servers {
                eprintln!("--- end of the log of {}\n{}", server.name, server.log_tail());
            }
        }
    }
}

impl Server {
    fn new(name: &str, arguments: Vec<String>, listen: SocketAddr, admin: SocketAddr, logs: &Path) -> Server {
        let log = logs.join(format!("{name}.log"));
        Server { name: name.to_owned(), arguments, listen, admin, log, process: None }
    }

    fn configured(
        name: &str,
        role: &str,
        listen: SocketAddr,
        admin: SocketAddr,
        configuration: &str,
        folder: &Path,
    ) -> Server {
        let file = folder.join(format!("{name}.toml"));
        write(&file, configuration);
        let arguments = vec![role.to_owned(), "--config".to_owned(), file.display().to_string()];
        Server::new(name, arguments, listen, admin, folder)
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
                Ok(Some(status)) => panic!("{} ended with {status}\n{}", self.name, self.log_tail()),
                Ok(None) if asked.elapsed() < STOP_TIMEOUT => sleep(POLL),
                other => {
                    self.process = Some(process);
                    self.kill();
                    panic!(
                        "{} did not end within {STOP_TIMEOUT:?}: {other:?}\n{}",
                        self.name,
                        self.log_tail()
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

    /// The last lines that it logged.
    pub fn log_tail(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
    }

    #[track_caller]
    fn launch(&mut self) {
        if self.is_running() {
            return;
        }
        let log = File::options().create(true).append(true).open(&self.log);
        let log = log.unwrap_or_else(|e| panic!("open {}: {e}", self.log.display()));
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

    #[track_caller]
    fn wait_until_ready(&mut self) {
        let started = Instant::now();
        while TcpStream::connect_timeout(&self.listen, START_TIMEOUT).is_err() {
            let why = match self.is_running() {
                false => "ended",
                true if started.elapsed() > START_TIMEOUT => "cannot be reached",
                true => {
                    sleep(POLL);
                    continue;
                }
            };
            panic!("{} {why}: heorot {}\n{}", self.name, self.arguments.join(" "), self.log_tail());
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

#[track_caller]
fn write(file: &Path, text: &str) {
    fs::write(file, text).unwrap_or_else(|e| panic!("write {}: {e}", file.display()));
}

/// Files may go while it looks: those count nothing.
fn allocated_bytes(folder: &Path) -> u64 {
    const BLOCK_BYTES: u64 = 512; // the unit of st_blocks, whatever the file system's own
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => allocated_bytes(&entry.path()),
            Ok(metadata) => metadata.blocks() * BLOCK_BYTES,
            Err(_) => 0,
        })
        .sum()
}
