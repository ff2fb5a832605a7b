//! Commands for quotas.

use std::time::Duration;

use clap::Subcommand;
use host::{size, time};

use crate::admin::place::AdminArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum QuotaCommand {
    /// Show what volumes have and may have, and users and groups in them that are counted
    Report {
        /// Path of one volume [default: all volumes]
        path: Option<String>,
        #[command(flatten)]
        admin: AdminArgs,
        /// As JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Set limits of a volume, or of a user or group in it; the first limit of a user or group has all be counted
    #[command(group = clap::ArgGroup::new("limit").required(true).multiple(true))]
    Set {
        /// Path of the volume
        path: String,
        /// Of this user: name or number
        #[arg(long, value_name = "USER", conflicts_with = "group")]
        user: Option<String>,
        /// Of this group: name or number
        #[arg(long, value_name = "GROUP")]
        group: Option<String>,
        /// Bytes that are not exceeded, as du counts them, each once however many copies there are; 0: no limit
        #[arg(long, value_name = "SIZE", value_parser = size::parse, group = "limit")]
        bytes: Option<u64>,
        /// Bytes that may be exceeded for a time; 0: no limit
        #[arg(long, value_name = "SIZE", value_parser = size::parse, group = "limit")]
        soft_bytes: Option<u64>,
        /// Number of files, directories and all else; 0: no limit
        #[arg(long, value_name = "N", group = "limit")]
        files: Option<u64>,
        /// The same, which may be exceeded for a time; 0: no limit
        #[arg(long, value_name = "N", group = "limit")]
        soft_files: Option<u64>,
        /// Time above a soft limit after which it is as a hard one [default: 7d]
        #[arg(long, value_name = "TIME", value_parser = time::parse, group = "limit")]
        grace: Option<Duration>,
        #[command(flatten)]
        admin: AdminArgs,
    },
}
