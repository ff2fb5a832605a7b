//! `heorot target …` and `heorot files`: storage targets, and the files that have data on them.

use host::size;

use crate::admin::api::{Files, KnownTarget, NodeDone, TargetRequest};
use crate::admin::client::AdminClient;
use crate::cli::table::aligned;
use crate::cli::{FilesArgs, TargetCommand};
use crate::commands::target_add;
use command_line::Failure;

/// `heorot target …`.
pub(crate) fn target(command: &TargetCommand) -> Result<(), Failure> {
    let (name, action, by, admin) = match command {
        TargetCommand::List { admin, json } => return list(&AdminClient::find(admin)?, *json),
        TargetCommand::Add { dir, config, admin } => return target_add::add(dir, config.as_deref(), admin),
        TargetCommand::Drain { name, admin } => (name, "drain", None, admin),
        TargetCommand::Undrain { name, admin } => (name, "undrain", None, admin),
        TargetCommand::Remove { name, admin } => (name, "remove", None, admin),
        TargetCommand::Replace { name, by, admin } => (name, "replace", Some(by.clone()), admin),
        TargetCommand::Lost { name, admin } => (name, "lost", None, admin),
        TargetCommand::Found { name, admin } => (name, "found", None, admin),
    };
    let request = TargetRequest { name: name.clone(), action: action.into(), by };
    let done: NodeDone = AdminClient::find(admin)?.put("/target", &request)?;
    println!("{}", done.done);
    Ok(())
}

fn list(client: &AdminClient, json: bool) -> Result<(), Failure> {
    let targets: serde_json::Value = client.get("/targets", &[])?;
    if json {
        println!("{targets:#}");
        return Ok(());
    }
    print!("{}", table(&serde_json::from_value::<Vec<KnownTarget>>(targets)?));
    Ok(())
}

/// Bytes in the trash count as free; the reserve does not.
fn table(targets: &[KnownTarget]) -> String {
    let headings = [
        "target",
        "state",
        "total",
        "free",
        "trash",
        "reserve",
        "chains",
        "pool",
        "zone",
        "data server and directory",
    ];
    let mut rows = vec![headings.map(String::from).to_vec()];
    rows.extend(targets.iter().map(|target| {
        let bytes = |bytes: Option<u64>| bytes.map_or_else(|| "-".into(), size::show);
        let place = match &target.server {
            Some(server) => format!("{server}:{}", target.path),
            None => "-".into(),
        };
        vec![
            target.id.clone(),
            target.state.clone(),
            bytes(target.total_bytes),
            bytes(target.free_bytes),
            bytes(target.trash_bytes),
            bytes(target.reserve_bytes),
            target.chains.to_string(),
            target.pool.clone(),
            if target.zone.is_empty() { "-".into() } else { target.zone.clone() },
            place,
        ]
    }));
    aligned(&rows, 2..=6)
}

/// `heorot files`.
pub(crate) fn files(args: &FilesArgs) -> Result<(), Failure> {
    let client = AdminClient::find(&args.admin)?;
    let mut after: Option<String> = None;
    loop {
        let mut query = vec![("on", args.on.as_str())];
        query.extend(after.as_deref().map(|mark| ("after", mark)));
        let page: Files = client.get("/files", &query)?;
        for path in &page.paths {
            println!("{path}");
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_what_is_free_in_the_trash_and_left_alone() {
        let target = KnownTarget {
            id: "00000000000000ff".into(),
            server: Some("ds0".into()),
            zone: "r1".into(),
            pool: "flash".into(),
            path: "/a".into(),
            state: "in use".into(),
            total_bytes: Some(100 << 30),
            free_bytes: Some(60 << 30),
            trash_bytes: Some(3 << 30),
            reserve_bytes: Some(128 << 20),
            chains: 64,
        };
        let gone = KnownTarget {
            server: None,
            zone: String::new(),
            state: "away".into(),
            total_bytes: None,
            free_bytes: None,
            trash_bytes: None,
            reserve_bytes: None,
            chains: 0,
            ..target.clone()
        };
        let expected = "\
target            state     total    free  trash  reserve  chains  pool   zone  data server and directory
00000000000000ff  in use  100 GiB  60 GiB  3 GiB  128 MiB      64  flash  r1    ds0:/a
00000000000000ff  away          -       -      -        -       0  flash  -     -
";
        assert_eq!(table(&[target, gone]), expected);
    }
}
