//! Groups of metaservers on 127.0.0.1, each with a data server, for the placement of new files.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use bench::target::{NfsServer, Open, Target};
use lab::Server;
use lab::heorot::READY;
use tempfile::TempDir;
use tests::cpu_seconds;

const START_TIMEOUT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(20);
/// Directory of the files.
pub const DIR: &str = "files";

/// Group of metaservers; drop ends its processes.
pub struct Group {
    metaservers: Vec<Server>,
    serving: Vec<SocketAddr>,
    _data_server: Server,
    folder: TempDir,
}

impl Group {
    /// Starts `count` metaservers; returns when each has its vote. Number 0 leads.
    pub fn start(count: usize) -> Group {
        let folder = tempfile::tempdir_in("/var/tmp").expect("a folder in /var/tmp");
        let ports = free_ports(3 * count + 1);
        let (serving, rest) = ports.split_at(count);
        let (consensus, rest) = rest.split_at(count);
        let (admin, data) = rest.split_at(count);
        let mut metaservers: Vec<Server> = Vec::new();
        for n in 0..count {
            let join = if n == 0 { String::new() } else { format!("join = \"{}\"\n", consensus[0]) };
            let data = folder.path().join(format!("mds{n}"));
            let text = format!(
                "listen = \"{}\"\nadmin = \"{}\"\ndata_dir = {data:?}\nsecret_file = {:?}\n\
                 name = \"mds{n}\"\nconsensus = \"{}\"\n{join}metadata_memory = \"64MiB\"\n",
                serving[n],
                admin[n],
                folder.path().join("secret"),
                consensus[n],
            );
            metaservers.push(started("mds", n, folder.path(), &text));
        }
        let target = folder.path().join("target");
        fs::create_dir(&target).expect("a folder for the target");
        let text = format!(
            "name = \"ds0\"\nlisten = \"{}\"\nadmin = \"off\"\nmetaserver = {:?}\nsecret_file = {:?}\n\
             data_dir = {:?}\ntargets = [{target:?}]\n",
            data[0],
            serving.iter().map(ToString::to_string).collect::<Vec<_>>(),
            folder.path().join("secret"),
            folder.path().join("ds0"),
        );
        let data_server = started("ds", 0, folder.path(), &text);
        let group = Group { metaservers, serving: serving.to_vec(), _data_server: data_server, folder };
        let asked = Instant::now();
        while !(0..count).all(|n| is_ready(&group.folder.path().join(format!("mds{n}")))) {
            assert!(
                asked.elapsed() < START_TIMEOUT,
                "the first does not lead, or not all know the data server"
            );
            sleep(POLL);
        }
        group.client(0).mkdir(DIR).expect("a directory");
        group
    }

    /// Client of metaserver `n`.
    pub fn client(&self, n: usize) -> NfsServer {
        let address = format!("nfs://{}/?version=3", self.serving[n]).parse().expect("an address");
        NfsServer::connect(address).unwrap_or_else(|why| panic!("{why}"))
    }

    /// CPU-seconds that metaserver `n` has used.
    pub fn cpu(&self, n: usize) -> f64 {
        cpu_seconds(self.metaservers[n].pid().expect("it runs"))
    }

    /// CPU-seconds that each metaserver has used.
    pub fn cpu_of_each(&self) -> Vec<f64> {
        (0..self.metaservers.len()).map(|n| self.cpu(n)).collect()
    }
}

/// Creates an empty file.
pub fn create(client: &NfsServer, path: &str) {
    drop(client.open(path, Open::New).unwrap_or_else(|e| panic!("make {path}: {e}")));
}

/// Reads a file's attributes; the file must exist.
pub fn stat(client: &NfsServer, path: &str) {
    let attributes = client.stat(path).unwrap_or_else(|e| panic!("stat {path}: {e}"));
    assert_eq!(attributes.bytes, 0, "{path} is empty");
}

fn started(role: &str, n: usize, folder: &Path, text: &str) -> Server {
    let name = format!("{role}{n}");
    let file = folder.join(format!("{name}.toml"));
    fs::write(&file, text).unwrap_or_else(|e| panic!("write {}: {e}", file.display()));
    let log = file.with_extension("log");
    let command = vec![tests::binary().into(), role.into(), "--config".into(), file.into()];
    let mut server = Server::new(&name, command, None, READY, log);
    server.start().unwrap_or_else(|why| panic!("{why}\n{}", server.log_ends()));
    server
}

/// Whether the first metaserver leads, and the data server is registered here.
fn is_ready(directory: &Path) -> bool {
    let output = Command::new(tests::binary()).args(["status", "--json", "--admin"]).arg(directory).output();
    let status: serde_json::Value =
        output.ok().and_then(|output| serde_json::from_slice(&output.stdout).ok()).unwrap_or_default();
    let all = status["metaservers"].as_array().cloned().unwrap_or_default();
    let led = all.iter().any(|metaserver| metaserver["name"] == "mds0" && metaserver["role"] == "leader");
    led && status["data_servers"][0]["targets"][0]["state"] == "ok"
}

/// Free ports; all are held until all are known, so that none occurs twice.
fn free_ports(count: usize) -> Vec<SocketAddr> {
    let any = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let held: Vec<TcpListener> = (0..count).map(|_| any()).collect();
    held.iter().map(|listener| listener.local_addr().expect("its address")).collect()
}
