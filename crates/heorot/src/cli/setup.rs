//! Options of the commands that make a node, and run it: `heorot init`, `heorot join`, `heorot run`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::ADMIN_DEFAULT;
use crate::node::listen::PORT_DEFAULT;
use crate::node::name;

/// Default directory of a node.
pub(crate) const NODE_DIR: &str = "/var/lib/heorot";

/// Server of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    /// Metaserver: names, attributes, locks. Three or five of a cluster's nodes
    Mds,
    /// Data server: file data
    Ds,
}

#[derive(Debug, Args)]
pub(crate) struct NodeSetupArgs {
    /// The node's directory; made if it is not there
    #[arg(long, value_name = "DIR", default_value = NODE_DIR)]
    pub dir: PathBuf,
    /// The servers of the node
    #[arg(long = "role", value_name = "ROLE,…", value_enum, value_delimiter = ',', default_value = "mds,ds")]
    pub roles: Vec<Role>,
    /// The address that the other machines and the clients reach this one at [default: as it is in the
    /// network]
    #[arg(long, value_name = "ADDR")]
    pub address: Option<IpAddr>,
    /// The node's name, for people [default: the machine's]
    #[arg(long, value_name = "NAME", value_parser = name::parse)]
    pub name: Option<String>,
    /// Where file data are kept: a directory for each disk, each with a --target [default: DIR/target]
    #[arg(long = "target", value_name = "DIR")]
    pub targets: Vec<PathBuf>,
    /// Address for the data server's clients, of no machine: another data server that has one, too, holds it
    /// while this one is dead or hangs
    #[arg(long, value_name = "ADDR")]
    pub data_service_address: Option<IpAddr>,
    /// What one fault may take together with other data servers, such as a rack: copies are kept in different
    /// zones
    #[arg(long, value_name = "NAME", value_parser = name::parse)]
    pub zone: Option<String>,
    /// Where clients mount; the data server is on the port after it, and the other metaservers come on the
    /// third
    #[arg(long, value_name = "PORT", default_value_t = PORT_DEFAULT, value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    /// Address of the metrics page; the data server's is on the port after it
    #[arg(long, value_name = "ADDR:PORT", default_value = ADMIN_DEFAULT)]
    pub admin: SocketAddr,
}

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    #[command(flatten)]
    pub node: NodeSetupArgs,
    /// Addresses that clients mount, and that move to a metaserver that lives; heorot service-address changes
    /// them later
    #[arg(long = "service-address", value_name = "ADDR,…", value_delimiter = ',')]
    pub service_addresses: Vec<IpAddr>,
    /// Root of a client stays root: each machine that can reach the cluster can do everything; heorot export
    /// changes that later
    #[arg(long)]
    pub no_root_squash: bool,
}

#[derive(Debug, Args)]
pub(crate) struct NodeJoinArgs {
    /// A metaserver of the cluster
    #[arg(value_name = "ADDR[:PORT]", value_parser = member)]
    pub member: String,
    /// The file with the token that heorot token printed on a node; -: standard input, or asked for at a
    /// terminal
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub token_file: PathBuf,
    #[command(flatten)]
    pub node: NodeSetupArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The node's directory
    #[arg(value_name = "DIR", default_value = NODE_DIR)]
    pub dir: PathBuf,
}

/// Refuses a join token as an argument: every user of the machine can read command lines.
fn member(text: &str) -> Result<String, String> {
    if text.starts_with("heorot") && text.contains('-') && text.len() > 64 {
        return Err("this is a join token, which others may have seen now: revoke it, make another, and give it by --token-file \
                    or on standard input"
            .into());
    }
    Ok(text.into())
}
