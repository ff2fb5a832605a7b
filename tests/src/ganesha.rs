//! nfs-ganesha from Debian, as a process of this machine that listens on the lab's network: what Heorot is measured
//! beside.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::{Client, Lab};

const PORT: u16 = 20049;
const START_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(20);

/// A running ganesha that exports one folder of this machine. Dropping it stops it.
pub struct Ganesha {
    address: Ipv4Addr,
    log: PathBuf,
    process: Child,
}

impl Ganesha {
    /// Starts it on a folder in the lab's, which is on the disk that Heorot's data are on too.
    ///
    /// # Panics
    /// If it is not installed: `make bench` provides it.
    #[track_caller]
    pub fn start(lab: &Lab) -> Ganesha {
        let folder = lab.folder().join("ganesha");
        let (export, state) = (folder.join("export"), folder.join("state"));
        for made in [&export, &state] {
            fs::create_dir_all(made).unwrap_or_else(|e| panic!("make {}: {e}", made.display()));
        }
        let (configuration, log) = (folder.join("ganesha.conf"), folder.join("log"));
        fs::write(&configuration, text(lab.address(), &export, &state)).expect("write ganesha.conf");
        let output = File::create(folder.join("output")).expect("make a file for its output");
        // setpriv: killed with the thread that started it, should that end without dropping it.
        let process = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "ganesha.nfsd", "-F"])
            .args(["-f".as_ref(), configuration.as_os_str(), "-L".as_ref(), log.as_os_str()])
            .args(["-p".as_ref(), folder.join("pid").as_os_str()])
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a second handle"))
            .stderr(output)
            .spawn()
            .unwrap_or_else(|e| panic!("start setpriv ganesha.nfsd: {e}"));
        let mut ganesha = Ganesha { address: lab.address(), log, process };
        let started = Instant::now();
        while TcpStream::connect((ganesha.address, PORT)).is_err() {
            let ended = ganesha.process.try_wait().ok().flatten();
            let log = fs::read_to_string(&ganesha.log).unwrap_or_default();
            assert!(ended.is_none(), "ganesha.nfsd ended (`make bench` installs it): {ended:?}\n{log}");
            assert!(started.elapsed() < START_TIMEOUT, "ganesha.nfsd does not listen\n{log}");
            sleep(POLL);
        }
        ganesha
    }

    /// Mounts its folder on `mount_point`, with `vers=4.2`.
    #[track_caller]
    pub fn mount_at(&self, client: &Client, mount_point: &str) {
        let source = format!("{}:/", self.address);
        client.run(&format!(
            "mkdir -p {mount_point}; mount -t nfs -o vers=4.2,port={PORT} {source} {mount_point}"
        ));
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// What `ganesha.nfsd -v` says, such as `NFS-Ganesha Release = V4.3`.
    pub fn version() -> String {
        let output = Command::new("ganesha.nfsd").arg("-v").output();
        let text = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
        text.lines().next().unwrap_or("version unknown").trim().to_owned()
    }
}

impl Drop for Ganesha {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
        let asked = Instant::now();
        while matches!(self.process.try_wait(), Ok(None)) {
            if asked.elapsed() > STOP_TIMEOUT {
                let _ = self.process.kill();
            }
            sleep(POLL);
        }
    }
}

/// Version 4 alone: for version 3 it wants rpcbind on this machine, and does not start without. It complains that
/// there is no D-Bus, and serves.
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
