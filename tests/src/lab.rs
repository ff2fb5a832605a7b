//! The network between clients and servers, and the folder for everything that a test writes on the host.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;

use crate::Client;

/// Not under /tmp: each client has a /tmp of its own there, in memory.
const FOLDERS: &str = "/var/tmp";
const FOLDER_PREFIX: &str = "heorot-lab.";
const FIRST_CLIENT_HOST: u8 = 10;

/// Kernels and servers of two tests at once would fight for two cores and run into each other's time-outs.
static ONE_LAB_AT_A_TIME: Mutex<()> = Mutex::new(());

/// One test's network and folder. Other processes may have labs at the same time.
pub struct Lab {
    subnet: u8,
    next_client: AtomicU8,
    folder: TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Lab {
    /// A bridge on a free 10.77.x.0/24 and an empty folder. Waits for the lab of another test in this process.
    ///
    /// # Panics
    /// If this machine lacks something: `make setup` provides it.
    #[track_caller]
    pub fn open() -> Lab {
        let turn = ONE_LAB_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        require("linux.uml");
        require("ip");
        require("mount.nfs");
        remove_folders_of_the_dead();
        let folder = tempfile::Builder::new()
            .prefix(&format!("{FOLDER_PREFIX}{}.", std::process::id()))
            .tempdir_in(FOLDERS)
            .unwrap_or_else(|e| panic!("make a folder in {FOLDERS}: {e}"));
        let subnet = claim_subnet();
        let lab = Lab { subnet, next_client: AtomicU8::new(FIRST_CLIENT_HOST), folder, _turn: turn };
        ip(&format!("addr add {}/24 dev {}", lab.address(), lab.bridge()));
        ip(&format!("link set {} up", lab.bridge()));
        lab
    }

    /// The address of this machine, where the servers listen, as clients see it.
    pub fn address(&self) -> Ipv4Addr {
        self.host(1)
    }

    /// A place for the test's own files on this machine: data directories, logs. Clients can read it, not write it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Boots a client machine: a Linux kernel with the host name `name` and an address of its own.
    #[track_caller]
    pub fn client(&self, name: &str) -> Client {
        let number = self.next_client.fetch_add(1, Ordering::Relaxed);
        let tap = format!("{}c{number}", self.bridge());
        ip(&format!("tuntap add {tap} mode tap"));
        ip(&format!("link set {tap} master {} up", self.bridge()));
        Client::boot(name, self.host(number), &tap, &self.folder().join(name))
    }

    fn bridge(&self) -> String {
        bridge_name(self.subnet)
    }

    fn host(&self, number: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, self.subnet, number)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        remove_bridge(self.subnet);
    }
}

#[track_caller]
fn require(program: &str) {
    let found = std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path)
            .chain(["/usr/sbin".into(), "/sbin".into()])
            .any(|dir| dir.join(program).exists())
    });
    assert!(found, "{program} is missing on this machine: run `make setup`");
}

fn bridge_name(subnet: u8) -> String {
    format!("hrt{subnet}")
}

/// The bridge is the claim: making one fails if its name is taken. Its alias says which process owns it, so that
/// what a killed process left behind can be taken over.
#[track_caller]
fn claim_subnet() -> u8 {
    let mut refusal = String::new();
    for subnet in 0..=u8::MAX {
        let bridge = bridge_name(subnet);
        if owner(subnet).is_some_and(|pid| !is_alive(&pid)) {
            remove_bridge(subnet);
        }
        match try_ip(&format!("link add name {bridge} type bridge")) {
            Ok(()) => {
                ip(&format!("link set {bridge} alias {}", std::process::id()));
                return subnet;
            }
            Err(e) => refusal = e,
        }
    }
    panic!("no bridge could be made, not even {refusal}\nAre you root? Run `make setup` if not done yet.");
}

/// `None` also for a bridge whose maker has not written its name on it yet.
fn owner(subnet: u8) -> Option<String> {
    let alias = fs::read_to_string(format!("/sys/class/net/{}/ifalias", bridge_name(subnet))).ok()?;
    Some(alias.trim().to_owned()).filter(|pid| !pid.is_empty())
}

fn is_alive(pid: &str) -> bool {
    Path::new("/proc").join(pid).exists()
}

fn remove_bridge(subnet: u8) {
    let bridge = bridge_name(subnet);
    let taps = fs::read_dir(format!("/sys/class/net/{bridge}/brif")).into_iter().flatten().flatten();
    for tap in taps {
        let _ = try_ip(&format!("link del {}", tap.file_name().to_string_lossy()));
    }
    let _ = try_ip(&format!("link del {bridge}"));
}

fn remove_folders_of_the_dead() {
    let folders: Vec<PathBuf> =
        fs::read_dir(FOLDERS).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    for folder in folders {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let pid = name.strip_prefix(FOLDER_PREFIX).and_then(|rest| rest.split('.').next());
        if pid.is_some_and(|pid| !is_alive(pid)) {
            kill_clients_in(&folder);
            let _ = fs::remove_dir_all(&folder);
        }
    }
}

/// A client's kernel dies with the test that booted it, but the processes that it ran stay, stopped for ever. Their
/// command lines are the kernel's own, with the lab's folder in it, which no other process has.
fn kill_clients_in(folder: &Path) {
    let init = format!("init={}/", folder.display());
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let words = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let ours = words.split(|byte| *byte == 0).any(|word| word.starts_with(init.as_bytes()));
        let pid = process.file_name().to_str().and_then(|name| name.parse().ok());
        if let (true, Some(pid)) = (ours, pid.and_then(rustix::process::Pid::from_raw)) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

#[track_caller]
fn ip(arguments: &str) {
    if let Err(e) = try_ip(arguments) {
        panic!("{e}");
    }
}

fn try_ip(arguments: &str) -> Result<(), String> {
    let output = Command::new("ip")
        .args(arguments.split(' '))
        .output()
        .map_err(|e| format!("ip: {e}: run `make setup`"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("ip {arguments}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
