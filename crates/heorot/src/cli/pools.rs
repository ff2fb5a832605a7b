//! Commands for pools, and for the stripes of directories.

use clap::Subcommand;
use host::size;

use crate::admin::place::AdminArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum PoolCommand {
    /// Show all pools: the default one has the targets that no other has
    List {
        #[command(flatten)]
        admin: AdminArgs,
        /// As JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Make a pool without targets
    Create {
        /// Its name
        name: String,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Set what holds in a pool instead of the cluster's settings
    #[command(group = clap::ArgGroup::new("rule").required(true).multiple(true))]
    Set {
        /// Its name
        name: String,
        /// Copies of new files whose directory names no number, 1 to 3; 0: as heorot set stripe_copies says
        #[arg(long, value_name = "N", group = "rule")]
        copies: Option<u8>,
        /// When blocks are compared with their sums: read, scrub, or default: as heorot set verify says
        #[arg(long, value_name = "WHEN", group = "rule")]
        verify: Option<String>,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Put storage targets into a pool, out of the ones that they are in; copies on them move to those that stay
    Add {
        /// The pool; "default": out of all others
        name: String,
        /// Each its id, or its data server and directory: ds1:/data/sdb; or a data server: ds1, with all of its targets
        #[arg(required = true, value_name = "TARGET")]
        targets: Vec<String>,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Remove a pool that has no targets, and that no directory names
    Remove {
        /// Its name
        name: String,
        #[command(flatten)]
        admin: AdminArgs,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum StripeCommand {
    /// Show how new files in a directory are striped, and which directory says so
    Get {
        /// Directory in the volume, whose root is "/" wherever a client mounted it
        path: String,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Set how new files in and below a directory are striped; heorot stripe apply gives older ones copies
    #[command(group = clap::ArgGroup::new("what").required(true).multiple(true))]
    Set {
        /// Directory in the volume, whose root is "/" wherever a client mounted it
        path: String,
        /// Bytes on one data server before the next: a multiple of 64KiB, such as 1MiB [default: as it is
        /// now]
        #[arg(long, value_name = "SIZE", value_parser = size::parse, group = "what")]
        unit: Option<u64>,
        /// Over how many targets a file is striped; 0: over all [default: as it is now]
        #[arg(long, value_name = "N", group = "what")]
        columns: Option<u32>,
        /// On how many data servers each byte is kept, 1 to 3; 0: as many as the pool says [default: as it is now]
        #[arg(long, value_name = "N", group = "what")]
        copies: Option<u32>,
        /// On which targets: those of this pool [default: as it is now]
        #[arg(long, value_name = "POOL", group = "what")]
        pool: Option<String>,
        /// As the directory above says
        #[arg(long, conflicts_with_all = ["unit", "columns", "copies", "pool"], group = "what")]
        inherit: bool,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Give files that have fewer copies those that new files have, in and below a directory, while they are in use
    Apply {
        /// Directory in the volume, whose root is "/" wherever a client mounted it
        path: String,
        #[command(flatten)]
        admin: AdminArgs,
    },
}
