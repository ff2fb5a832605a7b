//! Commands for machines that boot from images.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use host::size;
use metaserver::boot::parse_mac;

use crate::admin::place::AdminArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum BootCommand {
    /// Show or import images
    #[command(subcommand)]
    Image(ImageCommand),
    /// Add, change or remove nodes
    #[command(subcommand)]
    Node(BootNodeCommand),
    /// Make, change or remove groups of nodes
    #[command(subcommand)]
    Group(GroupCommand),
    /// Add files that firmware loads first, such as iPXE
    #[command(subcommand)]
    Loader(LoaderCommand),
    /// Have a group, or a node alone, boot another image from its next boot on
    #[command(group = clap::ArgGroup::new("to").required(true))]
    Assign {
        /// A group or a node
        name: String,
        /// The image
        #[arg(value_name = "IMAGE@VERSION", group = "to")]
        image: Option<String>,
        /// A node: what its group boots, and no image of its own any more
        #[arg(long, group = "to")]
        as_group: bool,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Have a group, or a node alone, boot what it booted before the last change
    Rollback {
        /// A group or a node
        name: String,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Show groups and nodes, and what each boots
    List {
        #[command(flatten)]
        admin: AdminArgs,
        /// As JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Print the configuration of dnsmasq, which answers DHCP for the nodes
    Dnsmasq {
        #[command(flatten)]
        admin: AdminArgs,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ImageCommand {
    /// Make a version of an image of a directory or a tar: a volume's tree becomes what that has, and a snapshot of it
    #[command(after_help = "Examples:\n\
        \x20 heorot boot image import /srv/debian debian@12.1\n\
        \x20 mmdebstrap ... bookworm - | heorot boot image import - debian@12.1\n\
        Files that are there with the same size and time are kept: versions share them.")]
    Import {
        /// A directory, a tar file, or - for a tar on standard input
        source: PathBuf,
        /// Its name and version; its volume is /boot/images/IMAGE
        #[arg(value_name = "IMAGE@VERSION")]
        image: String,
        /// Write also files that are there with the same size and time: for sources whose times say nothing
        #[arg(long)]
        whole: bool,
        /// Also into a volume with files that is not below /boot/images: those that are not in the source are removed
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Show the images below /boot/images, and which groups and nodes boot each
    List {
        #[command(flatten)]
        admin: AdminArgs,
        /// As JSON, for programs
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum BootNodeCommand {
    /// Add a node
    Add {
        /// Its name, which becomes its host name
        name: String,
        /// MAC address of the interface that it boots from
        #[arg(value_parser = mac)]
        mac: Mac,
        /// Its group [default: nodes]
        #[arg(long)]
        group: Option<String>,
        /// Image of its own, in place of its group's
        #[arg(long, value_name = "IMAGE@VERSION")]
        image: Option<String>,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Change a node's interface or group
    #[command(group = clap::ArgGroup::new("what").required(true).multiple(true))]
    Set {
        /// Its name
        name: String,
        /// Its new MAC address
        #[arg(long, value_parser = mac, group = "what")]
        mac: Option<Mac>,
        /// Its new group
        #[arg(long, group = "what")]
        group: Option<String>,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Remove a node: it does not boot any more; what it has of its own stays
    Remove {
        /// Its name
        name: String,
        #[command(flatten)]
        admin: AdminArgs,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum GroupCommand {
    /// Make a group, or change what root its nodes have
    Set {
        /// Its name
        name: String,
        #[command(flatten)]
        root: RootArgs,
        /// More words for the kernel, such as "console=ttyS0"
        #[arg(long)]
        words: Option<String>,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Remove a group without nodes
    Remove {
        /// Its name
        name: String,
        #[command(flatten)]
        admin: AdminArgs,
    },
}

/// Kind of a group's root.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct RootArgs {
    /// One root for all, read-only; what a node writes is in its memory, up to SIZE, until it goes down
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub shared: Option<u64>,
    /// A root for the group, which its nodes write to: a clone of the image
    #[arg(long)]
    pub clone: bool,
    /// One root for all, and these directories of each node's own, which last, such as /etc,/var
    #[arg(long, value_name = "DIR,…", value_delimiter = ',')]
    pub own: Option<Vec<String>>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LoaderCommand {
    /// Put files into /boot/loaders, for TFTP and HTTP
    Add {
        /// Files, such as /usr/lib/ipxe/ipxe.efi
        #[arg(required = true)]
        files: Vec<PathBuf>,
        #[command(flatten)]
        admin: AdminArgs,
    },
}

/// A MAC address.
pub(crate) type Mac = [u8; 6];

fn mac(text: &str) -> Result<Mac, String> {
    parse_mac(text).ok_or_else(|| format!("{text:?} is no MAC address such as 52:54:00:12:34:56"))
}
