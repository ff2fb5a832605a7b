//! `heorot up` on a loopback address, without a lab.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::free_ports;

/// Time limit of the start, long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// `heorot up` with one data server; killed on drop.
pub struct Up {
    process: Child,
    /// Address of its metaserver.
    pub nfs: SocketAddr,
    /// Address of its data server.
    pub data: SocketAddr,
    /// Address of its metrics page.
    pub admin: SocketAddr,
    folder: TempDir,
}

impl Up {
    /// Starts the process, and waits until it is ready.
    ///
    /// # Panics
    /// If it does not become ready.
    #[track_caller]
    pub fn start() -> Up {
        let folder = tempfile::Builder::new().prefix("heorot-up.").tempdir().unwrap();
        let ports = free_ports(3);
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let [nfs, data, admin] = [at(ports.start), at(ports.start + 1), at(ports.end - 1)];
        let binary = std::env::var_os("HEOROT_BIN").map_or_else(
            || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release/heorot"),
            PathBuf::from,
        );
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let process = Command::new("setpriv")
            .args(["--pdeathsig", "KILL"])
            .arg(binary)
            .args(["up", "--data-servers", "1", "--data"])
            .arg(folder.path().join("data"))
            .args(["--listen", &nfs.to_string(), "--admin", &admin.to_string()])
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let up = Up { process, nfs, data, admin, folder };
        let began = Instant::now();
        while !up.log().lines().any(|line| line == "ready") {
            assert!(began.elapsed() < PATIENCE, "heorot up is not ready:\n{}", up.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        up
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Whole log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Peak memory of the process, in bytes.
    ///
    /// # Panics
    /// If the process has ended.
    #[track_caller]
    pub fn most_memory(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
