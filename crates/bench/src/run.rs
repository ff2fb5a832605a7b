//! Runs, one in each file, with its options, their defaults, and its phases.
//!
//! A run has tasks for workers and does not depend on threads or machines. [`crate::session`] executes it.

mod check;
mod cluster;
mod io500;
mod list;
mod mdtest;
mod metadata_miss;
mod place;
mod processes;
mod ranks;
mod record_size;
mod separate_write;
mod shared_read;
mod small_files;
mod transfer_size;

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use serde::Serialize;

use cluster::Cluster;
use io500::Io500;
pub use list::Counts;
use mdtest::Mdtest;
use metadata_miss::MetadataMiss;
pub use place::Place;
use processes::Processes;
use record_size::RecordSize;
use separate_write::SeparateWrite;
use shared_read::SharedRead;
use small_files::SmallFiles;
use transfer_size::TransferSize;

use crate::common::Common;
use crate::phase::{AgentDone, Phase};
use crate::result::Measurement;
use crate::trouble::Trouble;

/// Plan of a run, made from its options.
pub trait Plan: Settings {
    /// Phases, in order.
    ///
    /// # Errors
    /// Inconsistent options: one line with valid ones.
    fn phases(&self, place: &Place) -> Result<Vec<Phase>, Trouble>;

    /// Next phases, if they depend on the results of the previous ones; empty: the run is over.
    ///
    /// # Errors
    /// As [`Plan::phases`].
    fn more(&self, _place: &Place, _done: &[(Phase, Vec<AgentDone>)]) -> Result<Vec<Phase>, Trouble> {
        Ok(vec![])
    }

    /// Scores of all measurements, for runs that have scores.
    fn scores(&self, _measurements: &[Measurement]) -> BTreeMap<String, f64> {
        BTreeMap::new()
    }
}

/// All runs.
#[derive(Debug, Subcommand)]
pub enum Run {
    /// One client, one file, records of several sizes: write, rewrite, read, reread, random read and write
    RecordSize(Of<RecordSize>),
    /// One client, more and more processes, a file for each
    Processes(Of<Processes>),
    /// More and more clients, each with a file of its own or with a part of one file
    Cluster(Of<Cluster>),
    /// More and more clients that read the same file
    SharedRead(Of<SharedRead>),
    /// More and more clients that write a file each
    SeparateWrite(Of<SeparateWrite>),
    /// One file decomposed over more and more clients, in transfers of several sizes
    TransferSize(Of<TransferSize>),
    /// One client makes empty files, and clients of other metaservers read them
    MetadataMiss(Of<MetadataMiss>),
    /// Create, stat, list, rename and unlink files in trees of directories
    Mdtest(Of<Mdtest>),
    /// A source tree: unpack, stat walk, read all, remove
    SmallFiles(Of<SmallFiles>),
    /// The phases and the score of the IO500
    Io500(Of<Io500>),
}

/// Where a run works, and how.
#[derive(Debug, Args)]
pub struct Of<R: Args> {
    /// What is measured: a directory on a mount, or nfs://host[:port]/path?version=4.2, which needs no mount;
    /// agents (--agents) name their own
    #[arg(value_name = "DIR|URL", required_unless_present = "agents", conflicts_with = "agents")]
    pub target: Option<String>,
    /// The same for all runs.
    #[command(flatten)]
    pub common: Common,
    #[command(flatten, next_help_heading = "Options of this run")]
    run: R,
}

impl Run {
    /// Name, target (unless agents have it), common options, and plan of the run.
    #[must_use]
    pub fn parts(&self) -> (&'static str, Option<&str>, &Common, &dyn Plan) {
        match self {
            Self::RecordSize(of) => of.parts("record-size"),
            Self::Processes(of) => of.parts("processes"),
            Self::Cluster(of) => of.parts("cluster"),
            Self::SharedRead(of) => of.parts("shared-read"),
            Self::SeparateWrite(of) => of.parts("separate-write"),
            Self::TransferSize(of) => of.parts("transfer-size"),
            Self::MetadataMiss(of) => of.parts("metadata-miss"),
            Self::Mdtest(of) => of.parts("mdtest"),
            Self::SmallFiles(of) => of.parts("small-files"),
            Self::Io500(of) => of.parts("io500"),
        }
    }
}

impl<R: Args + Plan> Of<R> {
    fn parts(&self, name: &'static str) -> (&'static str, Option<&str>, &Common, &dyn Plan) {
        (name, self.target.as_deref(), &self.common, &self.run)
    }
}

/// Options as text, by name, for the file of results. Implemented for all `Serialize` types.
pub trait Settings {
    /// Text of each option.
    fn settings(&self) -> BTreeMap<String, String>;
}

impl<T: Serialize> Settings for T {
    fn settings(&self) -> BTreeMap<String, String> {
        let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(self) else {
            return BTreeMap::new();
        };
        let text = |value: serde_json::Value| match value {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        };
        fields.into_iter().map(|(name, value)| (name, text(value))).collect()
    }
}
