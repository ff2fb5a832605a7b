//! Commands for clients.

use clap::Subcommand;

use crate::admin::place::AdminArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum ClientCommand {
    /// Show the clients of NFSv4, and how many opens, locks, layouts and delegations each has
    List {
        #[command(flatten)]
        admin: AdminArgs,
        /// As JSON, for programs
        #[arg(long)]
        json: bool,
    },
}
