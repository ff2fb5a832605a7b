//! `heorot snapshot …`.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::admin::api::{Snapshot, SnapshotDone, SnapshotRequest};
use crate::admin::client::AdminClient;
use crate::cli::SnapshotCommand;
use crate::cli::table::aligned;
use command_line::Failure;
use host::time;

/// `heorot snapshot …`.
pub(crate) fn snapshot(command: &SnapshotCommand) -> Result<(), Failure> {
    match command {
        SnapshotCommand::Create { snapshot, timeout, admin } => {
            let client = AdminClient::find(admin)?;
            let request = request("create", snapshot, false)?;
            create(Duration::from_secs(*timeout), || client.put("/snapshot", &request))
        }
        SnapshotCommand::List { volume, admin, json } => {
            let query: Vec<(&str, &str)> = volume.iter().map(|volume| ("path", volume.as_str())).collect();
            let all: Vec<Snapshot> = AdminClient::find(admin)?.get("/snapshots", &query)?;
            match json {
                true => println!("{:#}", serde_json::json!(all)),
                false => print!("{}", table(&all, now_seconds())),
            }
            Ok(())
        }
        SnapshotCommand::Remove { snapshot, force, admin } => {
            let request = request("remove", snapshot, *force)?;
            let done: SnapshotDone = AdminClient::find(admin)?.put("/snapshot", &request)?;
            println!("{}", done.done.unwrap_or_default());
            Ok(())
        }
    }
}

/// Asks until the snapshot is made. Each question takes some seconds if clients write.
fn create(timeout: Duration, ask: impl Fn() -> Result<SnapshotDone, Failure>) -> Result<(), Failure> {
    let until = Instant::now() + timeout;
    let mut said = false;
    loop {
        let waits = match ask()? {
            SnapshotDone { done: Some(done), .. } => {
                println!("{done}");
                return Ok(());
            }
            SnapshotDone { waits, .. } => waits.unwrap_or_default(),
        };
        if Instant::now() >= until {
            return Err(Failure::new(format!("not made: {waits}")));
        }
        if !std::mem::replace(&mut said, true) {
            eprintln!("{waits}");
        }
    }
}

fn request(action: &str, snapshot: &str, force: bool) -> Result<SnapshotRequest, Failure> {
    let (volume, name) = parts(snapshot)?;
    Ok(SnapshotRequest { action: action.into(), volume, name, force })
}

/// Volume and name of `VOLUME@NAME`.
fn parts(snapshot: &str) -> Result<(String, String), Failure> {
    match snapshot.rsplit_once('@') {
        Some((volume, name)) if !name.is_empty() && !name.contains('/') => Ok((volume.into(), name.into())),
        _ => Err(Failure::new(format!(
            "{snapshot:?} names no snapshot: give the path of a volume and a name, such as /home@monday, or /@monday for the \
             first volume"
        ))),
    }
}

fn now_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn table(snapshots: &[Snapshot], now: u64) -> String {
    let mut rows = vec![["snapshot", "age", "id"].map(String::from).to_vec()];
    for Snapshot { volume, name, id, created } in snapshots {
        let shown = match name {
            Some(name) => format!("{volume}@{name}"),
            None => format!("{volume} (removed ones are being deleted)"),
        };
        let seconds = created.map(|created| now.saturating_sub(u64::try_from(created).unwrap_or(0)));
        let age = seconds.map(|seconds| time::show_rounded(Duration::from_secs(seconds))).unwrap_or_default();
        rows.push(vec![shown, age, id.map(|id| id.to_string()).unwrap_or_default()]);
    }
    aligned(&rows, 1..=2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_named_by_its_volume_and_its_name() {
        let of = |text| parts(text).map_err(|failure| failure.to_string());
        assert_eq!(of("/home@monday"), Ok(("/home".into(), "monday".into())));
        assert_eq!(of("/@a"), Ok(("/".into(), "a".into())));
        assert_eq!(of("/a@b/c@d"), Ok(("/a@b/c".into(), "d".into())));
        for text in ["/home", "/home@", "/home@a/b", ""] {
            assert!(of(text).is_err_and(|why| why.contains("names no snapshot")), "{text}");
        }
    }

    #[test]
    fn the_table_shows_where_they_are_and_what_is_going() {
        let one = |name: Option<&str>| Snapshot {
            volume: "/home".into(),
            name: name.map(Into::into),
            id: name.map(|_| 8_388_609),
            created: name.map(|_| 1000),
        };
        let expected = "\
snapshot                                      age       id
/home@monday                            2 h 0 min  8388609
/home (removed ones are being deleted)
";
        let shown: Vec<String> = table(&[one(Some("monday")), one(None)], 8200)
            .lines()
            .map(|line| line.trim_end().to_owned())
            .collect();
        assert_eq!(shown, expected.lines().collect::<Vec<_>>());
    }
}
