//! `heorot quota …`.

use std::time::Duration;

use host::{size, time};

use crate::admin::api::{Done, Quota, QuotaRequest};
use crate::admin::client::AdminClient;
use crate::cli::QuotaCommand;
use crate::cli::table::aligned;
use command_line::Failure;

/// `heorot quota …`.
pub(crate) fn quota(command: &QuotaCommand) -> Result<(), Failure> {
    match command {
        QuotaCommand::Report { path, admin, json } => {
            let query: Vec<(&str, &str)> = path.iter().map(|path| ("path", path.as_str())).collect();
            let quotas: serde_json::Value = AdminClient::find(admin)?.get("/quotas", &query)?;
            if *json {
                println!("{quotas:#}");
            } else {
                print!("{}", table(&serde_json::from_value::<Vec<Quota>>(quotas)?));
            }
            Ok(())
        }
        QuotaCommand::Set { path, user, group, bytes, soft_bytes, files, soft_files, grace, admin } => {
            let grace_seconds = grace.map(|grace| u32::try_from(grace.as_secs()).unwrap_or(u32::MAX));
            let request = QuotaRequest {
                path: path.clone(),
                user: user.clone(),
                group: group.clone(),
                bytes_hard: *bytes,
                bytes_soft: *soft_bytes,
                files_hard: *files,
                files_soft: *soft_files,
                grace_seconds,
            };
            let done: Done = AdminClient::find(admin)?.put("/quota", &request)?;
            println!("{}", done.done);
            Ok(())
        }
    }
}

fn table(quotas: &[Quota]) -> String {
    let head = ["volume", "of", "used", "soft", "limit", "files", "soft", "limit", ""];
    let mut rows = vec![head.map(String::from).to_vec()];
    for quota in quotas {
        let of = match (&quota.user, &quota.group) {
            (Some(user), _) => format!("user {user}"),
            (None, Some(group)) => format!("group {group}"),
            (None, None) => "all".into(),
        };
        let limit = |limit: u64, shown: fn(u64) -> String| if limit == 0 { "-".into() } else { shown(limit) };
        let number = |number: u64| number.to_string();
        rows.push(vec![
            quota.path.clone(),
            of,
            size::show(quota.bytes),
            limit(quota.bytes_soft, size::show),
            limit(quota.bytes_hard, size::show),
            quota.files.to_string(),
            limit(quota.files_soft, number),
            limit(quota.files_hard, number),
            note(quota),
        ]);
    }
    aligned(&rows, 2..=7)
}

fn note(quota: &Quota) -> String {
    match quota.grace_left {
        _ if !quota.is_counted => "is being counted".into(),
        Some(0) => "above a soft limit for too long: nothing can grow".into(),
        Some(left) => format!("above a soft limit: {} left", time::show(Duration::from_secs(left))),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_usage_beside_limits() {
        let quota = |user: Option<&str>, bytes_hard, grace_left| Quota {
            path: "/a".into(),
            user: user.map(Into::into),
            group: None,
            bytes: 3 << 30,
            bytes_hard,
            bytes_soft: 0,
            files: 7,
            files_hard: 0,
            files_soft: 5,
            grace_seconds: 60,
            grace_left,
            is_counted: true,
        };
        let expected = "\
volume  of            used  soft   limit  files  soft  limit
/a      all          3 GiB     -   4 GiB      7     5      -
/a      user beow    3 GiB     -       -      7     5      -  above a soft limit: 1m left
/a      user grend   3 GiB     -  10 GiB      7     5      -  above a soft limit for too long: nothing can grow
";
        let all = [
            quota(None, 4 << 30, None),
            quota(Some("beow"), 0, Some(60)),
            quota(Some("grend"), 10 << 30, Some(0)),
        ];
        let squeezed = |text: &str| {
            text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
        };
        assert_eq!(squeezed(&table(&all)), squeezed(expected));
    }
}
