//! Common options of all runs.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::model::{Files, Hardware, HardwareArgs, Load, Setup};
use crate::task::Direction;
use crate::trouble::Trouble;

/// Options that all runs have.
#[derive(Debug, Clone, Args, Serialize)]
#[command(next_help_heading = "Options of all runs")]
pub struct Common {
    /// Compare all that is read with what was written
    #[arg(long)]
    pub verify: bool,
    /// Past the client's page cache (O_DIRECT); otherwise writes end with an fsync, and caches are dropped
    /// before reads
    #[arg(long, conflicts_with = "warm")]
    pub direct: bool,
    /// Leave the client's caches as they are before reads, and report also what came from them
    #[arg(long)]
    pub warm: bool,
    /// What the data are made from, and the order of random records [default: the time]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Run this by sh before each phase that is measured, whose name is in HEOROT_BENCH_PHASE: to drop the
    /// servers' caches, for example
    #[arg(long, value_name = "COMMAND")]
    pub before: Option<String>,
    /// Leave the folder that it worked in
    #[arg(long)]
    pub keep: bool,
    /// Work in this folder below DIR, made if it is not there, and leave it [default: one of its own]
    // It may have other things in it, so it is never cleared.
    #[arg(long, value_name = "NAME", requires = "keep")]
    pub folder: Option<String>,
    /// Measure it although nothing is mounted there
    #[arg(long)]
    #[serde(skip)]
    pub not_a_mount: bool,
    /// What else each result is at, such as servers=4; may be given several times
    #[arg(long, value_name = "WHAT=N", value_parser = point)]
    #[serde(skip)]
    pub at: Vec<(String, u64)>,
    /// What people call what is measured [default: type and source of the mount]
    #[arg(long, value_name = "TEXT")]
    #[serde(skip)]
    pub name: Option<String>,
    /// Write the results there, too, as JSON
    #[arg(long, short, value_name = "FILE")]
    #[serde(skip)]
    pub output: Option<PathBuf>,
    /// Work with so many machines at once: on each, `heorot bench join ADDR DIR`
    #[arg(long, value_name = "N", requires = "listen", value_parser = clap::value_parser!(u16).range(1..))]
    #[serde(skip)]
    pub agents: Option<u16>,
    /// Where agents come to: an address of this machine, on a network whose machines trust each other
    #[arg(long, value_name = "ADDR[:PORT]", requires = "agents")]
    #[serde(skip)]
    pub listen: Option<String>,
    /// Show no progress
    #[arg(long, short)]
    #[serde(skip)]
    pub quiet: bool,
    /// What each result is held against
    #[command(flatten)]
    #[serde(skip)]
    pub hardware: HardwareArgs,
}

impl Common {
    /// Hardware, if options describe it.
    ///
    /// # Errors
    /// When the description is incomplete or inconsistent.
    pub fn hardware(&self) -> Result<Option<Hardware>, Trouble> {
        if self.hardware.settings().is_empty() {
            return Ok(None);
        }
        let servers = self.at.iter().find(|(what, _)| what == "servers").map(|(_, servers)| *servers);
        if self.hardware.data_servers.or(servers).is_none() {
            return Err(Trouble("what hardware allows depends on --data-servers N: give it, too".into()));
        }
        let mut hardware = self.hardware.hardware();
        hardware.data_servers = self.hardware.data_servers.or(servers).unwrap_or(hardware.data_servers);
        let any = Load { clients: 1, direction: Direction::Read, files: Files::PerClient(1) };
        Setup::new(hardware, any).map_err(|refused| Trouble(refused.to_string()))?;
        Ok(Some(hardware))
    }
}

fn point(text: &str) -> Result<(String, u64), String> {
    let parsed = text.split_once('=').and_then(|(what, n)| Some((what.to_owned(), n.parse().ok()?)));
    parsed.filter(|(what, _)| !what.is_empty()).ok_or_else(|| format!("{text:?} is not such as servers=4"))
}
