//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use bench::model::ModelArgs;
use clap::{Args, Parser, Subcommand};

use crate::listen::ListenAddress;
use host::size;

/// Where the admin interface of a metaserver is, unless told otherwise.
pub(crate) const ADMIN_DEFAULT: &str = "127.0.0.1:20490";

/// Heorot: a cluster file system that every Linux machine can mount.
#[derive(Debug, Parser)]
#[command(version, about, disable_help_subcommand = true)]
#[command(after_help = "Try it: heorot up, then mount as it says.\n\
    Environment: HEOROT_LOG sets what is logged, such as info (the default), debug, or nfs=trace,info.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub command: Command,
    /// Log as JSON, one object a line
    #[arg(long, global = true)]
    pub log_json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a whole cluster on this machine: a metaserver and some data servers
    Up(UpArgs),
    /// Run a metaserver
    Mds(ConfigArgs),
    /// Run a data server
    Ds(ConfigArgs),
    /// Show servers, targets and how evenly they are filled
    Status(StatusArgs),
    /// Show the servers of the cluster, drain them, or remove them
    #[command(subcommand)]
    Node(NodeCommand),
    /// Show which metaserver leads, or have another one lead
    Leader(LeaderArgs),
    /// Write all metadata to a file, while the metaserver runs
    Backup(BackupArgs),
    /// Make a metaserver's directory from a backup, for a new cluster of one metaserver, which others then join
    Restore(RestoreArgs),
    /// Show or set how new files in a directory are striped
    #[command(subcommand)]
    Stripe(StripeCommand),
    /// Find objects that no file owns, and remove them, now
    Clean(CleanArgs),
    /// Check a configuration file of a metaserver or a data server
    CheckConfig(CheckConfigArgs),
    /// Measure a file system: this one or any other that is mounted
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Say what hardware allows: how fast N clients can read or write, what binds, and what would double it
    Model(ModelArgs),
}

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// Where everything is kept; made if it is not there
    #[arg(long, value_name = "DIR", default_value = "heorot-data")]
    pub data: PathBuf,
    /// How many data servers; when started again, as many as before [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub data_servers: Option<u16>,
    /// Address of the metaserver; data server i listens on the port after it, plus i. On other addresses than
    /// 127.0.0.1, root of a client is squashed and clients must use ports below 1024
    #[arg(long, value_name = "ADDR[:PORT]", default_value = "127.0.0.1:2049")]
    pub listen: ListenAddress,
    /// Root of a client stays root, also on another address than 127.0.0.1: whoever can reach it can do everything
    #[arg(long)]
    pub no_root_squash: bool,
    /// Address of the admin interface and the metrics page
    #[arg(long, value_name = "ADDR:PORT", default_value = ADMIN_DEFAULT)]
    pub admin: SocketAddr,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// The configuration file, TOML; docs/examples has one of each
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct AdminArgs {
    /// The metaserver's admin address
    #[arg(long, value_name = "ADDR:PORT", default_value = ADMIN_DEFAULT)]
    pub admin: SocketAddr,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub admin: AdminArgs,
    /// As JSON, for programs
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// Show all servers: role, state, version, how far each has the log, service addresses
    List(NodeListArgs),
    /// Take a server out of the cluster; a metaserver stops then
    Remove {
        #[command(flatten)]
        node: NodeArgs,
        /// Also if too few metaservers are left that can be reached, or if a data server has objects
        #[arg(long)]
        force: bool,
    },
    /// Give a server nothing new: no service address, no leadership, no new files
    Drain(NodeArgs),
    /// Have a server that drains serve again
    Undrain(NodeArgs),
    /// Give a metaserver that only learns a vote
    Promote(NodeArgs),
    /// Take a metaserver's vote: it still serves
    Demote {
        #[command(flatten)]
        node: NodeArgs,
        /// Also if too few metaservers are left that can be reached
        #[arg(long)]
        force: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct NodeListArgs {
    #[command(flatten)]
    pub admin: AdminArgs,
    /// As JSON, for programs; also those that were removed
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct NodeArgs {
    /// The server's name, or its id
    pub name: String,
    #[command(flatten)]
    pub admin: AdminArgs,
}

#[derive(Debug, Args)]
pub(crate) struct LeaderArgs {
    /// The metaserver that is to lead
    pub name: Option<String>,
    #[command(flatten)]
    pub admin: AdminArgs,
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
    /// Set how new files in and below a directory are striped; files that exist stay as they are
    #[command(group = clap::ArgGroup::new("what").required(true).multiple(true))]
    Set {
        /// Directory in the volume, whose root is "/" wherever a client mounted it
        path: String,
        /// Bytes on one data server before the next: a multiple of 64KiB, such as 1MiB [default: as it is now]
        #[arg(long, value_name = "SIZE", value_parser = size::parse, group = "what")]
        unit: Option<u64>,
        /// Over how many targets a file is striped; 0: over all [default: as it is now]
        #[arg(long, value_name = "N", group = "what")]
        columns: Option<u32>,
        /// As the directory above says
        #[arg(long, conflicts_with_all = ["unit", "columns"], group = "what")]
        inherit: bool,
        #[command(flatten)]
        admin: AdminArgs,
    },
}

#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The file; it is replaced when the backup is whole
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    #[command(flatten)]
    pub admin: AdminArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The backup
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// What will be the metaserver's `data_dir`: an empty directory, or none yet
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// The secret of the cluster that the backup was taken of: only with it are the data servers' objects found
    #[arg(long, value_name = "FILE")]
    pub secret_file: PathBuf,
    /// Take another secret than the backup's cluster had: names, attributes and files of up to 64 KiB are restored, the
    /// data of larger files are not
    #[arg(long)]
    pub other_secret: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CleanArgs {
    #[command(flatten)]
    pub admin: AdminArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CheckConfigArgs {
    /// The file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "there is one of it in a process")]
pub(crate) enum BenchCommand {
    #[command(flatten)]
    Run(bench::run::Run),
    /// Make one page of files of results: tables, plots, each figure beside its bound, systems side by side
    Report(bench::page::ReportArgs),
    /// Work for a run on another machine, which was started there with --agents and --listen
    Join(JoinArgs),
}

#[derive(Debug, Args)]
pub(crate) struct JoinArgs {
    /// Where the run waits for agents: what it was given as --listen
    #[arg(value_name = "ADDR[:PORT]")]
    pub address: String,
    /// What is measured, as this machine sees it: a directory on a mount, or nfs://host[:port]/path?version=4.2
    #[arg(value_name = "DIR|URL")]
    pub target: String,
    /// Measure it although nothing is mounted there
    #[arg(long)]
    pub not_a_mount: bool,
    /// Keep looking for the run for so long, if it does not wait there yet
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=86_400))]
    pub wait: u64,
    /// Say nothing but what went wrong
    #[arg(long, short)]
    pub quiet: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
        let parse = |line: &str| Cli::try_parse_from(line.split(' '));
        assert!(parse("heorot up --data-servers 2 --listen 10.0.0.1").is_ok());
        assert!(parse("heorot up --data-servers 0").is_err());
        assert!(parse("heorot stripe set / --unit 1MiB --columns 4").is_ok());
        assert!(parse("heorot stripe set /").is_err(), "sets nothing");
        assert!(parse("heorot stripe set / --inherit --columns 4").is_err());
        assert!(parse("heorot stripe set / --unit 1mb").is_err());
    }
}
