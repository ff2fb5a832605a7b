//! `heorot up`, or `heorot mds` and `heorot ds`, on this machine's loopback, on ports of their own.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tests::{FileBytes, Metrics, Traffic, free_ports};

const RECALLED: &str = "layouts to write were asked back";
pub const DATA_SERVERS: usize = 4;

const LOOPBACK: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// Number of ports: the metaserver's, one for each data server, and the admin interface's.
const PORTS: u16 = 2 + DATA_SERVERS as u16;
const START_TIMEOUT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(10);
const LOG_LINES_SHOWN: usize = 60;

/// Cluster in one process; killed on drop, and prints the end of the log if the test fails.
pub struct Server {
    pub nfs: SocketAddr,
    admin: SocketAddr,
    process: Child,
    /// Data server outside the metaserver's process.
    data_server: Option<Child>,
    log: PathBuf,
    folder: TempDir,
}

impl Server {
    #[track_caller]
    pub fn start() -> Server {
        let folder = tempfile::Builder::new().prefix("heorot-nfs-rs.").tempdir().expect("a temporary folder");
        let ports = free_ports(PORTS);
        let nfs = SocketAddr::from((LOOPBACK, ports.start));
        let admin = SocketAddr::from((LOOPBACK, ports.end - 1));
        let log = folder.path().join("log");
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL"])
            .arg(binary())
            .args(["up", "--data"])
            .arg(folder.path().join("data"))
            .args(["--data-servers", &DATA_SERVERS.to_string()])
            .args(["--listen", &nfs.to_string(), "--admin", &admin.to_string()]);
        let process = spawned(command, &log);
        let mut server = Server { nfs, admin, process, data_server: None, log, folder };
        server.wait_until_ready();
        server
    }

    /// Metaserver whose cluster begins with one export, a network and its rules, and one data server.
    #[track_caller]
    pub fn exporting(export: &str) -> Server {
        let folder = tempfile::Builder::new().prefix("heorot-nfs-rs.").tempdir().expect("a temporary folder");
        let ports = free_ports(PORTS);
        let nfs = SocketAddr::from((LOOPBACK, ports.start));
        let admin = SocketAddr::from((LOOPBACK, ports.end - 1));
        let at = |name: &str| folder.path().join(name);
        fs::write(at("mds.toml"), mds_configuration(folder.path(), nfs, admin)).expect("write mds.toml");
        fs::write(at("mds.begin.toml"), format!("exports = [{export:?}]\n")).expect("write mds.begin.toml");
        let ds = SocketAddr::from((LOOPBACK, ports.start + 1));
        let ds_configuration = format!(
            "listen = \"{ds}\"\nadmin = \"off\"\nmetaserver = \"{nfs}\"\nsecret_file = {:?}\ndata_dir = {:?}\n\
             targets = [{:?}]\n",
            at("secret"),
            at("ds"),
            at("target"),
        );
        fs::write(at("ds.toml"), ds_configuration).expect("write ds.toml");
        let log = at("log");
        let configured = |role: &str| {
            let mut command = Command::new("setpriv");
            let file = at(&format!("{role}.toml"));
            command.args(["--pdeathsig", "KILL"]).arg(binary()).args([role, "--config"]).arg(file);
            command
        };
        let (mds, ds) = (configured("mds"), configured("ds"));
        let process = spawned(mds, &log);
        let mut server = Server { nfs, admin, process, data_server: None, log, folder };
        server.wait_for_log("ready", 1);
        server.data_server = Some(spawned(ds, &server.log));
        server.wait_for_log("registered", 1);
        server
    }

    /// Runs `heorot export` with these words; returns when the change is in force.
    #[track_caller]
    pub fn export(&self, words: &str) -> String {
        let output = Command::new(binary())
            .arg("export")
            .args(words.split(' '))
            .arg("--admin")
            .arg(self.directory())
            .output()
            .expect("run heorot export");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "heorot export {words}: {error}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The same; returns after clients have returned their layouts for writes of the earlier exports.
    #[track_caller]
    pub fn export_and_recall(&mut self, words: &str) {
        let before = self.log().matches(RECALLED).count();
        self.export(words);
        self.wait_for_log(RECALLED, before + 1);
    }

    #[track_caller]
    fn wait_for_log(&mut self, text: &str, times: usize) {
        let started = Instant::now();
        while self.log().matches(text).count() < times {
            let ended = self.process.try_wait().expect("ask for its status");
            assert!(ended.is_none(), "heorot mds ended: {ended:?}\n{}", self.log());
            assert!(started.elapsed() < START_TIMEOUT, "no \"{text}\" in the log\n{}", self.log());
            sleep(POLL);
        }
    }

    /// Directory of the admin socket, or of the servers.
    fn directory(&self) -> PathBuf {
        let data = self.folder.path().join("data");
        if data.exists() { data } else { self.folder.path().to_owned() }
    }

    /// Sets the stripe of new files in `path`.
    #[track_caller]
    pub fn stripe(&self, path: &str, unit: &str, columns: usize) {
        let output = Command::new(binary())
            .args(["stripe", "set", path, "--unit", unit, "--columns", &columns.to_string()])
            .arg("--admin")
            .arg(self.directory())
            .output()
            .expect("run heorot stripe");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "heorot stripe set {path}: {error}");
    }

    /// File bytes that clients have moved so far, by server.
    #[track_caller]
    pub fn traffic(&self) -> Traffic {
        let all = Metrics::read(self.admin).with("caller", "client");
        let of = |role: &str, server: &str| -> FileBytes {
            all.clone().with("role", role).with("server", server).file_bytes()
        };
        Traffic {
            metaserver: of("metaserver", "mds"),
            data_servers: (0..DATA_SERVERS).map(|n| of("dataserver", &format!("ds{n}"))).collect(),
        }
    }

    /// Number of v4 clients that the metaserver knows.
    #[track_caller]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small count")]
    pub fn clients(&self) -> usize {
        Metrics::read(self.admin).sum("heorot_clients", &[]) as usize
    }

    fn wait_until_ready(&mut self) {
        let started = Instant::now();
        // The last line of its output, after all data servers have registered.
        while !self.log().lines().any(|line| line == "ready") {
            let ended = self.process.try_wait().expect("ask for its status");
            assert!(ended.is_none(), "heorot up ended: {ended:?}\n{}", self.log());
            assert!(started.elapsed() < START_TIMEOUT, "heorot up is not ready\n{}", self.log());
            sleep(POLL);
        }
    }

    fn log(&self) -> String {
        fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for process in self.data_server.iter_mut().chain([&mut self.process]) {
            let _ = process.kill();
            let _ = process.wait();
        }
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let shown = &lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..];
            eprintln!("--- the end of heorot's log\n{}", shown.join("\n"));
        }
    }
}

fn mds_configuration(folder: &Path, nfs: SocketAddr, admin: SocketAddr) -> String {
    format!(
        "listen = \"{nfs}\"\nadmin = \"{admin}\"\ndata_dir = {:?}\nsecret_file = {:?}\n",
        folder.join("mds"),
        folder.join("secret"),
    )
}

/// Starts a process that appends to `log`.
#[track_caller]
fn spawned(mut command: Command, log: &Path) -> Child {
    let out = File::options().create(true).append(true).open(log).expect("open the log");
    let out_too = out.try_clone().expect("a second handle of the log");
    // setpriv: the process is killed when the thread that started it ends.
    let child = command.process_group(0).stdin(Stdio::null()).stdout(out).stderr(out_too).spawn();
    child.unwrap_or_else(|e| panic!("start heorot: {e}: run `make setup`"))
}

/// `HEOROT_BIN`, or the release build.
#[track_caller]
fn binary() -> PathBuf {
    let path = std::env::var_os("HEOROT_BIN").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release/heorot"),
        PathBuf::from,
    );
    assert!(path.exists(), "{} is missing: run `make build`", path.display());
    path
}
