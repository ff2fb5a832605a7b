//! nfs-ganesha of Debian: a single server, for comparison with Heorot.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;

use crate::command::require;
use crate::{Error, Lab, Namespace, Ready, Result, Server};

const PORT: u16 = 20049;

/// Running ganesha that exports one folder of this machine; killed on drop.
pub struct Ganesha {
    address: SocketAddr,
    server: Server,
}

impl Ganesha {
    /// Starts ganesha on a folder of the lab, on the same disk as Heorot's data; in a namespace, or on the
    /// machine's own network.
    ///
    /// # Errors
    /// When ganesha is not installed, or does not start.
    pub fn start(lab: &Lab, namespace: Option<&Namespace>) -> Result<Ganesha> {
        require("ganesha.nfsd").map_err(|_| {
            Error::Impossible("ganesha.nfsd is missing on this machine: run scripts/setup-bench.sh".into())
        })?;
        let folder = lab.folder().join("ganesha");
        let (export, state) = (folder.join("export"), folder.join("state"));
        for made in [&export, &state] {
            fs::create_dir_all(made).map_err(Error::file("make", made))?;
        }
        let address = namespace.map_or(lab.address(), |namespace| namespace.address);
        let configuration = folder.join("ganesha.conf");
        fs::write(&configuration, text(address, &export, &state))
            .map_err(Error::file("write", &configuration))?;
        let command = vec![
            "ganesha.nfsd".into(),
            "-F".into(),
            "-f".into(),
            configuration.into(),
            "-L".into(),
            "STDOUT".into(),
            "-p".into(),
            folder.join("pid").into(),
        ];
        let address = (address, PORT).into();
        let ready = Ready::Listens(address);
        let mut server = Server::new("ganesha", command, namespace, ready, folder.join("log"));
        server.start()?;
        Ok(Ganesha { address, server })
    }

    /// User and system seconds of the server until now.
    ///
    /// # Errors
    /// When it does not run.
    pub fn cpu_seconds(&self) -> Result<f64> {
        self.server.cpu_seconds()
    }

    /// Script that mounts the folder on `mount_point`, with `vers=4.2`.
    pub fn mount_script(&self, mount_point: &str) -> String {
        let host = self.address.ip();
        format!("mkdir -p {mount_point}; mount -t nfs -o vers=4.2,port={PORT} {host}:/ {mount_point}")
    }

    /// Process id.
    pub fn pid(&self) -> Option<u32> {
        self.server.pid()
    }

    /// Output of `ganesha.nfsd -v`, such as `NFS-Ganesha Release = V4.3`.
    pub fn version() -> String {
        let output = Command::new("ganesha.nfsd").arg("-v").output();
        let text = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
        text.lines().next().unwrap_or("version unknown").trim().to_owned()
    }
}

/// Configuration for version 4 only: version 3 needs rpcbind on this machine. Ganesha logs an error without
/// D-Bus, and serves.
fn text(address: Ipv4Addr, export: &Path, state: &Path) -> String {
    format!(
        r#"NFS_CORE_PARAM {{
    Protocols = 4;
    Bind_addr = {address};
    NFS_Port = {PORT};
    Enable_NLM = false;
    Enable_RQUOTA = false;
    Enable_UDP = false;
}}
NFSv4 {{ Graceless = true; RecoveryBackend = fs; RecoveryRoot = {}; }}
EXPORT {{
    Export_Id = 1;
    Path = {};
    Pseudo = /;
    Access_Type = RW;
    Squash = No_Root_Squash;
    SecType = sys;
    Protocols = 4;
    Transports = TCP;
    FSAL {{ Name = VFS; }}
}}
"#,
        state.display(),
        export.display()
    )
}
