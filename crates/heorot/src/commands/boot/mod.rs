//! `heorot boot …`.

mod dnsmasq;
mod import;
mod list;
mod source;

use command_line::Failure;

use crate::admin::api::{Boot, BootRequest, BootRoot, Done};
use crate::admin::client::AdminClient;
use crate::cli::{BootCommand, BootNodeCommand, GroupCommand, ImageCommand, LoaderCommand, RootArgs};
use metaserver::boot::mac_text;

/// `heorot boot …`.
pub(crate) fn boot(command: &BootCommand) -> Result<(), Failure> {
    let request = |action: &str, name: &str| BootRequest {
        action: action.into(),
        name: name.into(),
        ..BootRequest::default()
    };
    let (request, admin) = match command {
        BootCommand::Image(ImageCommand::Import { source, image, whole, force, admin }) => {
            return import::image(&AdminClient::find(admin)?, source, image, *whole, *force);
        }
        BootCommand::Loader(LoaderCommand::Add { files, admin }) => {
            return import::loaders(&AdminClient::find(admin)?, files);
        }
        BootCommand::Image(ImageCommand::List { admin, json }) => {
            let images = boot_of(&AdminClient::find(admin)?)?.images;
            return show(&images[..], *json, list::images);
        }
        BootCommand::List { admin, json } => {
            let boot = boot_of(&AdminClient::find(admin)?)?;
            return show(&boot, *json, list::groups_and_nodes);
        }
        BootCommand::Dnsmasq { admin } => {
            print!("{}", dnsmasq::configuration(&boot_of(&AdminClient::find(admin)?)?)?);
            return Ok(());
        }
        BootCommand::Node(BootNodeCommand::Add { name, mac, group, image, admin }) => {
            let (mac, group, image) = (Some(mac_text(*mac)), group.clone(), image.clone());
            (BootRequest { mac, group, image, ..request("add-node", name) }, admin)
        }
        BootCommand::Node(BootNodeCommand::Set { name, mac, group, admin }) => {
            let (mac, group) = (mac.map(mac_text), group.clone());
            (BootRequest { mac, group, ..request("set-node", name) }, admin)
        }
        BootCommand::Node(BootNodeCommand::Remove { name, admin }) => (request("remove-node", name), admin),
        BootCommand::Group(GroupCommand::Set { name, root, words, admin }) => {
            let (root, words) = (root_of(root)?, words.clone());
            (BootRequest { root, words, ..request("set-group", name) }, admin)
        }
        BootCommand::Group(GroupCommand::Remove { name, admin }) => (request("remove-group", name), admin),
        BootCommand::Assign { name, image: None, as_group: _, admin } => {
            (request("assign-as-group", name), admin)
        }
        BootCommand::Assign { name, image, as_group: _, admin } => {
            (BootRequest { image: image.clone(), ..request("assign", name) }, admin)
        }
        BootCommand::Rollback { name, admin } => (request("rollback", name), admin),
    };
    let done: Done = AdminClient::find(admin)?.put("/boot", &request)?;
    println!("{}", done.done);
    Ok(())
}

fn boot_of(client: &AdminClient) -> Result<Boot, Failure> {
    client.get("/boot", &[])
}

fn show<T: serde::Serialize + ?Sized>(
    what: &T,
    json: bool,
    table: impl Fn(&T) -> String,
) -> Result<(), Failure> {
    match json {
        true => println!("{:#}", serde_json::json!(what)),
        false => print!("{}", table(what)),
    }
    Ok(())
}

fn root_of(args: &RootArgs) -> Result<Option<BootRoot>, Failure> {
    Ok(match (args.shared, args.clone, &args.own) {
        (Some(bytes), ..) => {
            let memory_mib = u32::try_from(bytes >> 20).ok().filter(|mib| *mib > 0).ok_or_else(|| {
                Failure::new("a node's memory for what it writes is at least 1MiB and below 4PiB")
            })?;
            Some(BootRoot::Shared { memory_mib })
        }
        (None, true, _) => Some(BootRoot::Clone),
        (None, false, Some(directories)) => Some(BootRoot::Own { directories: directories.clone() }),
        (None, false, None) => None,
    })
}
