//! Heorot's servers, each a process: their command lines and configuration files in a lab.

use std::ffi::OsString;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::config::Cluster;
use crate::{Error, Lab, Link, Namespace, Ready, Result, Server, interrupt};

/// NFS port of a metaserver.
pub const NFS_PORT: u16 = 2049;
/// NFS port of a data server in a namespace of its own; several on one address have consecutive ports.
pub const DS_PORT: u16 = 2050;
/// Port of the metaserver's metrics.
pub const MDS_ADMIN_PORT: u16 = 20490;
/// Port of a data server's metrics; several on one address have consecutive ports.
pub const DS_ADMIN_PORT: u16 = 20491;
/// Word that each process prints when it serves.
pub const READY: Ready = Ready::Says("ready");

const REGISTER_TIMEOUT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

/// First exports of a cluster, in a file beside the metaserver's configuration. Without squashing: clients
/// are root, and their addresses are not this machine's.
pub const BEGIN: &str = "exports = [\"* squash=none\"]\n";

/// Configuration of a metaserver.
pub fn mds_configuration(folder: &Path, listen: SocketAddr, admin: SocketAddr) -> String {
    format!(
        "listen = \"{listen}\"\nadmin = \"{admin}\"\ndata_dir = {:?}\nsecret_file = {:?}\n",
        folder.join("mds"),
        folder.join("secret"),
    )
}

/// Configuration of a data server.
pub fn ds_configuration(
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

/// Script that mounts a metaserver's root, with `vers=4.2`, `vers=4.1` or `vers=3` and the options for it.
pub fn mount_script(metaserver: SocketAddr, version: &str, mount_point: &str) -> String {
    mount_path_script(metaserver, version, "/", mount_point)
}

/// Script that mounts a directory of a metaserver.
#[must_use]
pub fn mount_path_script(metaserver: SocketAddr, version: &str, path: &str, mount_point: &str) -> String {
    let (host, port) = (metaserver.ip(), metaserver.port());
    let options = match version {
        "vers=3" => format!("{version},nolock,proto=tcp,mountproto=tcp,port={port},mountport={port}"),
        _ => format!("{version},port={port}"),
    };
    format!("mkdir -p {mount_point}; mount -t nfs -o {options} {host}:{path} {mount_point}")
}

/// Program and folders of servers on this machine.
#[derive(Debug, Clone, Copy)]
pub struct Home<'a> {
    /// `heorot` program.
    pub program: &'a Path,
    /// Folder for configurations and logs.
    pub logs: &'a Path,
    /// Folder for data.
    pub folder: &'a Path,
}

impl Home<'_> {
    /// Metaserver's process, with its folders and configuration.
    ///
    /// # Errors
    /// When a folder or file cannot be written.
    pub fn metaserver(&self, at: IpAddr, namespace: Option<&Namespace>) -> Result<Server> {
        make(&self.folder.join("mds"))?;
        let text = mds_configuration(self.folder, (at, NFS_PORT).into(), (at, MDS_ADMIN_PORT).into());
        let begin = self.logs.join("mds.begin.toml");
        fs::write(&begin, BEGIN).map_err(Error::file("write", &begin))?;
        self.configured("mds", "mds", &text, namespace)
    }

    /// Process of data server `number`, named `ds` and its number, with one storage target.
    ///
    /// # Errors
    /// When a folder or file cannot be written.
    pub fn data_server(
        &self,
        number: usize,
        listen: SocketAddr,
        admin: SocketAddr,
        mds: SocketAddr,
        namespace: Option<&Namespace>,
    ) -> Result<Server> {
        let name = format!("ds{number}");
        make(&self.folder.join(&name).join("identity"))?;
        make(&self.folder.join(&name).join("target"))?;
        let text = ds_configuration(self.folder, &name, listen, admin, mds);
        self.configured(&name, "ds", &text, namespace)
    }

    fn configured(
        &self,
        name: &str,
        role: &str,
        text: &str,
        namespace: Option<&Namespace>,
    ) -> Result<Server> {
        let file = self.logs.join(format!("{name}.toml"));
        fs::write(&file, text).map_err(Error::file("write", &file))?;
        let command: Vec<OsString> = vec![self.program.into(), role.into(), "--config".into(), file.into()];
        Ok(Server::new(name, command, namespace, READY, self.logs.join(format!("{name}.log"))))
    }
}

fn make(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(Error::file("make", folder))
}

/// Metaserver and data servers, each in a namespace on a link of its own; killed on drop.
pub struct Heorot {
    /// Address that clients mount.
    pub metaserver: SocketAddr,
    /// Folder with the metaserver's admin socket below it.
    folder: PathBuf,
    servers: Vec<Server>,
    namespaces: Vec<Namespace>,
}

impl Heorot {
    /// Starts the servers, with their data in the lab's folder, and waits until all data servers have
    /// registered.
    ///
    /// # Errors
    /// When a server does not start, or with more than one metaserver.
    pub fn start(
        lab: &Lab,
        program: &Path,
        metaservers: u16,
        data_servers: u16,
        link: Option<Link>,
    ) -> Result<Heorot> {
        if metaservers != 1 {
            return Err(Error::Impossible(format!(
                "{metaservers} metaservers: a lab has one so far: set metaservers to 1"
            )));
        }
        if data_servers == 0 {
            return Err(Error::Impossible("0 data servers: files need at least 1".into()));
        }
        let data = lab.folder().join("data");
        make(&data)?;
        let home = Home { program, logs: lab.folder(), folder: &data };
        let place = lab.namespace(link)?;
        let metaserver: SocketAddr = (place.address, NFS_PORT).into();
        let mds = home.metaserver(place.address.into(), Some(&place))?;
        let folder = data.clone();
        let mut heorot = Heorot { metaserver, folder, servers: vec![mds], namespaces: vec![place] };
        for number in 0..usize::from(data_servers) {
            let place = lab.namespace(link)?;
            let (listen, admin) = ((place.address, DS_PORT).into(), (place.address, DS_ADMIN_PORT).into());
            heorot.servers.push(home.data_server(number, listen, admin, metaserver, Some(&place))?);
            heorot.namespaces.push(place);
        }
        // The metaserver first: it makes the secret that the data servers need.
        for server in &mut heorot.servers {
            server.start()?;
        }
        heorot.wait_registered(program, usize::from(data_servers))?;
        Ok(heorot)
    }

    /// Namespaces: the metaserver's, then those of the data servers.
    pub fn namespaces(&self) -> &[Namespace] {
        &self.namespaces
    }

    /// Sets the stripe of new files, and the number of their copies.
    ///
    /// # Errors
    /// When the metaserver refuses.
    pub fn stripe(&self, program: &Path, cluster: &Cluster) -> Result<()> {
        let (columns, copies, unit_kib) =
            (cluster.columns().to_string(), cluster.copies.to_string(), cluster.stripe_unit_kib);
        let words = ["stripe", "set", "/", "--columns", &columns, "--copies", &copies];
        let mut words: Vec<String> = words.map(String::from).into();
        words.extend(unit_kib.into_iter().flat_map(|kib| ["--unit".into(), format!("{kib}KiB")]));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = self.ask(program, &words)?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(Error::Refused { command: format!("heorot {}", words.join(" ")), said })
    }

    /// User and system seconds of all servers until now.
    ///
    /// # Errors
    /// When one of them does not run.
    pub fn cpu_seconds(&self) -> Result<f64> {
        self.servers.iter().map(Server::cpu_seconds).sum()
    }

    /// Runs `heorot WORDS --admin DIRECTORY`.
    fn ask(&self, program: &Path, words: &[&str]) -> Result<std::process::Output> {
        let output = Command::new(program).args(words).arg("--admin").arg(&self.folder).output();
        output.map_err(Error::file("run", program))
    }

    fn wait_registered(&self, program: &Path, wanted: usize) -> Result<()> {
        let asked = Instant::now();
        loop {
            interrupt::check()?;
            let output = self.ask(program, &["status", "--json"])?;
            let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            let servers = status["data_servers"].as_array().map_or(&[][..], Vec::as_slice);
            let serves = |server: &&serde_json::Value| server["targets"][0]["state"] == "ok";
            if servers.iter().filter(serves).count() == wanted {
                return Ok(());
            }
            if asked.elapsed() > REGISTER_TIMEOUT {
                let why = format!("does not see all of its {wanted} data servers: {status:#}");
                return Err(Error::Server { name: "mds".into(), why, log: self.servers[0].log_ends() });
            }
            sleep(POLL);
        }
    }
}

/// Path of the heorot program: `HEOROT_BIN`, or the release build.
///
/// # Errors
/// When the program does not exist.
pub fn program() -> Result<PathBuf> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/release/heorot");
    let path = std::env::var_os("HEOROT_BIN").map_or(workspace, PathBuf::from);
    // Absolute path: clients see the program at the same path, with another working directory.
    path.canonicalize()
        .map_err(|_| Error::Impossible(format!("{} is missing: run `make build`", path.display())))
}
