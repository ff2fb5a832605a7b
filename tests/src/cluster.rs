//! Heorot's servers as processes of this machine, on the lab's network.
//!
//! The part between the marks has everything that only the tests know about the command line and the metrics'
//! labels; [`lab::heorot`] has what the lab knows, too.

use std::fs;
use std::iter::once;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use lab::heorot::{
    DS_ADMIN_PORT, DS_PORT, Home, MDS_ADMIN_PORT, NFS_PORT, READY, mount_path_script, mount_script,
};
use rustix::process::Signal;

use crate::{Client, FileBytes, Lab, Metrics, Traffic, must};

/// Mount point of [`Cluster::mount`].
pub const MOUNT_POINT: &str = "/mnt/h";

const START_TIMEOUT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

/// Metaserver and data servers; drop kills them, and prints their logs if the test fails.
pub struct Cluster {
    listen: SocketAddr,
    data_servers: usize,
    folder: PathBuf,
    /// The metaserver first; a single process if it contains all servers.
    servers: Vec<Server>,
}

/// One `heorot` process.
pub struct Server {
    server: lab::Server,
    admin: SocketAddr,
}

// ---- Metrics, log texts and arguments of the binary
// ------------------------------------------------------------------------------

const ROLE_METASERVER: (&str, &str) = ("role", "metaserver");
const ROLE_DATA_SERVER: (&str, &str) = ("role", "dataserver");
const CALLER_CLIENT: (&str, &str) = ("caller", "client"); // not a metaserver that reads and writes for a client
const DATA_SERVER_LABEL: &str = "server";
const TARGETS_UP: &str = "heorot_target_up";
const OPERATION_ERRORS: &str = "heorot_operation_errors_total";
const DEFERRED_OPS: &str = "heorot_deferred_ops";
const EXPORTS_IN_FORCE: &str = "layouts to write were asked back";

fn data_server_name(number: usize) -> String {
    format!("ds{number}")
}

/// Arguments of `heorot up`. Without the last flag root is squashed: clients are root, and their addresses
/// are not this machine's.
fn up_arguments(data: &Path, data_servers: usize, listen: SocketAddr, admin: SocketAddr) -> Vec<String> {
    let text = format!(
        "up --data {} --data-servers {data_servers} --listen {listen} --admin {admin} --no-root-squash",
        data.display()
    );
    text.split(' ').map(str::to_owned).collect()
}

// -----------------------------------------------------------------------------------------------

impl Cluster {
    /// Starts `heorot up`: all servers in one process.
    #[track_caller]
    pub fn up(lab: &Lab, data_servers: usize) -> Cluster {
        let folder = make_folder(lab.folder().join("data"));
        let listen = (lab.address(), NFS_PORT).into();
        let admin = (lab.address(), MDS_ADMIN_PORT).into();
        let arguments = up_arguments(&folder, data_servers, listen, admin);
        let command = once(binary().into()).chain(arguments.into_iter().map(Into::into)).collect();
        let server = lab::Server::new("up", command, None, READY, lab.folder().join("up.log"));
        let server = Server { server, admin };
        Cluster::started(listen, data_servers, folder, vec![server])
    }

    /// Starts `heorot mds` and `heorot ds`, a process for each server.
    #[track_caller]
    pub fn separate(lab: &Lab, data_servers: usize) -> Cluster {
        let (program, logs, address) = (binary(), lab.folder(), IpAddr::from(lab.address()));
        let folder = make_folder(logs.join("data"));
        let home = Home { program: &program, logs, folder: &folder };
        let listen = (address, NFS_PORT).into();
        let mds = must(home.metaserver(address, None));
        let mut servers = vec![Server { server: mds, admin: (address, MDS_ADMIN_PORT).into() }];
        servers.extend((0..data_servers).map(|number| data_server(&home, number, listen)));
        Cluster::started(listen, data_servers, folder, servers)
    }

    /// Starts one more data server, a process. Returns its number.
    #[track_caller]
    pub fn add_data_server(&mut self, lab: &Lab) -> usize {
        let (program, number) = (binary(), self.data_servers);
        let home = Home { program: &program, logs: lab.folder(), folder: &self.folder };
        let server = data_server(&home, number, self.listen);
        self.servers.push(server);
        self.data_servers += 1;
        self.start_all();
        number
    }

    #[track_caller]
    fn started(listen: SocketAddr, data_servers: usize, folder: PathBuf, servers: Vec<Server>) -> Cluster {
        let mut cluster = Cluster { listen, data_servers, folder, servers };
        cluster.start_all();
        cluster
    }

    /// Mounts the root on the client's [`MOUNT_POINT`], with `vers=4.2`, `vers=4.1` or `vers=3` and the
    /// options for it.
    #[track_caller]
    pub fn mount(&self, client: &Client, version: &str) {
        self.mount_at(client, version, MOUNT_POINT);
    }

    /// [`mount`](Cluster::mount) on another folder under the client's /mnt.
    #[track_caller]
    pub fn mount_at(&self, client: &Client, version: &str, mount_point: &str) {
        client.run(&mount_script(self.listen, version, mount_point));
    }

    /// Script that mounts a directory on the client's `mount_point`.
    #[must_use]
    pub fn mount_path_script(&self, version: &str, path: &str, mount_point: &str) -> String {
        mount_path_script(self.listen, version, path, mount_point)
    }

    /// Mounts a directory on the client's `mount_point`.
    #[track_caller]
    pub fn mount_path_at(&self, client: &Client, version: &str, path: &str, mount_point: &str) {
        client.run(&self.mount_path_script(version, path, mount_point));
    }

    /// Runs `heorot export` once for each of `commands`, and waits until the data servers apply the change.
    #[track_caller]
    pub fn set_exports(&mut self, commands: &[&str]) {
        let said = |mds: &Server| {
            fs::read_to_string(mds.server.log()).unwrap_or_default().matches(EXPORTS_IN_FORCE).count()
        };
        let (before, asked) = (said(&self.servers[0]), Instant::now());
        for command in commands {
            let words: Vec<&str> = once("export").chain(command.split(' ')).collect();
            self.admin(&words);
        }
        let mds = &self.servers[0];
        while said(mds) == before {
            assert!(asked.elapsed() < START_TIMEOUT * 2, "exports not in force\n{}", mds.server.log_ends());
            sleep(POLL);
        }
    }

    /// Process of the metaserver.
    pub fn mds(&mut self) -> &mut Server {
        &mut self.servers[0]
    }

    /// Process of data server `number`.
    pub fn ds(&mut self, number: usize) -> &mut Server {
        let index = if self.servers.len() == 1 { 0 } else { 1 + number };
        &mut self.servers[index]
    }

    /// Starts the stopped processes, and waits until all data servers have registered with the metaserver.
    #[track_caller]
    pub fn start_all(&mut self) {
        // The metaserver first: it makes the secret that the data servers need.
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

    /// Kills all processes (`kill -9`), like a power failure of the whole cluster.
    pub fn kill_all(&mut self) {
        for server in &mut self.servers {
            server.server.send(Signal::KILL);
        }
        for server in &mut self.servers {
            server.kill();
        }
    }

    /// Sends SIGTERM to every process; each must exit with status 0.
    #[track_caller]
    pub fn stop_all(&mut self) {
        for server in &mut self.servers {
            server.stop();
        }
    }

    /// Metrics of the metaserver.
    #[track_caller]
    pub fn metrics_mds(&self) -> Metrics {
        Metrics::read(self.servers[0].admin).with(ROLE_METASERVER.0, ROLE_METASERVER.1)
    }

    /// Number of deferred object operations.
    pub fn deferred_ops(&self) -> f64 {
        let metrics = Metrics::read(self.servers[0].admin);
        assert!(metrics.sum(TARGETS_UP, &[]) > 0.0, "the metaserver's own metrics are there");
        metrics.sum(DEFERRED_OPS, &[])
    }

    /// Metrics of data server `number`.
    #[track_caller]
    pub fn metrics_ds(&self, number: usize) -> Metrics {
        let metrics = match self.servers.as_slice() {
            [one] => Metrics::read(one.admin).with(DATA_SERVER_LABEL, &data_server_name(number)),
            many => Metrics::read(many[1 + number].admin),
        };
        metrics.with(ROLE_DATA_SERVER.0, ROLE_DATA_SERVER.1)
    }

    /// File bytes that clients have moved so far, by server.
    #[track_caller]
    pub fn traffic(&self) -> Traffic {
        Traffic {
            metaserver: clients(self.metrics_mds()),
            data_servers: (0..self.data_servers).map(|n| clients(self.metrics_ds(n))).collect(),
        }
    }

    /// Runs `heorot ARGUMENTS --admin FOLDER`, which must succeed, and returns its output.
    #[track_caller]
    pub fn admin(&self, arguments: &[&str]) -> String {
        let output = self.try_admin(arguments);
        output.unwrap_or_else(|error| panic!("heorot {}: {error}", arguments.join(" ")))
    }

    /// Runs `heorot ARGUMENTS --admin FOLDER`.
    ///
    /// # Errors
    /// Its error output, if it fails.
    #[track_caller]
    pub fn try_admin(&self, arguments: &[&str]) -> Result<String, String> {
        let output = Command::new(binary()).args(arguments).arg("--admin").arg(&self.folder).output();
        let output = output.unwrap_or_else(|e| panic!("run {}: {e}", binary().display()));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    /// Output of `heorot status --json`, for any verdict.
    #[track_caller]
    pub fn status_json(&self) -> String {
        let output = Command::new(binary()).args(["status", "--json", "--admin"]).arg(&self.folder).output();
        let output = output.unwrap_or_else(|e| panic!("run {}: {e}", binary().display()));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Folder with all data of these servers.
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
                eprintln!("--- operations that {} refused\n{refused}", server.server.name());
                eprintln!("--- log of {}\n{}", server.server.name(), server.log_ends());
            }
        }
        self.kill_all();
    }
}

impl Server {
    /// Starts the process and waits until it serves.
    #[track_caller]
    pub fn start(&mut self) {
        must(self.server.start());
    }

    /// Kills the process (`kill -9`) and waits for its end.
    pub fn kill(&mut self) {
        self.server.kill();
    }

    /// Sends SIGTERM: the process must exit with status 0.
    #[track_caller]
    pub fn stop(&mut self) {
        must(self.server.stop());
    }

    /// Process id, if started.
    pub fn pid(&self) -> Option<u32> {
        self.server.pid()
    }

    /// Whether the process runs.
    pub fn is_running(&mut self) -> bool {
        self.server.is_running()
    }

    /// First and last lines of the log.
    pub fn log_ends(&self) -> String {
        self.server.log_ends()
    }
}

/// Process of data server `number`, at the address of the metaserver that listens at `listen`.
#[track_caller]
fn data_server(home: &Home<'_>, number: usize, listen: SocketAddr) -> Server {
    let offset = u16::try_from(number).expect("few data servers");
    let (at, admin) = ((listen.ip(), DS_PORT + offset).into(), (listen.ip(), DS_ADMIN_PORT + offset).into());
    Server { server: must(home.data_server(number, at, admin, listen, None)), admin }
}

/// `HEOROT_BIN`, or the release build.
#[track_caller]
pub fn binary() -> PathBuf {
    must(lab::heorot::program())
}

#[track_caller]
fn make_folder(folder: PathBuf) -> PathBuf {
    fs::create_dir_all(&folder).unwrap_or_else(|e| panic!("make {}: {e}", folder.display()));
    folder
}

/// File bytes of clients, without those that metaservers moved for clients.
#[track_caller]
fn clients(metrics: Metrics) -> FileBytes {
    metrics.with(CALLER_CLIENT.0, CALLER_CLIENT.1).file_bytes()
}
