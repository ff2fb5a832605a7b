//! Removal of a lab from the machine, the same after its driver's end, after an interrupt, and for the
//! remains of a killed driver.
//!
//! ```text
//! hrt3              bridge of 10.77.3.0/24, and the claim; its alias is the process id of its owner
//! hrt3c10 hrt3i10   tap of client 10.77.3.10, and its shaping device
//! hrt3s100          host end of server 10.77.3.100's link
//! hrt3-100          that server's namespace, in /run/netns
//! /var/tmp/heorot-lab.PID.XXXX     all files
//! ```
//!
//! Servers and clients are killed when the thread that started them ends. Stopped processes of a client's
//! kernel may remain, and processes that another program started in a namespace: the removal searches for
//! them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use crate::command::ip;

/// Not under /tmp: each client has a /tmp of its own there, in memory.
pub(crate) const FOLDERS: &str = "/var/tmp";
pub(crate) const FOLDER_PREFIX: &str = "heorot-lab.";
const NAMESPACES: &str = "/run/netns";
const LINKS: &str = "/sys/class/net";
const BRIDGE_PREFIX: &str = "hrt";

pub(crate) fn bridge(subnet: u8) -> String {
    format!("{BRIDGE_PREFIX}{subnet}")
}

/// Path of a namespace.
pub(crate) fn namespace_path(namespace: &str) -> PathBuf {
    Path::new(NAMESPACES).join(namespace)
}

/// Removes the networks, processes and folders of labs whose driver is gone.
pub fn remove_those_of_the_dead() {
    for subnet in 0..=u8::MAX {
        if owner(subnet).is_some_and(|pid| !is_alive(&pid)) {
            remove_network(subnet);
        }
    }
    for folder in paths(FOLDERS) {
        let name = file_name(&folder);
        let pid = name.strip_prefix(FOLDER_PREFIX).and_then(|rest| rest.split('.').next());
        if pid.is_some_and(|pid| !is_alive(pid)) {
            kill_clients_in(&folder);
            let _ = fs::remove_dir_all(&folder);
        }
    }
}

/// Process id of a bridge's owner; `None` also for a bridge without an alias yet.
fn owner(subnet: u8) -> Option<String> {
    let alias = fs::read_to_string(Path::new(LINKS).join(bridge(subnet)).join("ifalias")).ok()?;
    Some(alias.trim().to_owned()).filter(|pid| !pid.is_empty())
}

fn is_alive(pid: &str) -> bool {
    Path::new("/proc").join(pid).exists()
}

/// Removes namespaces with their processes, then links, and the bridge last: it is the claim, so that no
/// other process takes the subnet before, and that the next lab finds the remains after a kill.
pub(crate) fn remove_network(subnet: u8) {
    let bridge = bridge(subnet);
    let ours = format!("{bridge}-");
    for namespace in names(NAMESPACES).into_iter().filter(|name| name.starts_with(&ours)) {
        for pid in pids_in(&namespace) {
            let _ = kill_process(pid, Signal::KILL);
        }
        let _ = ip(&format!("netns del {namespace}"));
    }
    let ours = |name: &String| {
        let rest = name.strip_prefix(bridge.as_str()).and_then(|rest| rest.chars().next());
        rest.is_some_and(|letter| letter.is_ascii_lowercase())
    };
    for link in names(LINKS).into_iter().filter(ours) {
        let _ = ip(&format!("link del {link}"));
    }
    let _ = ip(&format!("link del {bridge}"));
}

fn pids_in(namespace: &str) -> Vec<Pid> {
    let output = Command::new("ip").args(["netns", "pids", namespace]).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).filter_map(Pid::from_raw).collect()
}

/// Kills the processes of clients. Their command lines have the word `init=` with the lab's folder, which no
/// other process has.
pub(crate) fn kill_clients_in(folder: &Path) {
    let init = format!("init={}/", folder.display());
    for process in paths("/proc") {
        let line = fs::read(process.join("cmdline")).unwrap_or_default();
        let words = line.split(|byte| matches!(byte, 0 | b' '));
        let ours = words.into_iter().any(|word| word.starts_with(init.as_bytes()));
        let pid = file_name(&process).parse().ok();
        if let (true, Some(pid)) = (ours, pid.and_then(Pid::from_raw)) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

fn paths(folder: &str) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn names(folder: &str) -> Vec<String> {
    paths(folder).iter().map(|path| file_name(path)).collect()
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
