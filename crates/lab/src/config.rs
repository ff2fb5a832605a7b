//! Configuration file of `lab run`.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use crate::{Error, Link, Result};

/// Experiments of a lab: each cluster is built, executes all runs, and is removed.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Title in one line.
    pub title: String,
    /// Speed of every link, in Mbit/s.
    pub mbit: u64,
    /// Delay of every link in one direction, in milliseconds.
    #[serde(default)]
    pub delay_ms: f64,
    /// Memory of each client machine.
    #[serde(default = "Config::memory_mib")]
    pub memory_mib: u32,
    /// Mount options, as in `mount -o`: `vers=4.2`, `vers=4.1` or `vers=3`.
    #[serde(default = "Config::mount")]
    pub mount: String,
    /// Read-ahead of clients for each file (`/sys/class/bdi/*/read_ahead_kb`); default: the kernel's.
    pub read_ahead_kib: Option<u32>,
    /// Dirty bytes at which a client begins to write back (`vm.dirty_background_bytes`); default: the
    /// kernel's, a tenth of memory.
    pub dirty_background_kib: Option<u32>,
    /// Clusters, built one after the other.
    #[serde(rename = "cluster")]
    pub clusters: Vec<Cluster>,
    /// Runs of each cluster.
    #[serde(rename = "run")]
    pub runs: Vec<Run>,
}

/// Cluster of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// Server software.
    pub system: System,
    /// Number of client machines.
    pub clients: u16,
    /// Number of metaservers of Heorot; ganesha has one server.
    #[serde(default = "Cluster::one")]
    pub metaservers: u16,
    /// Number of data servers of Heorot; ganesha has one server.
    #[serde(default = "Cluster::one")]
    pub data_servers: u16,
    /// Number of data servers over which Heorot stripes a file; default: all.
    pub stripe_columns: Option<u16>,
    /// Number of data servers that keep each byte of a file of Heorot.
    #[serde(default = "Cluster::one")]
    pub copies: u16,
    /// Stripe unit; default: Heorot's.
    pub stripe_unit_kib: Option<u32>,
    /// Speed of each link, in place of [`Config::mbit`]: a large cluster needs slower links on the same CPUs.
    pub mbit: Option<u64>,
}

/// Server software.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    /// Heorot.
    Heorot,
    /// nfs-ganesha.
    Ganesha,
}

/// Commands that run at the same time, in `bash`. Placeholders:
///
/// - `{dir}`: mount point of the file system on clients,
/// - `{json}`: file for results, written by `heorot bench`,
/// - `{clients}`: number of clients,
/// - `{address}`: address at which clients reach programs on this machine.
///
/// The command `heorot` is the program that the lab uses.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Name, for people.
    pub name: String,
    /// Command on this machine.
    pub here: Option<String>,
    /// Command on the first client.
    pub first: Option<String>,
    /// Command on every client.
    pub each: Option<String>,
    /// Time limit in minutes.
    #[serde(default = "Run::minutes_max")]
    pub minutes_max: u64,
}

impl Config {
    fn memory_mib() -> u32 {
        256 // a kernel, its NFS client, and page cache for what is on its way
    }

    fn mount() -> String {
        "vers=4.2".into()
    }

    /// Reads a configuration file.
    ///
    /// # Errors
    /// When the file cannot be read, or is invalid.
    pub fn read(file: &Path) -> Result<Config> {
        let text = std::fs::read_to_string(file).map_err(Error::file("read", file))?;
        let wrong = |why: String| Error::Impossible(format!("{}: {why}", file.display()));
        let config: Config = toml::from_str(&text).map_err(|e| wrong(e.to_string()))?;
        config.check().map_err(wrong)?;
        Ok(config)
    }

    fn check(&self) -> std::result::Result<(), String> {
        let versions = ["vers=4.2", "vers=4.1", "vers=3"];
        if !versions.contains(&self.mount.as_str()) {
            return Err(format!("mount = {:?}: it is one of {}", self.mount, versions.join(", ")));
        }
        if !(0.0..=1000.0).contains(&self.delay_ms) {
            return Err(format!("delay_ms = {}: it is 0 to 1000", self.delay_ms));
        }
        if self.clusters.iter().any(|cluster| cluster.clients == 0) {
            return Err("clients = 0: a run needs at least 1".into());
        }
        if let Some(cluster) = self.clusters.iter().find(|c| !(1..=c.data_servers).contains(&c.copies)) {
            let (copies, servers) = (cluster.copies, cluster.data_servers);
            return Err(format!("copies = {copies}: it is 1 to {servers}, the number of data servers"));
        }
        let idle = |run: &&Run| run.here.is_none() && run.first.is_none() && run.each.is_none();
        if let Some(run) = self.runs.iter().find(idle) {
            return Err(format!("run {:?} has no command: give here, first or each", run.name));
        }
        Ok(())
    }

    /// Links of a cluster.
    pub fn link(&self, cluster: &Cluster) -> Link {
        Link { mbit: cluster.mbit.unwrap_or(self.mbit), delay: Duration::from_secs_f64(self.delay_ms / 1e3) }
    }
}

impl Cluster {
    fn one() -> u16 {
        1
    }

    /// Number of data servers over which a file is striped.
    pub fn columns(&self) -> u16 {
        self.stripe_columns.unwrap_or(self.data_servers).min(self.data_servers)
    }

    /// Title for tables: `Heorot, 3 clients, 2 data servers`.
    pub fn title(&self) -> String {
        let count = |n: u16, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let clients = count(self.clients, "client");
        match self.system {
            System::Heorot => {
                let servers = count(self.data_servers, "data server");
                let copies =
                    if self.copies == 1 { String::new() } else { format!(", {} copies", self.copies) };
                format!("{}, {clients}, {servers}{copies}", self.system.name())
            }
            System::Ganesha => format!("{}, {clients}", self.system.name()),
        }
    }
}

impl System {
    /// Name for tables.
    pub fn name(self) -> &'static str {
        match self {
            System::Heorot => "Heorot",
            System::Ganesha => "nfs-ganesha",
        }
    }
}

impl Run {
    fn minutes_max() -> u64 {
        10
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> std::result::Result<Config, String> {
        let config: Config = toml::from_str(text).map_err(|e| e.to_string())?;
        config.check().map(|()| config)
    }

    #[test]
    fn a_mistake_is_named() {
        let good = "title = 'x'\nmbit = 100\n[[cluster]]\nsystem = 'heorot'\nclients = 1\n\
                    [[run]]\nname = 'r'\nfirst = 'true'\n";
        assert_eq!(parse(good).unwrap().clusters[0].data_servers, 1);
        for (from, to, said) in [
            ("clients = 1", "clients = 0", "clients = 0"),
            ("clients = 1", "clients = 1\nfoo = 2", "unknown field `foo`"),
            ("clients = 1", "clients = 1\ncopies = 2", "copies = 2"),
            ("'heorot'", "'lustre'", "unknown variant `lustre`"),
            ("first = 'true'", "", "no command"),
            ("mbit = 100", "mbit = 100\nmount = 'vers=2'", "vers=4.2"),
            ("mbit = 100", "mbit = 100\ndelay_ms = -1", "delay_ms = -1"),
        ] {
            let refused = parse(&good.replace(from, to)).unwrap_err();
            assert!(refused.contains(said), "{refused}");
        }
    }
}
