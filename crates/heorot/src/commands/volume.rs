//! `heorot volume …`.

use std::time::Duration;

use host::size;

use crate::admin::api::{Done, SnapshotName, Stripe, StripeRequest, Volume, VolumeRequest};
use crate::admin::client::AdminClient;
use crate::cli::VolumeCommand;
use crate::cli::table::aligned;
use crate::commands::snapshot::parts;
use crate::commands::stripe;
use command_line::Failure;

/// Interval at which the end of a promotion is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// `heorot volume …`.
pub(crate) fn volume(command: &VolumeCommand) -> Result<(), Failure> {
    let request = |action: &str, path: &str| VolumeRequest {
        action: action.into(),
        path: path.into(),
        to: None,
        force: false,
        unit_bytes: None,
        columns: None,
        copies: None,
        pool: None,
        snapshot: None,
    };
    let (request, admin) = match command {
        VolumeCommand::List { admin, json } => {
            return show(&volumes(&AdminClient::find(admin)?)?, *json);
        }
        VolumeCommand::Show { path, admin, json } => {
            return show(&[named(&AdminClient::find(admin)?, path)?], *json);
        }
        VolumeCommand::Set { path, unit, columns, copies, pool, admin } => {
            let client = AdminClient::find(admin)?;
            let path = named(&client, path)?.path.unwrap_or_default();
            let (unit_bytes, columns, copies, pool) = (*unit, *columns, *copies, pool.clone());
            let request = StripeRequest { path, inherit: false, unit_bytes, columns, copies, pool };
            let striped: Stripe = client.put("/stripe", &request)?;
            println!("{}", stripe::line(&striped));
            return Ok(());
        }
        VolumeCommand::Create { path, unit, columns, copies, pool, admin } => {
            let (unit_bytes, columns, copies, pool) = (*unit, *columns, *copies, pool.clone());
            (VolumeRequest { unit_bytes, columns, copies, pool, ..request("create", path) }, admin)
        }
        VolumeCommand::Clone { snapshot, path, admin } => {
            let (volume, name) = parts(snapshot)?;
            let snapshot = Some(SnapshotName { volume, name });
            (VolumeRequest { snapshot, ..request("clone", path) }, admin)
        }
        VolumeCommand::Promote { path, wait, admin } => {
            let client = AdminClient::find(admin)?;
            let done: Done = client.put("/volume", &request("promote", path))?;
            println!("{}", done.done);
            while *wait && named(&client, path)?.clone_of.is_some() {
                std::thread::sleep(LOOK_EVERY);
            }
            return Ok(());
        }
        VolumeCommand::Rename { path, to, admin } => {
            (VolumeRequest { to: Some(to.clone()), ..request("rename", path) }, admin)
        }
        VolumeCommand::Remove { path, force, admin } => {
            (VolumeRequest { force: *force, ..request("remove", path) }, admin)
        }
    };
    let done: Done = AdminClient::find(admin)?.put("/volume", &request)?;
    println!("{}", done.done);
    Ok(())
}

fn volumes(client: &AdminClient) -> Result<Vec<Volume>, Failure> {
    client.get("/volumes", &[])
}

/// The volume with this path.
fn named(client: &AdminClient, path: &str) -> Result<Volume, Failure> {
    let wanted = format!("/{}", path.trim_matches('/'));
    let found = volumes(client)?.into_iter().find(|volume| volume.path.as_ref() == Some(&wanted));
    found.ok_or_else(|| Failure::new(format!("{wanted} is no volume; heorot volume list shows the volumes")))
}

fn show(volumes: &[Volume], json: bool) -> Result<(), Failure> {
    match json {
        true => println!("{:#}", serde_json::json!(volumes)),
        false => print!("{}", table(volumes)),
    }
    Ok(())
}

fn table(volumes: &[Volume]) -> String {
    let head = ["volume", "files", "used", "volumes in it", "snapshots", "kept for them", "id", "clone of"];
    let mut rows = vec![head.map(String::from).to_vec()];
    for volume in volumes {
        let Volume { id, path, inodes, bytes, volumes, snapshots, snapshot_bytes, .. } = volume;
        let path = path.clone().unwrap_or_else(|| "(removed; its files are being deleted)".into());
        // Its root is none of its files.
        let files = inodes.saturating_sub(1);
        let (used, kept) = (size::show(*bytes), size::show(*snapshot_bytes));
        let numbers =
            [files.to_string(), used, volumes.to_string(), snapshots.to_string(), kept, id.to_string()];
        let mut origin = volume.clone_of.clone().unwrap_or_default();
        if volume.is_promoted {
            origin += " (not for long)";
        }
        rows.push([vec![path], numbers.to_vec(), vec![origin]].concat());
    }
    aligned(&rows, 1..=6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_what_is_there_and_what_is_going() {
        let volume = |id, path: Option<&str>, inodes| Volume {
            id,
            path: path.map(Into::into),
            inodes,
            bytes: inodes << 12,
            volumes: u32::from(id == 0),
            snapshots: id,
            snapshot_bytes: u64::from(id) << 10,
            created: Some(0),
            clone_of: (id == 7).then(|| "/v@base".into()),
            is_promoted: id == 7,
        };
        let expected = "\
volume                                   files     used  volumes in it  snapshots  kept for them  id  clone of
/                                          100  404 KiB              1          0            0 B   0
/home                                        0    4 KiB              0          7          7 KiB   7  /v@base (not for long)
(removed; its files are being deleted)  123455  482 MiB              0          3          3 KiB   3
";
        let shown =
            table(&[volume(0, Some("/"), 101), volume(7, Some("/home"), 1), volume(3, None, 123_456)]);
        assert_eq!(shown, expected);
    }
}
