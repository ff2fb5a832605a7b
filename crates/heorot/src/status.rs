//! `heorot status`: a table for people, JSON for programs.

use std::fmt::Write as _;

use crate::admin_client::AdminClient;
use crate::api::{Status, Target};
use crate::cli::StatusArgs;
use crate::failure::Failure;
use crate::node::NOBODY_LEADS;
use host::size;

/// `heorot status`.
pub(crate) fn status(args: &StatusArgs) -> Result<(), Failure> {
    let client = AdminClient::find(&args.admin)?;
    let answer: serde_json::Value = client.get("/status", &[])?;
    if args.json {
        println!("{answer:#}");
        return Ok(());
    }
    if answer.get("role").and_then(|role| role.as_str()) != Some("metaserver") {
        return Err(Failure::new(format!(
            "{} is a data server's, which sees itself only; ask a metaserver's with --admin, or use \
             --json",
            client.place()
        )));
    }
    print!("{}", table(&serde_json::from_value(answer)?));
    Ok(())
}

fn table(status: &Status) -> String {
    let mut out = String::new();
    let line = |out: &mut String, text: std::fmt::Arguments<'_>| {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{text}");
    };
    line(&mut out, format_args!("cluster  {}", status.cluster));
    line(
        &mut out,
        format_args!(
            "up       {}, {} clients with {} sessions, {} files and directories",
            duration(status.uptime_seconds),
            status.clients,
            status.sessions,
            status.inodes
        ),
    );
    let (read, written) = (size::show(status.proxied_read_bytes), size::show(status.proxied_written_bytes));
    line(&mut out, format_args!("through the metaserver: {read} read, {written} written"));
    if status.work > 0 {
        line(&mut out, format_args!("{} files wait for their objects to be cut or removed", status.work));
    }
    if status.metaservers.len() > 1 {
        out.push('\n');
        for metaserver in &status.metaservers {
            let answers = if metaserver.answers { ", answers here" } else { "" };
            let (name, at, role) = (&metaserver.name, &metaserver.consensus, &metaserver.role);
            line(&mut out, format_args!("metaserver {name} at {at}: {role}{answers}"));
        }
        if !status.metaservers.iter().any(|metaserver| metaserver.role == "leader") {
            line(&mut out, format_args!("{NOBODY_LEADS}"));
        }
    }
    for service in &status.service_addresses {
        let holder = service.holder.as_deref().unwrap_or("nobody");
        line(&mut out, format_args!("service address {}: held by {holder}", service.address));
    }
    out.push('\n');
    let headings = ["data server", "address", "target", "total", "free", "used", "objects", "state"];
    let mut rows = vec![headings.map(String::from)];
    for server in &status.data_servers {
        let address = server.addresses.first().cloned().unwrap_or_default();
        rows.extend(server.targets.iter().map(|target| row(&server.name, &address, target)));
    }
    if rows.len() == 1 {
        out.push_str("no data servers: start one with heorot ds\n");
        return out;
    }
    out.push_str(&aligned(&rows));
    let objects = || status.data_servers.iter().flat_map(|s| &s.targets).map(|t| t.objects);
    let (least, most) = (objects().min().unwrap_or(0), objects().max().unwrap_or(0));
    line(&mut out, format_args!("\nbalance: {least} to {most} objects on a target"));
    out
}

fn row(server: &str, address: &str, target: &Target) -> [String; 8] {
    let used = target.total_bytes.saturating_sub(target.free_bytes);
    let percent = (u128::from(used) * 100).checked_div(target.total_bytes.into());
    // A target that has not reported since the metaserver started.
    let path = if target.path.is_empty() { &target.id } else { &target.path };
    [
        server.into(),
        address.into(),
        path.clone(),
        size::show(target.total_bytes),
        size::show(target.free_bytes),
        percent.map_or("-".into(), |p| format!("{p} %")),
        target.objects.to_string(),
        target.state.clone(),
    ]
}

/// Columns as wide as their widest cell; numbers to the right.
fn aligned(rows: &[[String; 8]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..8).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let cell = |(column, text): (usize, &String)| match column {
            3..=6 => format!("{text:>0$}", widths[column]),
            _ => format!("{text:<0$}", widths[column]),
        };
        let cells: Vec<_> = row.iter().enumerate().map(cell).collect();
        out.push_str(cells.join("  ").trim_end());
        out.push('\n');
    }
    out
}

fn duration(seconds: u64) -> String {
    match (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0, s) => format!("{s} s"),
        (0, 0, m, s) => format!("{m} min {s} s"),
        (0, h, m, _) => format!("{h} h {m} min"),
        (d, h, ..) => format!("{d} d {h} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::DataServer;

    #[test]
    fn the_table_shows_every_target_and_the_balance() {
        let target = |path: &str, free, objects, state: &str| Target {
            id: "00ff".into(),
            path: path.into(),
            total_bytes: 100 << 30,
            free_bytes: free,
            objects,
            state: state.into(),
        };
        let server = |name: &str, targets| DataServer {
            id: "1".into(),
            name: name.into(),
            addresses: vec!["10.0.0.5:2050".into()],
            targets,
        };
        let status = Status {
            role: "metaserver".into(),
            version: "0.1.0".into(),
            cluster: "ab".into(),
            uptime_seconds: 3 * 3600 + 12 * 60,
            clients: 2,
            sessions: 3,
            inodes: 17,
            work: 0,
            proxied_read_bytes: 0,
            proxied_written_bytes: 3 << 19,
            metaservers: vec![],
            service_addresses: vec![],
            data_servers: vec![
                server("ds0", vec![target("/a", 75 << 30, 12, "ok")]),
                server("ds1", vec![target("", 0, 9, "silent")]),
            ],
        };
        let expected = "\
cluster  ab
up       3 h 12 min, 2 clients with 3 sessions, 17 files and directories
through the metaserver: 0 B read, 1.5 MiB written

data server  address        target    total    free   used  objects  state
ds0          10.0.0.5:2050  /a      100 GiB  75 GiB   25 %       12  ok
ds1          10.0.0.5:2050  00ff    100 GiB     0 B  100 %        9  silent

balance: 9 to 12 objects on a target
";
        assert_eq!(table(&status), expected);
        let none = table(&Status { data_servers: vec![], ..status });
        assert!(none.ends_with("no data servers: start one with heorot ds\n"));
    }
}
