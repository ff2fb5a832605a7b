//! Commands for snapshots.

use clap::Subcommand;

use crate::admin::place::AdminArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotCommand {
    /// Make a snapshot: the volume as it is now, to be read by clients in its directory .snapshot
    Create {
        /// Path of the volume, and name of the snapshot
        #[arg(value_name = "VOLUME@NAME")]
        snapshot: String,
        /// How long to wait for clients that write to files of the volume, in seconds
        #[arg(long, value_name = "SECONDS", default_value_t = 120)]
        timeout: u64,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Show the snapshots of all volumes, or of one
    List {
        /// Path of the volume [default: all volumes]
        volume: Option<String>,
        #[command(flatten)]
        admin: AdminArgs,
        /// As JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Put a volume back to what it was at its newest snapshot; what was changed since is lost
    Rollback {
        /// Path of the volume, and name of the snapshot
        #[arg(value_name = "VOLUME@NAME")]
        snapshot: String,
        /// Also if clients have files of the volume open: they lose their locks
        #[arg(long)]
        force: bool,
        /// How long to wait for clients that write to files of the volume, and for the end, in seconds
        #[arg(long, value_name = "SECONDS", default_value_t = 600)]
        timeout: u64,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Show or set which snapshots are made regularly, and how many of them are kept
    Schedule {
        /// Path of the volume [default: show the schedules of all]
        volume: Option<String>,
        /// How many are kept of each kind, such as hourly=24,daily=7,weekly=5; none ends the schedule
        #[arg(requires = "volume")]
        keep: Option<String>,
        #[command(flatten)]
        admin: AdminArgs,
        /// As JSON, for programs
        #[arg(long, conflicts_with = "keep")]
        json: bool,
    },
    /// Remove a snapshot; its space is free when no other snapshot needs it
    Remove {
        /// Path of the volume, and name of the snapshot
        #[arg(value_name = "VOLUME@NAME")]
        snapshot: String,
        /// Also if clients have files of it open
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        admin: AdminArgs,
    },
}
