//! Configuration of `lab run`: a file that a person writes.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use crate::{Error, Link, Result};

/// A lab's experiments: each cluster is built, does all the runs, and is taken down.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Title, in a line.
    pub title: String,
    /// Of every link, in Mbit/s.
    pub mbit: u64,
    /// Of every link, one way.
    #[serde(default)]
    pub delay_ms: f64,
    /// Of each client machine.
    #[serde(default = "Config::memory_mib")]
    pub memory_mib: u32,
    /// As in `mount -o`: `vers=4.2`, `vers=4.1` or `vers=3`.
    #[serde(default = "Config::mount")]
    pub mount: String,
    /// Read-ahead of clients in each file, as `/sys/class/bdi/*/read_ahead_kb`; without it, their kernel's
    /// choice.
    pub read_ahead_kib: Option<u32>,
    /// How much a client has written before it begins to send, as `vm.dirty_background_bytes`; without it, as
    /// their kernel chooses (a tenth of memory).
    pub dirty_background_kib: Option<u32>,
    /// Clusters, built one after the other.
    #[serde(rename = "cluster")]
    pub clusters: Vec<Cluster>,
    /// Runs of each cluster.
    #[serde(rename = "run")]
    pub runs: Vec<Run>,
}

/// One cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// Whose servers.
    pub system: System,
    /// Client machines.
    pub clients: u16,
    /// Of Heorot; ganesha is one server.
    #[serde(default = "Cluster::one")]
    pub metaservers: u16,
    /// Of Heorot; ganesha is one server.
    #[serde(default = "Cluster::one")]
    pub data_servers: u16,
    /// Over how many data servers Heorot stripes a file; all, unless it says so.
    pub stripe_columns: Option<u16>,
    /// How much of a file is on one data server before the next has its turn; without it, as Heorot chooses.
    pub stripe_unit_kib: Option<u32>,
    /// Of each of its links, where it is not [`Config::mbit`]: a large cluster wants slower ones on the same
    /// CPUs.
    pub mbit: Option<u64>,
}

/// Whose servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    /// Ours.
    Heorot,
    /// nfs-ganesha.
    Ganesha,
}

/// Commands that are run at the same time, in `bash`. In them stands
///
/// - `{dir}` for where clients have mounted the file system,
/// - `{json}` for where results are to be written, as `heorot bench` does,
/// - `{clients}` for how many clients there are,
/// - `{address}` for the address at which clients reach what runs on this machine,
///
/// and `heorot` is the one that the lab uses.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// For people.
    pub name: String,
    /// On this machine.
    pub here: Option<String>,
    /// On the first client.
    pub first: Option<String>,
    /// On every client.
    pub each: Option<String>,
    /// When it is given up.
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

    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or says what cannot be.
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
        let idle = |run: &&Run| run.here.is_none() && run.first.is_none() && run.each.is_none();
        if let Some(run) = self.runs.iter().find(idle) {
            return Err(format!("run {:?} has no command: give here, first or each", run.name));
        }
        Ok(())
    }

    /// Every link of a cluster.
    pub fn link(&self, cluster: &Cluster) -> Link {
        Link { mbit: cluster.mbit.unwrap_or(self.mbit), delay: Duration::from_secs_f64(self.delay_ms / 1e3) }
    }
}

impl Cluster {
    fn one() -> u16 {
        1
    }

    /// Over how many data servers a file is striped.
    pub fn columns(&self) -> u16 {
        self.stripe_columns.unwrap_or(self.data_servers).min(self.data_servers)
    }

    /// For people and tables: `Heorot, 3 clients, 2 data servers`.
    pub fn title(&self) -> String {
        let count = |n: u16, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let clients = count(self.clients, "client");
        match self.system {
            System::Heorot => {
                format!("{}, {clients}, {}", self.system.name(), count(self.data_servers, "data server"))
            }
            System::Ganesha => format!("{}, {clients}", self.system.name()),
        }
    }
}

impl System {
    /// Its name for people.
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
