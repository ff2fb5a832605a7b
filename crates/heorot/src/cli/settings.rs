//! Command line of exports, settings and service addresses of the whole cluster.

use std::net::IpAddr;

use clap::{Args, Subcommand, ValueEnum};
use host::Network;

use crate::admin::place::AdminArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum ExportCommand {
    /// Show all exports
    List {
        #[command(flatten)]
        admin: AdminArgs,
        /// As JSON, for programs
        #[arg(long)]
        json: bool,
    },
    #[command(group = clap::ArgGroup::new("rules").multiple(true))]
    /// Export a directory, `/` for all, to networks: read and write, root squashed, ports below 1024, unless
    /// options say otherwise
    Add {
        /// Directory in the volume, whose root is "/"
        path: String,
        /// Where the clients are, such as 10.0.0.0/8; "*" is every network
        #[arg(long = "network", value_name = "NETWORK,…", value_parser = networks, value_delimiter = ',', required = true)]
        networks: Vec<Networks>,
        #[command(flatten)]
        rules: ExportRules,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Change the rules of exports, at once and for clients that have it mounted, too
    #[command(group = clap::ArgGroup::new("rules").required(true).multiple(true))]
    Set {
        /// Directory in the volume
        path: String,
        /// Of these networks only [default: of all of the directory]
        #[arg(long = "network", value_name = "NETWORK,…", value_parser = networks, value_delimiter = ',')]
        networks: Vec<Networks>,
        #[command(flatten)]
        rules: ExportRules,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// End exports, also for clients that have it mounted
    Remove {
        /// Directory in the volume
        path: String,
        /// Of these networks only [default: of all of the directory]
        #[arg(long = "network", value_name = "NETWORK,…", value_parser = networks, value_delimiter = ',')]
        networks: Vec<Networks>,
        #[command(flatten)]
        admin: AdminArgs,
    },
}

/// Rules of an export; a rule without an option stays as it is.
#[derive(Debug, Args)]
pub(crate) struct ExportRules {
    /// Clients may change files
    #[arg(long, group = "rules", conflicts_with = "ro")]
    pub rw: bool,
    /// Clients may change nothing
    #[arg(long, group = "rules")]
    pub ro: bool,
    /// Users that become the anonymous user: none, root, or all
    #[arg(long, value_enum, group = "rules")]
    pub squash: Option<SquashArg>,
    /// User and group of the anonymous user [default of a new export: 65534:65534]
    #[arg(long, value_name = "UID:GID", group = "rules")]
    pub anonymous: Option<String>,
    /// Only ports below 1024 are served, which only a client's root can use
    #[arg(long, group = "rules", conflicts_with = "insecure")]
    pub secure: bool,
    /// Every port is served
    #[arg(long, group = "rules")]
    pub insecure: bool,
    /// Consistency of reads with several metaservers: strict, or lazy as close-to-open needs it
    #[arg(long, value_enum, group = "rules")]
    pub consistency: Option<ConsistencyArg>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SquashArg {
    None,
    Root,
    All,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConsistencyArg {
    Strict,
    Lazy,
}

impl ExportRules {
    /// Rules as words of an export.
    pub(crate) fn words(&self) -> String {
        let mut words = Vec::new();
        for (is_said, word) in
            [(self.rw, "rw"), (self.ro, "ro"), (self.secure, "secure"), (self.insecure, "insecure")]
        {
            words.extend(is_said.then(|| word.to_owned()));
        }
        words.extend(self.squash.map(|squash| {
            let squash = match squash {
                SquashArg::None => "none",
                SquashArg::Root => "root",
                SquashArg::All => "all",
            };
            format!("squash={squash}")
        }));
        words.extend(self.anonymous.as_ref().map(|ids| format!("anonymous={ids}")));
        words.extend(self.consistency.map(|consistency| match consistency {
            ConsistencyArg::Strict => "strict".to_owned(),
            ConsistencyArg::Lazy => "lazy".to_owned(),
        }));
        words.join(",")
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum ServiceAddressCommand {
    /// Show the addresses, and which metaserver holds each
    List {
        #[command(flatten)]
        admin: AdminArgs,
        /// As JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Have metaservers hold one more address
    Add {
        /// An address of the clients' network that no machine has
        address: IpAddr,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Have no metaserver hold an address any more: clients that mounted it lose their connection
    Remove {
        /// One of the addresses
        address: IpAddr,
        #[command(flatten)]
        admin: AdminArgs,
    },
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("to").required(true))]
pub(crate) struct SetArgs {
    /// The setting, as heorot get shows it
    pub key: String,
    /// Its value from now on, at all metaservers
    #[arg(group = "to")]
    pub value: Option<String>,
    /// Its default holds again
    #[arg(long, group = "to")]
    pub default: bool,
    #[command(flatten)]
    pub admin: AdminArgs,
}

#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// The setting [default: all]
    pub key: Option<String>,
    #[command(flatten)]
    pub admin: AdminArgs,
    /// As JSON, for programs
    #[arg(long)]
    pub json: bool,
}

/// One network, or all networks of both address families.
pub(crate) type Networks = Vec<Network>;

fn networks(text: &str) -> Result<Networks, String> {
    match text {
        "*" => Ok(vec![Network::ALL_V4, Network::ALL_V6]),
        text => Ok(vec![text.parse()?]),
    }
}
