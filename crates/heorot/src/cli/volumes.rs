//! Commands for volumes.

use clap::Subcommand;
use host::size;

use crate::admin::place::AdminArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum VolumeCommand {
    /// Show all volumes, and how far the removal of others is
    List {
        #[command(flatten)]
        admin: AdminArgs,
        /// As JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Show one volume
    Show {
        /// Its path
        path: String,
        #[command(flatten)]
        admin: AdminArgs,
        /// As JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Make a volume: an empty directory for clients, with a file system id of its own
    Create {
        /// Path of its root: a new name in a directory that is there
        path: String,
        /// Stripe unit of its files [default: as in the directory above, as the next three]
        #[arg(long, value_name = "SIZE", value_parser = size::parse)]
        unit: Option<u64>,
        /// Over how many targets a file is striped; 0: over all
        #[arg(long, value_name = "N")]
        columns: Option<u32>,
        /// On how many data servers each byte is kept, 1 to 3; 0: as many as the pool says
        #[arg(long, value_name = "N")]
        copies: Option<u32>,
        /// On which targets: those of this pool
        #[arg(long, value_name = "POOL")]
        pool: Option<String>,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Set how new files of a volume are striped: heorot stripe set, for a volume's root
    #[command(group = clap::ArgGroup::new("what").required(true).multiple(true))]
    Set {
        /// Its path
        path: String,
        /// Stripe unit of its new files [default: as it is now, as the next three]
        #[arg(long, value_name = "SIZE", value_parser = size::parse, group = "what")]
        unit: Option<u64>,
        /// Over how many targets a file is striped; 0: over all
        #[arg(long, value_name = "N", group = "what")]
        columns: Option<u32>,
        /// On how many data servers each byte is kept, 1 to 3; 0: as many as the pool says
        #[arg(long, value_name = "N", group = "what")]
        copies: Option<u32>,
        /// On which targets: those of this pool
        #[arg(long, value_name = "POOL", group = "what")]
        pool: Option<String>,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Make a volume that begins as a snapshot, and shares its data until they are written
    Clone {
        /// Path of a volume, and name of a snapshot of it
        #[arg(value_name = "VOLUME@NAME")]
        snapshot: String,
        /// Path of the clone's root: a new name in a directory that is there
        path: String,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// End what a clone shares with its snapshot: all that it has not written is copied
    Promote {
        /// Its path
        path: String,
        /// Return when that is done
        #[arg(long)]
        wait: bool,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Put a volume at another path of the volume that it is in; clients keep their open files
    Rename {
        /// Its path
        path: String,
        /// Its new path
        to: String,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Remove a volume: at once for clients, and its files are deleted after that
    Remove {
        /// Its path
        path: String,
        /// Also if it has files, or clients have some of them open
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        admin: AdminArgs,
    },
}
