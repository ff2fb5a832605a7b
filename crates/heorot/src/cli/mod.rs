//! The command line.

pub(crate) mod bench_program;
mod boot;
mod clients;
#[cfg(test)]
mod documented;
pub(crate) mod manual;
mod pools;
mod quotas;
pub(crate) mod settings;
mod setup;
mod snapshots;
pub(crate) mod table;
mod volumes;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::admin::place::AdminArgs;
use crate::cli::bench_program::BenchProgramArgs;
pub(crate) use crate::cli::boot::{
    BootCommand, BootNodeCommand, GroupCommand, ImageCommand, LoaderCommand, RootArgs,
};
pub(crate) use crate::cli::clients::ClientCommand;
use crate::cli::manual::{CompletionsArgs, ManArgs};
pub(crate) use crate::cli::pools::{PoolCommand, StripeCommand};
pub(crate) use crate::cli::quotas::QuotaCommand;
pub(crate) use crate::cli::settings::{ExportCommand, GetArgs, ServiceAddressCommand, SetArgs};
pub(crate) use crate::cli::setup::{InitArgs, NODE_DIR, NodeJoinArgs, NodeSetupArgs, Role, RunArgs};
pub(crate) use crate::cli::snapshots::SnapshotCommand;
pub(crate) use crate::cli::volumes::VolumeCommand;
use crate::commands::token::TokenArgs;
use crate::node::listen::ListenAddress;

/// Default directory of `heorot up`.
pub(crate) const UP_DIR: &str = "heorot-data";
/// Default address of a metaserver's metrics page.
pub(crate) const ADMIN_DEFAULT: &str = "127.0.0.1:20490";

/// Heorot: a cluster file system that every Linux machine can mount.
#[derive(Debug, Parser)]
#[command(version, about)]
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
    /// Begin a cluster of several machines: makes the first node's files
    Init(InitArgs),
    /// Make this machine a node of a cluster: makes its files
    Join(NodeJoinArgs),
    /// Make a token for heorot join, or list or revoke those that were made
    Token(TokenArgs),
    /// Run a node: all that its directory says
    Run(RunArgs),
    /// Run a metaserver
    Mds(ConfigArgs),
    /// Run a data server, or have it obey a restored group of metaservers
    Ds(DsArgs),
    /// Show servers, targets and how evenly they are filled
    Status(StatusArgs),
    /// Show the servers of the cluster, drain them, or remove them
    #[command(subcommand)]
    Node(NodeCommand),
    /// Show storage targets, add one, drain one, or declare one lost whose disk is gone for good
    #[command(subcommand)]
    Target(TargetCommand),
    /// Show or change pools: sets of storage targets, such as all flash disks, that directories choose
    #[command(subcommand)]
    Pool(PoolCommand),
    /// Move data to emptier targets now: have the leader look at once; that also happens by itself, with pauses
    #[command(after_help = "Examples:\n\
        \x20 heorot rebalance          begins, and shows the fullest and the emptiest target of each pool\n\
        \x20 heorot rebalance --wait   stays until all pools are even, or nothing more can move, and says why\n\
        Ctrl-C ends the wait only: chains move on.\n\
        With --wait, the exit status is 0 if all pools are even, else 1.")]
    Rebalance(RebalanceArgs),
    /// List the files that have data on a data server or a storage target
    Files(FilesArgs),
    /// Show which metaserver leads, or have another one lead
    Leader(LeaderArgs),
    /// Write all metadata to a file, while the metaserver runs
    Backup(BackupArgs),
    /// Make a metaserver's directory from a backup, for a new cluster of one metaserver, which others then
    /// join
    Restore(RestoreArgs),
    /// Show or set how new files in a directory are striped
    #[command(subcommand)]
    Stripe(StripeCommand),
    /// Show, make or remove volumes: trees with a file system id of their own, at any place in the name space
    #[command(subcommand)]
    Volume(VolumeCommand),
    /// Show clients, and what they have open, locked and delegated
    #[command(subcommand)]
    Client(ClientCommand),
    /// Show what volumes, users and groups have, or set how much they may have
    #[command(subcommand)]
    Quota(QuotaCommand),
    /// Show, make, schedule or remove snapshots of volumes, or put a volume back to one
    #[command(subcommand)]
    Snapshot(SnapshotCommand),
    /// Boot machines without a disk from images: import images, add nodes, assign a version, go back
    #[command(subcommand)]
    Boot(BootCommand),
    /// Show or change exports: the directories that clients may mount, their networks and rules
    #[command(subcommand)]
    Export(ExportCommand),
    /// Show or change the addresses that clients mount and that move to a metaserver that lives
    #[command(subcommand)]
    ServiceAddress(ServiceAddressCommand),
    /// Change a setting of the whole cluster; heorot get shows the settings
    Set(SetArgs),
    /// Show the settings of the whole cluster: all, or one
    Get(GetArgs),
    /// Find objects that no file owns, and remove them, now
    Clean(CleanArgs),
    /// Write manual pages, for packages of heorot
    #[command(hide = true)]
    Man(ManArgs),
    /// Print a script that completes commands in a shell, for packages of heorot
    #[command(hide = true)]
    Completions(CompletionsArgs),
    /// Check a configuration file of a metaserver or a data server
    CheckConfig(CheckConfigArgs),
    /// Measure a file system: this one or any other that is mounted
    #[command(disable_help_flag = true)]
    Bench(BenchProgramArgs),
    /// Say what hardware allows: how fast N clients can read or write, what binds, and what would double it
    #[command(disable_help_flag = true)]
    Model(BenchProgramArgs),
}

impl Command {
    /// True if the command runs servers.
    pub(crate) fn serves(&self) -> bool {
        matches!(self, Self::Up(_) | Self::Run(_) | Self::Mds(_) | Self::Ds(_))
    }

    /// Name of this process as a child of another heorot.
    pub(crate) fn part(&self) -> Option<&str> {
        match self {
            Self::Mds(args) => args.part.as_deref(),
            Self::Ds(args) => args.run.as_ref()?.part.as_deref(),
            _ => None,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// Where everything is kept; made if it is not there
    #[arg(long, value_name = "DIR", default_value = UP_DIR)]
    pub data: PathBuf,
    /// How many data servers; when started again, as many as before [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub data_servers: Option<u16>,
    /// How many metaservers: more than one keep the same name space, each server a process of its own that
    /// can be killed; metaserver i on the port of --listen plus 100 i; when started again, as many as before
    /// [default: 1, and everything in one process]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=7))]
    pub metaservers: Option<u16>,
    /// Address of the metaserver; data server i listens on the port after it, plus i. On other addresses than
    /// 127.0.0.1, root of a client is squashed and clients must use ports below 1024
    #[arg(long, value_name = "ADDR[:PORT]", default_value = "127.0.0.1:2049")]
    pub listen: ListenAddress,
    /// Root of a client stays root, also on another address than 127.0.0.1: each machine that can reach it
    /// can do everything. It stays so at the next start: heorot export set / --squash root ends it
    #[arg(long)]
    pub no_root_squash: bool,
    /// Address of the metrics page; with --admin-token-file also of the admin interface, which is otherwise a
    /// socket in DIR
    #[arg(long, value_name = "ADDR:PORT", default_value = ADMIN_DEFAULT)]
    pub admin: SocketAddr,
    /// Serve the admin interface on its address, too, to those that show the token in FILE; made if it is not
    /// there
    #[arg(long, value_name = "FILE")]
    pub admin_token_file: Option<PathBuf>,
    /// The group whose members may use the admin socket [default: heorot, if the machine has it]
    #[arg(long, value_name = "GROUP")]
    pub admin_group: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// The configuration file, TOML; docs/examples has one of each
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Run as NAME below another heorot: it ends with that one, and NAME stands before each line of its log
    #[arg(long, value_name = "NAME", hide = true)]
    pub part: Option<String>,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub(crate) struct DsArgs {
    #[command(flatten)]
    pub run: Option<ConfigArgs>,
    #[command(subcommand)]
    pub command: Option<DsCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DsCommand {
    /// Have this machine's data server obey the metaservers that were restored from a backup, and no others
    Adopt {
        #[command(flatten)]
        admin: AdminArgs,
    },
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
        /// Also if too few metaservers are left that can be reached, or if a data server has objects: they
        /// are lost then
        #[arg(long)]
        force: bool,
        /// Which server of a machine that has both
        #[arg(long, value_name = "ROLE", value_enum)]
        role: Option<Role>,
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

#[derive(Debug, Subcommand)]
pub(crate) enum TargetCommand {
    /// Show all storage targets: those that data servers have, that files name, or that are lost
    List {
        #[command(flatten)]
        admin: AdminArgs,
        /// As JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Give a data server one more target, such as a new disk, while it runs; on the machine of the data server
    #[command(after_help = "Examples:\n\
        \x20 heorot target add /data/sdc\n\
        \x20 heorot target add /data/sdc --config /etc/heorot/ds.toml\n\
        The directory goes into `targets` of the data server's file, whose comments stay.\n\
        A running data server takes it in at once, one that does not run at its next start.\n\
        Nothing is changed if the directory cannot be a target.")]
    Add {
        /// An empty directory, by its absolute path; or a target of this cluster that no data server serves now
        dir: PathBuf,
        /// The data server's file [default: ds.toml in the node's directory, which --admin names]
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Move the data of a target to others, while they are in use; it gets no new data
    Drain {
        /// Its id, or its data server and directory: ds1:/data/sdb
        name: String,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Use a target again that drains
    Undrain {
        /// Its id, or its data server and directory: ds1:/data/sdb
        name: String,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Take a target that was drained out of the cluster
    Remove {
        /// Its id, or its data server and directory: ds1:/data/sdb
        name: String,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Drain a target, and put another one into its pool
    Replace {
        /// Its id, or its data server and directory: ds1:/data/sdb
        name: String,
        /// The target that takes its place, named in the same way
        by: String,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Declare a target lost: reading file data that were on it is an error from then on, and nothing waits
    /// for it
    Lost {
        /// Its id, or its data server and directory: ds1:/data/sdb
        name: String,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Use a target again that was declared lost, or removed
    Found {
        /// Its id, or its data server and directory: ds1:/data/sdb
        name: String,
        #[command(flatten)]
        admin: AdminArgs,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RebalanceArgs {
    /// Stay until the targets of each pool are equally full, or nothing more can move
    #[arg(long)]
    pub wait: bool,
    #[command(flatten)]
    pub admin: AdminArgs,
    /// As JSON, for programs
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct FilesArgs {
    /// A data server's name or id, or a target's id, or its data server and directory: ds1:/data/sdb
    #[arg(long, value_name = "NAME")]
    pub on: String,
    #[command(flatten)]
    pub admin: AdminArgs,
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

#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The file; it is replaced when the backup is whole. -: standard output, checked by the exit status
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
    /// The metaserver's future `data_dir`: an empty directory, or none yet
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// The secret of the cluster that the backup was taken of: only with it are the data servers' objects
    /// found
    #[arg(long, value_name = "FILE")]
    pub secret_file: PathBuf,
    /// Take another secret than the backup's cluster had: names, attributes and files of up to 64 KiB are
    /// restored, the data of larger files are not
    #[arg(long)]
    pub other_secret: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CleanArgs {
    /// Also within an hour after this group was restored from a backup: objects made after the backup go to
    /// the trash
    #[arg(long)]
    pub after_restore: bool,
    #[command(flatten)]
    pub admin: AdminArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CheckConfigArgs {
    /// The file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

#[cfg(test)]
mod tests;
