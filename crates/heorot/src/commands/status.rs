//! `heorot status`: a verdict and tables for people, JSON for programs, an exit status for monitoring.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use cluster::Liveness;
use host::{size, time};
use metaserver::status::{Finding, Health, Refill, Verdict};

use crate::admin::api::{DataServerStatus, Status, Target};
use crate::admin::client::AdminClient;
use crate::cli::StatusArgs;
use crate::cli::table::aligned;
use command_line::Failure;

/// `heorot status`. The exit status is the verdict: 0 healthy, 1 degraded, 2 failed, 3 unknown.
pub(crate) fn status(args: &StatusArgs) -> Result<ExitCode, Failure> {
    let (text, verdict) = ask(args).map_err(Failure::unknown)?;
    print!("{text}");
    Ok(verdict.level().into())
}

fn ask(args: &StatusArgs) -> Result<(String, Verdict), Failure> {
    let answer: serde_json::Value = AdminClient::find(&args.admin)?.get("/status", &[])?;
    if answer.get("role").and_then(|role| role.as_str()) == Some("metaserver") {
        let status: Status = serde_json::from_value(answer.clone())?;
        let text = if args.json { format!("{answer:#}\n") } else { table(&status) };
        return Ok((text, status.health.verdict));
    }
    // Answer of a data server, with the cluster's status from a metaserver.
    let here: DataServerStatus = serde_json::from_value(answer.clone())?;
    let (table, health) = match here.cluster.clone() {
        Some(cluster) => {
            let status: Status = serde_json::from_value(cluster)?;
            (table(&status), status.health)
        }
        None => (alone(&here), cut_off(&here)),
    };
    let verdict = health.verdict;
    // The verdict has the same key on each node, for programs.
    let mut answer = answer;
    answer["health"] = serde_json::to_value(health)?;
    Ok((if args.json { format!("{answer:#}\n") } else { table }, verdict))
}

/// Verdict of a data server without a metaserver.
fn cut_off(here: &DataServerStatus) -> Health {
    let finding = Finding {
        verdict: Verdict::Failed,
        problem: format!("no metaserver answers this data server ({})", here.name),
        action: "start the metaservers, or look at the network of this machine; its log says which it tried"
            .into(),
    };
    Health { verdict: Verdict::Failed, findings: vec![finding] }
}

/// Status text of a data server without a metaserver.
fn alone(here: &DataServerStatus) -> String {
    let mut out = format!(
        "failed: no metaserver answers this data server ({})\n  Start the metaservers, or look at the network of this \
         machine; its log says which it tried.\n\n",
        here.name
    );
    let headings = ["target", "total", "free", "trash", "reserve", "objects", "state"];
    let mut rows = vec![headings.map(String::from).to_vec()];
    rows.extend(here.targets.iter().map(|target| {
        let (total, free) = (size::show(target.total_bytes), size::show(target.free_bytes));
        let (trash, reserve) = (size::show(target.trash_bytes), size::show(target.reserve_bytes));
        let objects = target.objects.to_string();
        vec![target.path.clone(), total, free, trash, reserve, objects, target.state.clone()]
    }));
    out.push_str(&aligned(&rows, 1..=5));
    out
}

/// Characters of the bar.
const BAR_WIDTH: usize = 20;

/// How far the refilling is, as a bar and in words.
fn refilling(refill: &Refill, percent: u8) -> String {
    let done = usize::from(percent) * BAR_WIDTH / 100;
    let bar = format!("[{:-<BAR_WIDTH$}]", "#".repeat(done));
    let (left, rate) = (size::show(refill.left_bytes), size::show(refill.bytes_per_second));
    let time = match refill.seconds_left() {
        Some(seconds) => format!(", about {} more", time::show_rounded(Duration::from_secs(seconds.max(1)))),
        None => String::new(),
    };
    format!("{bar} {percent} % of the refilling, {left} left at {rate}/s{time}")
}

fn table(status: &Status) -> String {
    let mut out = verdict(&status.health);
    let line = |out: &mut String, text: std::fmt::Arguments<'_>| {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{text}");
    };
    line(&mut out, format_args!("cluster  {}, asked {}", status.cluster, status.asked));
    line(
        &mut out,
        format_args!(
            "up       {}, {} clients with {} sessions, {} files and directories",
            time::show_rounded(Duration::from_secs(status.uptime_seconds)),
            status.clients,
            status.sessions,
            status.inodes
        ),
    );
    let states = status.states;
    line(
        &mut out,
        format_args!(
            "states   {} opens, {} locks, {} layouts, {} delegations",
            states.opens, states.locks, states.layouts, states.delegations
        ),
    );
    let (read, written) = (size::show(status.proxied_read_bytes), size::show(status.proxied_written_bytes));
    line(&mut out, format_args!("through the metaserver: {read} read, {written} written"));
    let chains = status.chains;
    if chains.count > 0 {
        line(
            &mut out,
            format_args!(
                "chains   {}, of which {} are refilled, {} move, {} lack a member, {} wait",
                chains.count, chains.refilling, chains.moving, chains.incomplete, chains.waiting
            ),
        );
    }
    if let Some(percent) = chains.refill.percent() {
        line(&mut out, format_args!("         {}", refilling(&chains.refill, percent)));
    }
    if chains.in_other_pools > 0 {
        let count = chains.in_other_pools;
        line(&mut out, format_args!("         {count} have members in other pools, which their data leave"));
    }
    match chains.copies_of_new_files {
        0 => {} // of a metaserver of an earlier version
        1 => line(&mut out, format_args!("new files have one copy: a lost target takes their data")),
        copies => line(&mut out, format_args!("new files have {copies} copies")),
    }
    if status.deferred_ops > 0 {
        line(
            &mut out,
            format_args!("{} files wait for their objects to be truncated or removed", status.deferred_ops),
        );
    }
    let refused = &status.refused;
    if let (Some(address), Some(reason)) = (&refused.last_address, &refused.last_reason) {
        line(
            &mut out,
            format_args!(
                "{} calls of clients refused by this metaserver, the last from {address} ({reason}): its log says why",
                refused.count
            ),
        );
    }
    out.push('\n');
    out.push_str(&metaservers(status));
    for service in status.service_addresses.iter().flatten() {
        let none = if service.is_of_data_servers { "no data server" } else { "no metaserver" };
        let holder = service.holder.as_deref().unwrap_or(none);
        line(&mut out, format_args!("service address {}: held by {holder}", service.address));
    }
    out.push('\n');
    let headings =
        ["data server", "address", "target", "total", "free", "used", "trash", "reserve", "objects", "state"];
    let mut rows = vec![headings.map(String::from).to_vec()];
    for server in &status.data_servers {
        let address = server.addresses.first().cloned().unwrap_or_default();
        rows.extend(server.targets.iter().map(|target| row(&server.name, &address, target)));
    }
    if rows.len() == 1 {
        out.push_str("no data servers: start one with heorot ds\n");
        return out;
    }
    out.push_str(&aligned(&rows, 3..=8));
    let objects = || status.data_servers.iter().flat_map(|s| &s.targets).map(|t| t.objects);
    let (least, most) = (objects().min().unwrap_or(0), objects().max().unwrap_or(0));
    line(&mut out, format_args!("\nbalance: {least} to {most} objects on a target"));
    out
}

/// Text of the verdict in the first line, then each finding with its action.
fn verdict(health: &Health) -> String {
    let mut out = format!("{}\n", health.verdict.word());
    for finding in &health.findings {
        let _ = writeln!(out, "  {}: {}\n    {}", finding.verdict.word(), finding.problem, finding.action);
    }
    out.push('\n');
    out
}

fn metaservers(status: &Status) -> String {
    let headings = ["metaserver", "consensus", "role", "state", "seen", "lag"];
    let mut rows = vec![headings.map(String::from).to_vec()];
    for member in &status.metaservers {
        let state = match (member.liveness, member.state.as_str()) {
            (Liveness::Silent, _) => "silent",
            (Liveness::Unknown, "serving") => "unknown",
            (Liveness::Alive | Liveness::Unknown, state) => state,
        };
        let consensus = if member.consensus.is_empty() { "-" } else { &member.consensus };
        rows.push(vec![
            member.name.clone(),
            consensus.into(),
            member.role.clone(),
            state.into(),
            seen(member.seen_ms),
            member.lag.map_or_else(|| "-".into(), |lag| lag.to_string()),
        ]);
    }
    aligned(&rows, 4..=5)
}

/// Text of the time since a server was last heard.
pub(crate) fn seen(ms: Option<u64>) -> String {
    match ms {
        None => "-".into(),
        Some(ms) if ms < 10_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        Some(ms) => format!("{} s", ms / 1000),
    }
}

fn row(server: &str, address: &str, target: &Target) -> Vec<String> {
    let used = target.total_bytes.saturating_sub(target.free_bytes);
    let percent = (u128::from(used) * 100).checked_div(target.total_bytes.into());
    // The target has not reported since the metaserver started.
    let path = if target.path.is_empty() { &target.id } else { &target.path };
    vec![
        server.into(),
        address.into(),
        path.clone(),
        size::show(target.total_bytes),
        size::show(target.free_bytes),
        percent.map_or("-".into(), |p| format!("{p} %")),
        size::show(target.trash_bytes),
        size::show(target.reserve_bytes),
        target.objects.to_string(),
        target.state.clone(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use metaserver::status::{DataServer, Metaserver, States};

    #[test]
    fn the_verdict_comes_first_then_every_server_and_target_and_the_balance() {
        let target = |path: &str, free, objects, state: &str| Target {
            id: "00ff".into(),
            path: path.into(),
            total_bytes: 100 << 30,
            free_bytes: free,
            objects,
            trash_bytes: 2 << 30,
            reserve_bytes: 128 << 20,
            state: state.into(),
        };
        let server = |name: &str, targets| DataServer {
            name: name.into(),
            addresses: vec!["10.0.0.5:2050".into()],
            targets,
            ..DataServer::default()
        };
        let status = Status {
            role: "metaserver".into(),
            cluster: "ab".into(),
            asked: "oak".into(),
            health: Health {
                verdict: Verdict::Failed,
                findings: vec![Finding {
                    verdict: Verdict::Failed,
                    problem: "data server ds1 is silent".into(),
                    action: "start it".into(),
                }],
            },
            uptime_seconds: 3 * 3600 + 12 * 60,
            clients: 2,
            sessions: 3,
            states: States { opens: 5, locks: 1, layouts: 4, delegations: 0 },
            inodes: 17,
            proxied_written_bytes: 3 << 19,
            metaservers: vec![Metaserver {
                name: "oak".into(),
                role: "leader".into(),
                state: "serving".into(),
                liveness: Liveness::Alive,
                seen_ms: Some(0),
                lag: Some(0),
                ..Metaserver::default()
            }],
            service_addresses: Some(vec![]),
            data_servers: vec![
                server("ds0", vec![target("/a", 75 << 30, 12, "ok")]),
                server("ds1", vec![target("", 0, 9, "silent")]),
            ],
            ..Status::default()
        };
        let expected = "\
failed
  failed: data server ds1 is silent
    start it

cluster  ab, asked oak
up       3 h 12 min, 2 clients with 3 sessions, 17 files and directories
states   5 opens, 1 locks, 4 layouts, 0 delegations
through the metaserver: 0 B read, 1.5 MiB written

metaserver  consensus  role    state     seen  lag
oak         -          leader  serving  0.0 s    0

data server  address        target    total    free   used  trash  reserve  objects  state
ds0          10.0.0.5:2050  /a      100 GiB  75 GiB   25 %  2 GiB  128 MiB       12  ok
ds1          10.0.0.5:2050  00ff    100 GiB     0 B  100 %  2 GiB  128 MiB        9  silent

balance: 9 to 12 objects on a target
";
        assert_eq!(table(&status), expected);
        let none = table(&Status { data_servers: vec![], health: Health::default(), ..status });
        assert!(none.starts_with("healthy\n\n"), "{none}");
        assert!(none.ends_with("no data servers: start one with heorot ds\n"));
    }

    #[test]
    fn refilling_is_shown_as_a_bar_with_the_rate_and_the_time_left() {
        let mut refill = Refill { done_bytes: 3 << 30, left_bytes: 9 << 30, bytes_per_second: 64 << 20 };
        let shown = |refill: &Refill| refill.percent().map(|percent| refilling(refill, percent));
        let expected =
            "[#####---------------] 25 % of the refilling, 9 GiB left at 64 MiB/s, about 2 min more";
        assert_eq!(shown(&refill).as_deref(), Some(expected));
        refill.bytes_per_second = 0;
        assert!(shown(&refill).unwrap().ends_with("9 GiB left at 0 B/s"));
        refill.left_bytes = 0;
        assert_eq!(shown(&refill), None, "nothing is left");
    }

    #[test]
    fn a_data_server_without_a_metaserver_says_so_and_shows_its_own_targets() {
        let here = DataServerStatus {
            role: "dataserver".into(),
            version: "1".into(),
            name: "ds0".into(),
            targets: vec![Target { path: "/a".into(), state: "ok".into(), ..Target::default() }],
            checksums: vec![],
            cluster: None,
        };
        let text = alone(&here);
        assert!(text.starts_with("failed: no metaserver answers this data server (ds0)\n"), "{text}");
        assert!(text.ends_with("/a        0 B   0 B    0 B      0 B        0  ok\n"), "{text}");
    }
}
