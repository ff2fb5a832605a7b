//! `heorot target …` and `heorot files`: storage targets, and the files that have data on them.

use crate::admin_client::AdminClient;
use crate::api::{Files, KnownTarget, NodeDone, TargetRequest};
use crate::cli::{FilesArgs, TargetCommand};
use crate::failure::Failure;

/// `heorot target …`.
pub(crate) fn target(command: &TargetCommand) -> Result<(), Failure> {
    let (name, state, admin) = match command {
        TargetCommand::List { admin, json } => return list(&AdminClient::find(admin)?, *json),
        TargetCommand::Lost { name, admin } => (name, "lost", admin),
        TargetCommand::Found { name, admin } => (name, "found", admin),
    };
    let request = TargetRequest { name: name.clone(), state: state.into() };
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
    println!("{:16}  {:7}  data server and directory", "target", "state");
    for target in serde_json::from_value::<Vec<KnownTarget>>(targets)? {
        let place = match &target.server {
            Some(server) => format!("{server}:{}", target.path),
            None => "-".into(),
        };
        println!("{}  {:7}  {place}", target.id, target.state);
    }
    Ok(())
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
