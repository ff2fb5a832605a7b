//! Removal of a lab from the machine: the same way whether its driver ended, was interrupted, or was
//! killed and another one cleans up after it.
//!
//! ```text
//! hrt3              the bridge of 10.77.3.0/24; its alias is the process that made it, so it is also the claim
//! hrt3c10 hrt3i10   the tap of client 10.77.3.10, and what shapes what it sends
//! hrt3s100          the machine's end of server 10.77.3.100's link
//! hrt3-100          that server's namespace, in /run/netns
//! /var/tmp/heorot-lab.PID.XXXX     everything that is written
//! ```
//!
//! Servers and clients are told to die with the thread that started them. What a client's kernel ran stays,
//! stopped for ever, and so may what somebody else started in a namespace: they are looked for.

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

/// Where a namespace can be entered.
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

/// `None` also for a bridge whose maker has not written its name on it yet.
fn owner(subnet: u8) -> Option<String> {
    let alias = fs::read_to_string(Path::new(LINKS).join(bridge(subnet)).join("ifalias")).ok()?;
    Some(alias.trim().to_owned()).filter(|pid| !pid.is_empty())
}

fn is_alive(pid: &str) -> bool {
    Path::new("/proc").join(pid).exists()
}

/// Namespaces with what runs in them, then links, and the bridge last: it is the claim, so that nobody else
/// takes the subnet before all is gone, and that all is found if we are killed on the way.
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

/// The command lines of a client's processes are its kernel's own, or have it in one word, with the lab's
/// folder in it, which no other process has.
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
