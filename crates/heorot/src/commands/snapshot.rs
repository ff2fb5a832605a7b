//! `heorot snapshot …`.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::admin::api::{Done, Schedule, Snapshot, SnapshotDone, SnapshotRequest};
use crate::admin::client::AdminClient;
use crate::cli::SnapshotCommand;
use crate::cli::table::aligned;
use command_line::Failure;
use host::time;

/// Maximum of snapshots of each kind of a schedule: those of a volume are 4,096.
const KEEP_MAX: u16 = 1000;

/// `heorot snapshot …`.
pub(crate) fn snapshot(command: &SnapshotCommand) -> Result<(), Failure> {
    match command {
        SnapshotCommand::Create { snapshot, timeout, admin } => {
            let client = AdminClient::find(admin)?;
            let request = request("create", snapshot, false)?;
            until_done(Duration::from_secs(*timeout), || client.put("/snapshot", &request))
        }
        SnapshotCommand::Rollback { snapshot, force, timeout, admin } => {
            let client = AdminClient::find(admin)?;
            let request = request("rollback", snapshot, *force)?;
            until_done(Duration::from_secs(*timeout), || client.put("/snapshot", &request))
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
        SnapshotCommand::Schedule { volume, keep, admin, json } => {
            let client = AdminClient::find(admin)?;
            if let (Some(volume), Some(keep)) = (volume, keep) {
                let done: Done = client.put("/snapshot-schedule", &schedule(volume, keep)?)?;
                println!("{}", done.done);
                return Ok(());
            }
            let mut all: Vec<Schedule> = client.get("/snapshot-schedules", &[])?;
            let wanted = volume.as_ref().map(|volume| format!("/{}", volume.trim_matches('/')));
            all.retain(|one| wanted.as_ref().is_none_or(|wanted| one.volume == *wanted));
            match json {
                true => println!("{:#}", serde_json::json!(all)),
                false => print!("{}", schedules(&all)),
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

/// Asks until it is done. Each question takes some seconds if clients write.
fn until_done(timeout: Duration, ask: impl Fn() -> Result<SnapshotDone, Failure>) -> Result<(), Failure> {
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
            return Err(Failure::new(format!("not done: {waits}")));
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
pub(super) fn parts(snapshot: &str) -> Result<(String, String), Failure> {
    match snapshot.rsplit_once('@') {
        Some((volume, name)) if !name.is_empty() && !name.contains('/') => Ok((volume.into(), name.into())),
        _ => Err(Failure::new(format!(
            "{snapshot:?} names no snapshot: give the path of a volume and a name, such as /home@monday, or /@monday for the \
             first volume"
        ))),
    }
}

/// The schedule that `hourly=24,daily=7` or `none` means.
fn schedule(volume: &str, keep: &str) -> Result<Schedule, Failure> {
    let mut schedule = Schedule { volume: volume.into(), hourly: 0, daily: 0, weekly: 0 };
    if keep == "none" {
        return Ok(schedule);
    }
    for part in keep.split(',') {
        let (kind, number) = part.split_once('=').unwrap_or((part, ""));
        let place = match kind {
            "hourly" => &mut schedule.hourly,
            "daily" => &mut schedule.daily,
            "weekly" => &mut schedule.weekly,
            _ => return Err(not_a_schedule(keep)),
        };
        *place =
            number.parse().ok().filter(|number| *number <= KEEP_MAX).ok_or_else(|| not_a_schedule(keep))?;
    }
    Ok(schedule)
}

fn not_a_schedule(keep: &str) -> Failure {
    Failure::new(format!(
        "{keep:?} is no schedule: hourly, daily and weekly with the number to keep of each, up to {KEEP_MAX}, such as \
         hourly=24,daily=7,weekly=5; or none"
    ))
}

fn schedules(all: &[Schedule]) -> String {
    let mut rows = vec![["volume", "hourly", "daily", "weekly"].map(String::from).to_vec()];
    for Schedule { volume, hourly, daily, weekly } in all {
        rows.push([vec![volume.clone()], [hourly, daily, weekly].map(u16::to_string).to_vec()].concat());
    }
    aligned(&rows, 1..=3)
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
    fn a_schedule_says_how_many_are_kept() {
        let of = |keep| schedule("/v", keep).map(|one| (one.hourly, one.daily, one.weekly)).ok();
        assert_eq!(of("hourly=24,daily=7,weekly=5"), Some((24, 7, 5)));
        assert_eq!(of("daily=1000"), Some((0, 1000, 0)));
        assert_eq!(of("none"), Some((0, 0, 0)));
        for keep in
            ["", "hourly", "hourly=", "hourly=x", "yearly=1", "daily=1001", "hourly=1,,daily=2", "hourly=-1"]
        {
            assert_eq!(of(keep), None, "{keep}");
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
